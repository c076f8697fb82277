"""Names that benchmarks import of the project exist: no test runs what takes minutes."""

import ast
import importlib
import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN = ("explorer", "explorer_extras", "verification")


def imports_of(path):
    """(module, name) of all that a file imports from the project."""
    for node in ast.walk(ast.parse(path.read_text())):
        is_import = isinstance(node, ast.ImportFrom) and not node.level and node.module
        if is_import and node.module.split(".")[0] in OWN:
            yield from ((node.module, alias.name) for alias in node.names)


def is_there(module, name):
    has_name = hasattr(importlib.import_module(module), name)
    return has_name or importlib.util.find_spec(f"{module}.{name}") is not None


def test_names_that_benchmarks_import_exist():
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    found = {(path.name, *one) for path in files for one in imports_of(path)}
    assert len(found) > 100
    assert [one for one in sorted(found) if not is_there(*one[1:])] == []
