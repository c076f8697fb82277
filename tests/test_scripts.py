"""Scripts that measure the tests: durations of two runs, and small faults in the source."""

import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from runpy import run_path

import pytest
from testmon.process_code import checksums_to_blob

ROOT = Path(__file__).parents[1]
durations = run_path(str(ROOT / "scripts" / "durations.py"))
mutate = run_path(str(ROOT / "scripts" / "mutate.py"))

RECORD = """<testsuites><testsuite>
<testcase classname="tests.ir.test_a" name="test_b[1]" time="2.5">
<properties><property name="processor_seconds" value="1.250"/></properties></testcase>
<testcase classname="tests.ir.test_a" name="test_c" time="0.5"/>
</testsuite></testsuites>"""


def test_processor_time_is_read_and_wall_time_stands_in_for_it(tmp_path: Path):
    (tmp_path / "run.xml").write_text(RECORD)
    found = durations["read_durations"](tmp_path / "run.xml")
    assert {name: (d.processor, d.wall) for name, d in found.items()} == {
        "tests/ir/test_a::test_b[1]": (1.25, 2.5),
        "tests/ir/test_a::test_c": (0.5, 0.5),
    }
    assert durations["by_folder"](found) == {"ir": (2, 1.75, 3.0)}


def test_what_became_slower_is_named_and_noise_is_not():
    seconds = durations["Duration"]
    before = {"slower": seconds(1.0, 1.0), "noise": seconds(0.1, 0.1), "large": seconds(10.0, 10.0)}
    after = {
        "slower": seconds(2.0, 2.0),
        "noise": seconds(0.5, 0.5),
        "large": seconds(14.0, 14.0),
        "new": seconds(3.0, 3.0),
    }
    found = durations["compare"](before, after, 1.5)
    assert found == [("new", 0.0, 3.0), ("slower", 1.0, 2.0)]


def test_a_change_is_one_legal_fault_inside_of_a_function():
    path = ROOT / "explorer" / "memory" / "greedy.py"
    content = path.read_bytes()
    changes = mutate["changes_of"](path)
    assert len(changes) > 20
    for change in changes:
        changed = change.applied(content)
        assert changed != content
        compile(changed, path.name, "exec")


def test_a_seed_gives_the_same_changes_spread_over_folders():
    chosen = [list(mutate["chosen_changes"](3, random.Random(7))) for _ in range(2)]
    assert chosen[0] == chosen[1]
    assert len({change.file.split("/")[1] for change in chosen[0]}) == 3


def test_executed_notebooks_lie_as_they_were_found():
    # Not where tests are collected: nbformat takes seconds to import.
    run_notebooks = run_path(str(ROOT / "scripts" / "run_notebooks.py"))
    given = [Path("notebooks"), Path("other/lesson.ipynb")]
    found = [Path("notebooks/01.ipynb"), Path("notebooks/solutions/01.ipynb"), given[1]]
    places = [str(run_notebooks["place_of"](path, given)) for path in found]
    assert places == ["01.ipynb", "solutions/01.ipynb", "lesson.ipynb"]


