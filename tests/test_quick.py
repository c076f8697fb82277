"""What `make quick` runs (quick.txt): every layer, with the packages of `make explore` alone."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "quick.txt"
MODULES = LIST.read_text(encoding="utf-8").split()
FOR_ALL_TESTS_ONLY = {"ai_edge_litert", "cv2", "hypothesis", "nbclient", "playwright", "torch"}
"""Packages that `make test` installs and `make explore` does not."""


def test_modules_exist_and_are_sorted():
    assert [name for name in MODULES if not (ROOT / name).is_file()] == []
    assert sorted(MODULES) == MODULES


def test_every_folder_of_tests_takes_part():
    folders = {path.parent.name for path in ROOT.glob("tests/*/test_*.py")}
    assert folders - {Path(name).parts[1] for name in MODULES} == set()


def test_no_module_imports_what_only_all_tests_install():
    found = {
        (name, imported)
        for name in [*MODULES, *conftests(MODULES)]
        for node in top_level(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        for imported in imported_by(node)
        if imported.split(".")[0] in FOR_ALL_TESTS_ONLY
    }
    assert found == set()


def conftests(modules: list[str]) -> list[str]:
    """Those of the folders of these modules, and of the folders around them."""
    folders = {folder for name in modules for folder in Path(name).parents}
    found = [str(folder / "conftest.py") for folder in folders]
    return [name for name in found if (ROOT / name).is_file()]


def top_level(tree: ast.Module) -> list[ast.AST]:
    """All that is not inside of a function, which may never run."""
    found: list[ast.AST] = list(tree.body)
    for node in found:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.extend(ast.iter_child_nodes(node))
    return found


def imported_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
