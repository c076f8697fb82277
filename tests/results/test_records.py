"""Records are made by the names of their fields: nobody counts to the sixth argument."""

from __future__ import annotations

import ast
from pathlib import Path

import explorer

PACKAGE = Path(explorer.__file__).parent
MAX_POSITIONAL = 5


def records_and_crowded_calls(text: str) -> tuple[set[str], list[tuple[str, int]]]:
    """Names of the classes with the decorator, of whatever form; and calls with more positional
    arguments than anybody counts, by name and line."""
    records: set[str] = set()
    calls: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
                records.add(node.name)
        elif (
            isinstance(node, ast.Call)
            and len(node.args) > MAX_POSITIONAL
            and isinstance(node.func, ast.Name)
            and not any(isinstance(argument, ast.Starred) for argument in node.args)
        ):
            calls.append((node.func.id, node.lineno))
    return records, calls


def test_no_record_is_made_of_more_than_five_positional_arguments():
    read = {
        str(path.relative_to(PACKAGE)): records_and_crowded_calls(path.read_text())
        for path in PACKAGE.rglob("*.py")
    }
    records = set().union(*(names for names, _ in read.values()))
    assert "Trace" in records
    found = {
        path: crowded
        for path, (_, calls) in read.items()
        if (crowded := [call for call in calls if call[0] in records])
    }
    assert found == {}


def test_such_a_call_is_found():
    text = "@dataclass\nclass R: ...\nR(1, 2, 3, 4, 5, 6)\nR(1, 2)\n"
    assert records_and_crowded_calls(text) == ({"R"}, [("R", 3)])
