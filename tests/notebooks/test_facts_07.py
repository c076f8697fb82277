"""What lesson 7 says, and what its cells show. Speeds are invented here: nothing is measured."""

import re
from dataclasses import replace
from math import prod
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import explorer
from explorer.compilation.measurements.schedule_steps import Ladder, Rung
from explorer.course import exercises
from explorer.course.predictions import check
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.pack import blocked_pack
from explorer.targets import load_target

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KERNEL = "conv_3x3_2"
KEY = {
    "work": 115_605_504,
    "largest": "unroll",
    "reordered": True,
    "tasks": False,
    "fastest": (2, 14),
    "slower": True,
}
SPEEDS = {(1, 1): 7, (1, 4): 60, (2, 7): 106, (2, 14): 108, (4, 14): 25}
"""GFLOP/s of tiles, as they were once measured with eight lanes."""


def invented_ladder(schedule, speeds=(1.0, 1.1, 2.6, 3.2, 3.3, 8.0, 10.6, 112.0, 113.0)):
    rungs = [
        Rung(step.name, step.arguments, 200 / speed, speed, 1e-6)
        for step, speed in zip(schedule.steps, speeds, strict=False)
    ]
    return Ladder(schedule.name, 2 * KEY["work"], tuple(rungs))


def invented_rung(schedule):
    choices = schedule.choices
    assert choices["schedule"] == "direct"
    speed = SPEEDS[choices["vectors"], choices["pixels"]]
    return Rung("parallel", (), 200 / speed, speed, 1e-6)


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("07_loops_and_kernels")
    lesson.run("cell-02")
    lesson.names |= {"measure_ladder": invented_ladder, "measure_last_rung": invented_rung}
    lesson.run("cell-23", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    cells = ("cell-11", "cell-12", "cell-16", "cell-17", "cell-20", "cell-21")
    assert [lesson.shown[cell].state for cell in cells] == ["right"] * 6


def test_tiles_within_noise_of_the_best_count_too(lesson):
    again = replace(lesson["fastest"], answer=(2, 7))
    lesson.names["fastest"] = again
    assert lesson.execute("cell-20", {}).is_right
    lesson.names["fastest"] = replace(again, answer=(4, 14))
    assert lesson.execute("cell-20", {}).state == "wrong"


def test_the_arithmetic_is_the_product_of_seven_extents(lesson):
    assert KEY["work"] == 64 * 56 * 56 * 64 * 3 * 3


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_the_steps_of_the_schedule_are_those_that_the_text_explains(lesson, lanes):
    layouts = {"x": blocked_pack(lanes), "y": blocked_pack(lanes)}
    machine = Machine(vector_floats=lanes, language="c")
    schedule = schedule_kernel(lesson["definition"], machine, layouts, lesson["DIRECT"])
    explained = re.findall(r"^- \*\*(\w+)\*\*", lesson.prose, re.MULTILINE)
    assert [step.name for step in schedule.steps] == ["lower", *explained]
    assert check(28, exercises.accumulators(schedule.choices)).is_right


def test_without_being_asked_the_compiler_chooses_winograd(lesson):
    chosen = schedule_kernel(lesson["definition"], lesson["machine"], lesson["layouts"])
    assert str(chosen.choices["schedule"]).startswith("winograd")
    assert "the compiler would choose Winograd's algorithm" in lesson.prose


def test_a_sum_may_be_reordered_but_not_shared_between_tasks(lesson):
    assert lesson["reasons"][0] == ""
    assert "iterations of c" in lesson["reasons"][1]
    assert lesson["reasons"][1] in lesson.shown["cell-17"].message


def test_the_kernel_is_short_and_its_vectors_are_named_in_the_text(lesson):
    source = "\n".join(lesson.shown["cell-23"].lines)
    lanes = lesson["lanes"]
    assert f"float{lanes} acc[14][2]" in source
    assert "UNROLL(14)" in source
    assert len(lesson.shown["cell-23"].lines) < 70


def test_exercise_1_wants_the_product_of_three_sides(lesson):
    refused = {
        "that is the sum of its sides": 17,
        "a tile of 32 accumulators has other sides": 32,
        "a number, without quotes": "28",
    }
    lessons.refusals(exercises.accumulators(lesson["schedule"].choices), refused)


def test_exercise_2_wants_a_tile_of_four(lesson):
    c = lesson["c"]
    judge = exercises.has_accumulators(KERNEL, 4)
    sides = {"vectors": 1, "pixels": 2, "rows": 1}
    two = c.fork(decisions={f"schedule-loops/{KERNEL}/{name}": n for name, n in sides.items()})
    own = prod(c.schedule[KERNEL][name] for name in sides)
    lessons.refusals(
        judge,
        {
            f"the tile of {KERNEL} has {own} accumulators": c,
            f"the tile of {KERNEL} has 2 accumulators": two,
            "is asked for; this is of type tuple": (1, 4, 1),
        },
    )
    sides = {"vectors": 1, "pixels": 4, "rows": 1}
    mine = c.fork(decisions={f"schedule-loops/{KERNEL}/{name}": n for name, n in sides.items()})
    assert check(mine, judge).is_right


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_the_network_and_exercise_2_are_the_same_for_every_width(lesson, lanes):
    model = lessons.MODELS / "digits_cnn.onnx"
    c = explorer.compile(model, load_target("cpu", {"vector_floats": lanes}), tuned=False)
    c = c.fork(schedule={KERNEL: lesson["DIRECT"]})
    assert c.schedule[KERNEL]["schedule"] == "direct"
    sides = {"vectors": 1, "pixels": 4, "rows": 1}
    mine = c.fork(decisions={f"schedule-loops/{KERNEL}/{name}": n for name, n in sides.items()})
    assert check(mine, exercises.has_accumulators(KERNEL, 4)).is_right


def test_exercise_3_wants_a_ladder_and_its_share(lesson):
    large = lesson["ladder"]
    judge = exercises.share_of_speed(KERNEL, large)
    small = Ladder(KERNEL, 1, (Rung("parallel", (), 1.0, 92.0, 0.0),))
    fake = SimpleNamespace(kernel=KERNEL, rungs=small.rungs)
    lessons.refusals(
        judge,
        {
            "two things in brackets": small,
            "a ladder, as c.measure_ladder(kernel) gives it, is asked for": (fake, 0.81),
            f"this is the ladder of {large.kernel}": (large, 1.0),
            "its inverse": (small, 113 / 92),
            "the last rungs of the two ladders are not 0.5 apart": (small, 0.5),
            "the share: a number, without quotes": (small, "0.81"),
        },
    )
    assert check((small, 0.81), judge).is_right
