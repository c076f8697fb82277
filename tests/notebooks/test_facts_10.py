"""What lesson 10 says, and what its cells show."""

import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import explorer as ex
from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"bound": 256, "reached": False, "needed": False, "grows": True}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("10_memory")
    lesson.run("cell-19", KEY)
    return lesson


def smallest_arena(buffers, most):
    """The least room in which buffers (size, first, last) can lie, by trying all places.

    The search begins with the room of the bound; `most` ends it.
    """

    def fits(placed, left, room):
        if not left:
            return True
        (size, first, last), *others = left
        for at in range(room - size + 1):
            meets = any(
                at < start + height and start < at + size and first < end and begin < last
                for start, height, begin, end in placed
            )
            if not meets and fits([*placed, (at, size, first, last)], others, room):
                return True
        return False

    return next(room for room in range(1, most + 1) if fits([], buffers, room))


def test_predictions_answered_with_the_key_are_right(lesson):
    cells = ("cell-07", "cell-11", "cell-17", "cell-19")
    assert [lesson.shown[cell].state for cell in cells] == ["right"] * 4


def test_some_buffers_hold_several_values(lesson):
    buffers = [placed.buffer for placed in lesson["c"].memory.placements]
    assert any(len(buffer.values) > 1 for buffer in buffers)


def test_no_plan_of_the_seven_buffers_reaches_their_bound(lesson):
    (text,) = re.findall(r"= ((?:\(\d,\d,\d\) ?)+) have the bound 5", lesson.prose)
    buffers = [tuple(map(int, triple.split(","))) for triple in re.findall(r"\((.*?)\)", text)]
    live = [sum(s for s, first, last in buffers if first <= t < last) for t in range(7)]
    assert (len(buffers), max(live)) == (7, 5)
    assert smallest_arena(buffers, most=8) == 6
    assert "no plan takes less than 6" in lesson.prose


def test_the_compilers_own_plan_is_proven_and_the_simple_one_is_larger(lesson):
    memory, simple = lesson["c"].memory, lesson["simple"].memory
    assert memory.optimal
    assert 1 <= len(memory.attempts) <= 24  # "up to two dozen"
    assert memory.peak_bytes < simple.peak_bytes < simple.total_bytes


def test_a_wrong_plan_is_refused_by_name(lesson):
    assert "overlap" in lesson.printed["cell-15"]


def test_the_budget_below_the_bound_is_met_by_other_decisions(lesson):
    assert lesson["small"].memory.peak_bytes <= 50_000 < lesson["c"].memory.bound_bytes
    assert any(step.taken for step in lesson["small"].memory.fit)
    assert lesson.shown["cell-17"].evidence is lesson["small"].memory


@pytest.mark.sampled(1)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_fusing_an_activation_saves_memory_in_one_network_and_costs_it_in_another(lesson, lanes):
    target = lesson["core"].with_(vector_floats=lanes)
    peaks = {}
    for name in ("digits_cnn", "digits_resnet"):
        c = ex.compile(lessons.MODELS / f"{name}.onnx", target, disable=["write-in-place"])
        peaks[name] = c.memory.peak_bytes, c.fork(disable=["fuse-activation"]).memory.peak_bytes
    assert peaks["digits_cnn"][0] < peaks["digits_cnn"][1]
    assert peaks["digits_resnet"] == (19_200, 16_896)


def test_the_mobilenet_takes_the_same_with_and_without_fusing_activations(lesson):
    unfused = lesson["c"].fork(disable=["fuse-activation"])
    assert unfused.memory.peak_bytes == lesson["c"].memory.peak_bytes > 50_000


