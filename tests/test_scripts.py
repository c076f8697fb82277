"""Scripts that measure the tests: durations of two runs, and small faults in the source."""

import random
from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).parents[1]
durations = run_path(str(ROOT / "scripts" / "durations.py"))
run_notebooks = run_path(str(ROOT / "scripts" / "run_notebooks.py"))
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
        lines = content.splitlines(keepends=True)[: change.line - 1]
        start = sum(map(len, lines)) + change.column
        before = change.before.encode()
        assert content[start:].startswith(before)
        after = change.after if change.after == "pass" else f"({change.after})"
        changed = content[:start] + after.encode() + content[start + len(before) :]
        assert changed != content
        compile(changed, path.name, "exec")


def test_a_seed_gives_the_same_changes_spread_over_folders():
    chosen = [list(mutate["chosen_changes"](3, random.Random(7))) for _ in range(2)]
    assert chosen[0] == chosen[1]
    assert len({change.file.split("/")[1] for change in chosen[0]}) == 3


def test_executed_notebooks_lie_as_they_were_found():
    given = [Path("notebooks"), Path("other/lesson.ipynb")]
    found = [Path("notebooks/01.ipynb"), Path("notebooks/solutions/01.ipynb"), given[1]]
    places = [str(run_notebooks["place_of"](path, given)) for path in found]
    assert places == ["01.ipynb", "solutions/01.ipynb", "lesson.ipynb"]
