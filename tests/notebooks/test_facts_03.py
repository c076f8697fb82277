"""What lesson 3 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import explorer as ex
from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"folded": 11, "fused": 0, "kept": 2}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("03_passes_and_diffs")
    lesson.run("cell-21", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert [lesson.shown[cell].state for cell in ("cell-06", "cell-15", "cell-21")] == ["right"] * 3


def test_eighteen_operations_are_fifteen_launches(lesson):
    """Two transfers and a reshape are none."""
    c = lesson["c"]
    kinds = [op.name for op in c["assign-layouts"].after.operations.values()]
    assert c.final.operation_count == 18
    assert (kinds.count("top.transfer"), kinds.count("top.reshape")) == (2, 1)
    assert len(c.program.launches) == 15
    assert "Of the 18 operations" in lesson.prose
    assert "The other 15 are a launch each" in lesson.prose


def test_one_column_never_changes_and_the_other_in_the_last_row(lesson):
    frame = lesson["passes"]
    assert len(set(frame["macs"])) == 1
    *before, last = frame["peak_bytes"]
    assert set(before) == {3 * 4096} and last == 3 * 6400
    assert lesson["c"].memory.peak_bytes == 3 * 6400


def test_leaving_a_pass_out_silences_two_others(lesson):
    branch = lesson["without_folding"]
    assert len(lesson["c"]["fuse-activation"].events) == 9  # "it fires nine times"
    assert not branch["fuse-activation"].events
    assert not any(event.applied for event in branch["fuse-residual"].events)
    assert "Fifty launches of only 26 kernels" in lesson.prose
    assert (len(branch.program.launches), len(branch.kernels)) == (50, 26)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_without_folding_it_takes_more_launches_and_less_memory(lesson, lanes):
    target = lesson["core"].with_(vector_floats=lanes)
    c = ex.compile(lessons.MODELS / "digits_resnet.onnx", target, disable=["write-in-place"])
    unfolded = c.fork(disable=["fold-batch-norm"])
    assert (c.memory.peak_bytes, unfolded.memory.peak_bytes) == (19_200, 16_896)
    assert (len(c.program.launches), len(unfolded.program.launches)) == (15, 50)


def test_one_addition_is_declined_with_its_reason(lesson):
    _, first, second, shared = lesson.printed["cell-20"].splitlines()
    assert first.split()[0] == "declined"
    assert second.split()[0] == "applied"
    assert int(shared.split()[-1]) == lesson["c"].names.index("fuse-residual")


def test_exercise_1_wants_an_address(lesson):
    c = lesson["c"]
    judge = exercises.address_of_rewrite(c, "conv22", "add4")
    other = c["fold-batch-norm"].events[0]
    refused = {
        "an address, a text such as 'pass/rule/operation', is asked for": 0,
        "no rewrite of this compilation has the address 'add4'": "add4",
        f"that rewrite matched {', '.join(other.matched)}": other.address,
    }
    lessons.refusals(judge, refused)
    assert check("fuse-residual/fuse-added-activation/add4", judge).is_right


def test_exercise_2_wants_the_least_fuel(lesson):
    judge = exercises.least_fuel(lesson["c"], "fold-batch-norm")
    refused = {
        "with 11 of fuel only 7 of the 11": 11,
        "that is enough, but less is enough, too": 16,
        "a number, without quotes": "15",
    }
    lessons.refusals(judge, refused)
    assert check(15, judge).is_right
    folded = [
        sum(e.applied for e in lesson["c"].fork(fuel=fuel)["fold-batch-norm"].events)
        for fuel in (14, 15)
    ]
    assert folded == [10, 11]


def test_exercise_3_wants_twenty_launches(lesson):
    c = lesson["c"]
    refused = {
        "it has 15 launches": c,
        "a whole pass is left out": lesson["without_folding"],
        "it has 17 launches": lesson["branch"],
        "is asked for; this is of type int": 20,
    }
    lessons.refusals(exercises.has_launches(20, lesson["c"]), refused)
    sites = [
        *(e.address for e in c["fuse-residual"].events[:2]),
        "fuse-activation/fuse-unary/relu1",
    ]
    mine = c.fork(decisions=dict.fromkeys(sites, False))
    assert check(mine, exercises.has_launches(20, lesson["c"])).is_right
