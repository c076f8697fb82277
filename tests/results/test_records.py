"""Records are made by the names of their fields: nobody counts to the sixth argument."""

from __future__ import annotations

import ast
from pathlib import Path

import explorer

PACKAGE = Path(explorer.__file__).parent
MAX_POSITIONAL = 5


def dataclasses_of(tree: ast.AST) -> set[str]:
    """Names of the classes with the decorator, of whatever form."""
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


def crowded_calls(tree: ast.AST, records: set[str]) -> list[str]:
    """Calls of records with more positional arguments than anybody counts."""
    return [
        f"{node.func.id} in line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in records
        and len(node.args) > MAX_POSITIONAL
        and not any(isinstance(argument, ast.Starred) for argument in node.args)
    ]


def test_no_record_is_made_of_more_than_five_positional_arguments():
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    records = set().union(*map(dataclasses_of, trees.values()))
    assert "Trace" in records
    found = {
        str(path.relative_to(PACKAGE)): calls
        for path, tree in trees.items()
        if (calls := crowded_calls(tree, records))
    }
    assert found == {}


def test_such_a_call_is_found():
    text = "@dataclass\nclass R: ...\nR(1, 2, 3, 4, 5, 6)\nR(1, 2)\n"
    tree = ast.parse(text)
    assert crowded_calls(tree, dataclasses_of(tree)) == ["R in line 3"]
