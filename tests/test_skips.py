"""What was not tested is counted by its reason."""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace


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