def test_exercise_1_wants_addresses(lesson):
    judge = exercises.places_tightly(lesson["puzzle"])
    right = {"c": 0, "a": 64, "b": 128, "d": 64}
    lessons.refusals(
        judge,
        {
            "b, c, d has no address yet": {"a": 0},
            "overlap": right | {"b": 64},
            "an offset is a multiple of its alignment (64)": right | {"d": 100},
            "it is valid and takes 384 bytes; 256 would do": {"a": 0, "b": 64, "c": 128, "d": 192},
            "the address of d is a whole number, without quotes": right | {"d": "64"},
        },
    )
    assert check(right, judge).is_right


def test_exercise_2_has_the_answer_of_its_solution(lesson):
    lesson.run("cell-23")
    assert lesson.shown["cell-23"].state == "not answered yet"
    wrong = {0: "it is not 0", 384: "that is all that it takes", "128": "a number, without quotes"}
    lessons.numbers_refused(lesson, "cell-23", wrong)
    assert lesson.execute("cell-23", {"answer": 128}).is_right
    assert lesson["first_come"](lesson["puzzle"]).peak_bytes - max(lesson["live"]) == 128


def test_exercise_3_wants_a_planner(lesson):
    def ordered(key):
        return lambda buffers, steps=(): lesson["plan_in_order"](
            buffers, steps, sorted(buffers, key=key)
        )

    judge = exercises.reaches_bounds([lessons.MODELS / "digits_cnn.onnx"])
    lessons.refusals(
        judge,
        {
            "digits_cnn takes ": lesson["first_come"],
            "would do": ordered(lambda b: b.size_bytes),
            "a function is asked for": "largest first",
        },
    )
    assert check(ordered(lambda b: (-b.size_bytes, b.first - b.last)), judge).is_right


def test_a_level_is_met_by_its_own_decisions_alone(lesson):
    start = lesson["c"]
    bands = start.fork(decisions={"stream-rows/chain/depthwise6": "conv31:4:roll"})
    judge = exercises.meets_budget(start, start.memory.peak_bytes - 1, ["layout"])
    lessons.refusals(
        judge,
        {
            f"it takes {start.memory.peak_bytes:,} bytes; at most": start,
            "this level is met without 'roll'; it allows layout": bands,
            "without 'in place'": start.fork(enable=["write-in-place"]),
            "without 'order-operations'": start.fork(disable=["order-operations"]),
            "with a budget the compiler decides": start.fork(budget_bytes=1_000_000),
            "something else than passes and decisions": start.fork(planner="greedy"),
            "is asked for; this is of type int": 53_376,
        },
    )
    allowed = exercises.meets_budget(start, start.memory.peak_bytes - 1, ["roll"])
    assert check(bands, allowed).is_right


LEVELS = [
    ("cell-28", 54_000, 53_376, {"decisions": {"assign-layouts/block/main_cpu": 8}}),
    ("cell-30", 44_000, 43_584, {"decisions": {"stream-rows/chain/depthwise6": "conv31:4:roll"}}),
    (
        "cell-32",
        41_000,
        40_704,
        {
            "enable": ["write-in-place"],
            "decisions": {"stream-rows/chain/depthwise6": "conv31:8:roll"},
        },
    ),
    (
        "cell-34",
        37_000,
        36_096,
        {"decisions": {"stream-rows/chain/depthwise6": "conv31:4:recompute"}},
    ),
]
"""The grader of each level, its budget, the bytes of its solution, and what a fork changes."""


@pytest.mark.sweep
def test_each_level_needs_another_decision_than_the_one_before(lesson):
    lesson.execute("cell-27", {})
    before = lesson["start"]
    assert f"{before.memory.peak_bytes:,}" == "60,672"
    for number, (cell, budget, taken, changes) in enumerate(LEVELS, 1):
        assert f"{budget:,} bytes" in lesson.prose
        told = str(lesson.execute(cell, {f"level_{number}": before}))
        assert f"it takes {before.memory.peak_bytes:,} bytes; at most {budget:,} fit" in told
        program = before.fork(**changes)
        assert lesson.execute(cell, {f"level_{number}": program}).is_right
        assert program.memory.peak_bytes == taken
        before = program