def recorded(path: Path, tests: dict[str, tuple[str, float, int]], failed: str = "") -> Path:
    """What pytest-testmon records: each test's file, its seconds and the function it executed."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(
            "CREATE TABLE test_execution (id INTEGER, test_name TEXT, duration FLOAT, failed BIT);"
            "CREATE TABLE test_execution_file_fp (test_execution_id INTEGER,"
            " fingerprint_id INTEGER);"
            "CREATE TABLE file_fp (id INTEGER, filename TEXT, method_checksums BLOB);"
        )
        for number, (name, (file, seconds, checksum)) in enumerate(tests.items()):
            blob = checksums_to_blob([checksum])
            row = (number, name, seconds, name == failed)
            connection.execute("INSERT INTO test_execution VALUES (?, ?, ?, ?)", row)
            connection.execute("INSERT INTO test_execution_file_fp VALUES (?, ?)", (number, number))
            connection.execute("INSERT INTO file_fp VALUES (?, ?, ?)", (number, file, blob))
        connection.commit()
    return path


def test_tests_that_executed_the_changed_function_are_affected(tmp_path: Path):
    before = "def f(x):\n    return x + 1\n\n\ndef g(x):\n    return x\n"
    after = before.replace("x + 1", "(x - 1)")
    (gone,) = mutate["checksums_of"](before) - mutate["checksums_of"](after)
    other = gone + 1
    path = recorded(
        tmp_path / "record",
        {
            "tests/ir/test_a.py::test_f": ("explorer/ir/a.py", 0.25, gone),
            "tests/ir/test_a.py::test_g": ("explorer/ir/a.py", 1.0, other),
            "tests/ir/test_b.py::test_f": ("explorer/ir/b.py", 1.0, gone),
            "tests/ir/test_a.py::test_red": ("explorer/ir/a.py", 1.0, gone),
        },
        failed="tests/ir/test_a.py::test_red",
    )
    found = mutate["affected_tests"](path, "explorer/ir/a.py", before, after)
    assert found == {"tests/ir/test_a.py::test_f": 0.25}


def test_tests_of_the_changed_folder_run_first_and_then_the_fastest():
    affected = {
        "tests/app/test_a.py::slow": 3.0,
        "tests/app/test_b.py::quick": 0.5,
        "tests/ir/test_c.py::slow": 5.0,
        "tests/ir/test_d.py::quick": 1.0,
        "tests/ir/test_c.py::also": 2.0,
    }
    chosen = mutate["chosen_tests"](affected, "explorer/ir/x.py", 100)
    assert chosen == [
        "tests/ir/test_d.py::quick",
        "tests/ir/test_c.py::also",
        "tests/ir/test_c.py::slow",
        "tests/app/test_b.py::quick",
        "tests/app/test_a.py::slow",
    ]
    start = mutate["STARTING_SECONDS"]
    assert mutate["chosen_tests"](affected, "explorer/ir/x.py", 3 + 2 * start) == chosen[:2]
    assert mutate["chosen_tests"](affected, "explorer/ir/x.py", 0) == chosen[:1]


CHECKED = """import time
from pathlib import Path


def increment(x):
    return x + 1


def wait(count):
    while count > 0:
        count -= 1


def test_increment():
    assert increment(1) == 2


def test_nothing_of_it():
    increment(1)


def test_that_ends():
    wait(1)
"""


@pytest.mark.parametrize(
    ("line", "before", "after", "tests", "outcome"),
    [
        (6, "x + 1", "x - 1", ["test_increment", "test_nothing_of_it"], "noticed"),
        (6, "x + 1", "x - 1", ["test_nothing_of_it"], "missed"),
        (11, "count -= 1", "pass", ["test_that_ends"], "hung"),
        (6, "x + 1", "x - 1", [], "unreached"),
    ],
)
def test_a_change_is_noticed_missed_or_hangs(
    tmp_path: Path, line: int, before: str, after: str, tests: list[str], outcome: str
):
    copy = tmp_path / "copy"
    file = copy / "tests" / "test_it.py"
    file.parent.mkdir(parents=True)
    file.write_text(CHECKED)
    (copy / ".venv").symlink_to(sys.prefix)
    column = CHECKED.splitlines()[line - 1].index(before)
    change = mutate["Change"]("tests/test_it.py", line, column, before, after)
    changed = change.applied(CHECKED.encode()).decode()
    (gone,) = mutate["checksums_of"](CHECKED) - mutate["checksums_of"](changed)
    names = {f"tests/test_it.py::{name}": ("tests/test_it.py", 0.01, gone) for name in tests}
    record = recorded(tmp_path / "record", names)
    seconds = 3 if outcome == "hung" else 60
    found = mutate["outcome_of"](change, copy, record, seconds, [])
    assert (found.outcome, found.tests) == (outcome, len(tests))
    assert found.test == ("tests/test_it.py::test_increment" if outcome == "noticed" else "")
    assert file.read_text() == CHECKED
