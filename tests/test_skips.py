"""What was not tested is counted by its reason, and what was tested again by its name."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

CONFTEST = Path(__file__).with_name("conftest.py")


def test_skips_are_counted_by_reason(module_of_tests: Callable[[str], ModuleType]):
    def report(place: str, reason: str):
        return SimpleNamespace(longrepr=(place, 1, f"Skipped: {reason}"))

    lines: list[str] = []
    skipped = [
        report("tests/a.py", "no AVX2"),
        report("tests/b.py", "no AVX2"),
        report("tests/a.py", "no driver:\n it ended"),
        SimpleNamespace(longrepr="Skipped: no AVX2"),
    ]
    reporter = SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append)
    module_of_tests("conftest.py").pytest_terminal_summary(reporter)
    assert lines == ["skipped 3: no AVX2", "skipped 1: no driver: it ended"]


def test_nothing_is_counted_where_nothing_was_skipped(module_of_tests: Callable[[str], ModuleType]):
    lines: list[str] = []
    reporter = SimpleNamespace(stats={"passed": [1]}, write_line=lines.append)
    module_of_tests("conftest.py").pytest_terminal_summary(reporter)
    assert lines == []


def test_reruns_are_counted_by_test(module_of_tests: Callable[[str], ModuleType]):
    lines: list[str] = []
    again = [SimpleNamespace(nodeid=name) for name in ("b.py::two", "a.py::one", "b.py::two")]
    reporter = SimpleNamespace(stats={"rerun": again}, write_line=lines.append)
    module_of_tests("conftest.py").pytest_terminal_summary(reporter)
    assert lines == ["rerun 1: a.py::one", "rerun 2: b.py::two"]


def test_a_rerun_is_counted_in_a_run_with_workers(tmp_path: Path):
    """A project of its own with our hook, and a browser test that fails once."""
    (tmp_path / "conftest.py").write_text(
        "import runpy\n"
        f"ours = runpy.run_path({str(CONFTEST)!r})\n"
        "pytest_terminal_summary = ours['pytest_terminal_summary']\n"
    )
    (tmp_path / "test_once.py").write_text(
        "import pytest\nfrom pathlib import Path\n"
        "@pytest.mark.flaky(reruns=2)\n"
        "def test_second_time():\n"
        "    seen = Path(__file__).with_name('seen')\n"
        "    before = seen.exists()\n"
        "    seen.touch()\n"
        "    assert before\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "."]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "rerun 1: test_once.py::test_second_time" in run.stdout.splitlines()
