"""The package of records: every name of it leads to its file."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import explorer.results as results


def test_every_name_leads_to_its_file_and_type_checkers_see_it():
    listed = [name for names in results._HOMES.values() for name in names.split()]
    assert [name for name in listed if not hasattr(results, name)] == []
    tree = ast.parse(Path(results.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {f"{node.module}.{a.name}" for node in imports for a in node.names}
    homes = results._HOMES.items()
    assert seen >= {f"explorer.results.{home}.{n}" for home, names in homes for n in names.split()}
    assert len(listed) == len(set(listed)) == len([n for n in seen if "results" in n])
    assert dir(results) == sorted(listed)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = results.Nothing


def test_a_record_is_loaded_when_its_name_is_used():
    program = """
import sys
import explorer.results as results
assert "explorer.results.graph" not in sys.modules
results.Graph
assert "explorer.results.graph" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
