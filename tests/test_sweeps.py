"""Every sweep belongs to one share, whatever else there is."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
OF_SWEEPS = "tests/npu/test_kinds.py"


def test_a_name_is_in_one_of_all_shares(module_of_tests: Callable[[str], ModuleType]):
    is_in = module_of_tests("conftest.py").is_in
    names = [f"tests/test_a.py::test_{number}" for number in range(100)]
    shares = [{name for name in names if is_in(f"{share}/4", name)} for share in range(4)]
    assert all(len(share) > 10 for share in shares)
    assert sorted(name for share in shares for name in share) == sorted(names)


@pytest.mark.parametrize("share", ["4/4", "1", "a/4", "-1/4", "1/"])
def test_what_is_no_share_is_an_error(module_of_tests: Callable[[str], ModuleType], share: str):
    with pytest.raises(pytest.UsageError, match="EXPLORER_SWEEPS"):
        module_of_tests("conftest.py").is_in(share, "tests/test_a.py::test_b")


def test_other_tests_are_in_every_share(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EXPLORER_SWEEPS", "0/1000000")
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "sweep or not sweep"]
    found = subprocess.run(
        [*collect, OF_SWEEPS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "test_many_random_layers_of_every_kind" not in found.stdout
    assert "deselected" in found.stdout and found.stdout.count("::") > 2
