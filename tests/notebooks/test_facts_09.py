"""What lesson 9 says, and what its cells show. Times are invented here: nothing is measured."""

from dataclasses import replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import explorer as ex
from explorer.compilation import Compilation
from explorer.compilation.measurements.schedule_steps import Ladder, Rung
from explorer.course import exercises
from explorer.course.predictions import check
from explorer.results import Candidate, KernelSearch, SearchResult
from explorer.targets import load_target
from explorer.views.catalog.search import kernel_search
from explorer.views.renderers.text import text_of

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KERNEL = "conv_3x3_2"
KEY = {"slower": 8, "bound": "latency", "agreeing": 0.7}


def invented_ladder(c, kernel):
    is_unrolled = any(row["step"] == "unroll" for row in c.kernels[kernel].schedule)
    return Ladder(kernel, 1, (Rung("parallel", (), 0.003 if is_unrolled else 0.027, 1.0, 0.0),))


def invented_search(c, budget, kernels, seed):
    """Four candidates; the second measurement of the winner is the longer one."""
    times = [(7.7, 3.3, 0.0), (7.0, 2.5, 3.0), (7.2, 2.6, 0.0), (6.9, 2.7, 0.0)]
    candidates = tuple(
        Candidate(
            choices=(("pixels", 8 // (n + 1)),),
            predicted_us=predicted,
            measured_us=measured,
            spread_us=0.1,
            status="measured",
            reason="",
            default_us=3.3,
            origin="default",
            confirmed_us=again,
            confirmed_default_us=3.4 if again else 0.0,
        )
        for n, (predicted, measured, again) in enumerate(times)
    )
    found = KernelSearch(
        kernel=kernels[0],
        workload="w",
        target="cpu",
        device="a processor",
        seed=seed,
        default=0,
        chosen=1,
        candidates=candidates,
        seconds=20.0,
    )
    return SearchResult(
        model="digits_cnn",
        target="cpu",
        device="a processor",
        threads=1,
        seed=seed,
        kernels=(found,),
        seconds=20.0,
    )


@pytest.fixture(scope="module")
def lesson():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPLORER_CACHE", "")  # the lesson sets it; put back at the end
        patch.setattr(Compilation, "measure_ladder", invented_ladder)
        patch.setattr(ex, "tune", invented_search)
        lesson = lessons.Lesson("09_search_a_schedule")
        lesson.run("cell-24", KEY)
        yield lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    cells = ("cell-06", "cell-13", "cell-18")
    assert [lesson.shown[cell].state for cell in cells] == ["right"] * 3


def test_measured_predictions_have_a_tolerance(lesson):
    lesson.names["slower"] = replace(lesson["slower"], answer=6)
    assert lesson.execute("cell-06", {}).state == "wrong"
    lesson.names["slower"] = replace(lesson["slower"], answer=10)
    assert lesson.execute("cell-06", {}).is_right


def test_the_list_has_the_steps_that_the_text_counts_on(lesson):
    steps = [row["step"] for row in lesson["steps"]]
    assert steps[0] == "split"
    assert {"reorder", "unroll", "parallel"} <= set(steps)
    assert len(lesson["without"]) == len(steps) - 1


def test_the_impossible_tile_is_one_of_pixels(lesson):
    refusal = lesson.printed["cell-08"]
    assert "7 does not divide the 8 iterations of j" in refusal
    assert "split" in refusal


@pytest.mark.parametrize("lanes", [8, 16])
def test_one_sum_is_bound_by_latency_and_four_rows_spill(lanes):
    target = load_target("cpu", {"vector_floats": lanes})
    c = ex.compile(lessons.MODELS / "digits_cnn.onnx", target)
    c = c.fork(schedule={KERNEL: {"schedule": "direct"}})
    tiny = c.fork(schedule={KERNEL: {"pixels": 1, "vectors": 1}})
    large = c.fork(schedule={KERNEL: {"vectors": 2, "pixels": 8, "rows": 4}})
    assert tiny.cost(KERNEL).bound == "latency"
    assert not spilled(c)
    assert spilled(large) > 0


def spilled(c):
    return next(t.microseconds for t in c.cost(KERNEL).terms if t.name == "spills")


def test_the_winner_is_shown_with_both_times(lesson):
    header, first = text_of(kernel_search(lesson.shown["cell-15"]), 200).splitlines()[1:3]
    assert header.split() == ["candidate", "predicted", "measured", "ratio", "confirmed", "choices"]
    assert first.split()[:2] == ["1", "chosen"]
    assert "2.5 µs" in first  # the lowest of the times that are compared
    assert "3 µs" in first
    assert {"confirmed_us", "confirmed_ratio"} <= set(lesson.shown["cell-20"].columns)


def test_exercise_1_wants_a_tile_that_spills(lesson):
    c = lesson["c"]
    judge = exercises.spills(KERNEL)
    lessons.refusals(
        judge,
        {
            "vectors are alive at once, and there are": c,
            "nothing is spilled: ": lesson["tiny"],
            "is asked for; this is of type int": 3,
        },
    )
    mine = c.fork(schedule={KERNEL: {"vectors": 2, "pixels": 8, "rows": 4}})
    assert check(mine, judge).is_right


def test_exercise_2_wants_one_step_told_otherwise(lesson):
    c, steps = lesson["c"], lesson["steps"]
    judge = exercises.tells_steps_otherwise(KERNEL, steps)
    lessons.refusals(
        judge,
        {
            "this is the list as it was": c,
            "these are other steps: split, ": c.fork(schedule={KERNEL: steps[:-1]}),
            "is asked for; this is of type list": steps,
        },
    )
    own = [row | {"loops": "n ot"} if row["step"] == "parallel" else row for row in steps]
    assert check(c.fork(schedule={KERNEL: own}), judge).is_right


def test_exercise_3_wants_another_search(lesson):
    result = lesson["result"]
    judge = exercises.is_another_search(KERNEL, seed=0, most=3)
    other = replace(result.kernels[0], kernel="conv_3x3_1")
    default = replace(other, candidates=other.candidates[:1])
    lessons.refusals(
        judge,
        {
            f"this is {KERNEL} again": result,
            "this is seed 0 again": replace(result, kernels=(default,)),
            "4 candidates": replace(result, kernels=(other,), seed=1),
            "nothing was measured beside": replace(result, kernels=(default,), seed=1),
            "what ex.tune gives is asked for": SimpleNamespace(kernels=(other,)),
        },
    )
    fine = replace(other, candidates=other.candidates[:3])
    assert check(replace(result, kernels=(fine,), seed=1), judge).is_right
