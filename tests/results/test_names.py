"""The package of records: every name of it leads to its file."""

import subprocess
import sys

import pytest

import explorer.results as results


def test_every_public_name_is_there():
    assert [name for name in results.__all__ if not hasattr(results, name)] == []
    listed = [name for names in results._HOMES.values() for name in names.split()]
    assert sorted(listed) == sorted(results.__all__)


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
