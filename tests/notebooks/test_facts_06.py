"""What lesson 6 says, and what its cells show. No time is measured here but the roofline's."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"denser": "1x1", "decides": "loads", "share": 0.5}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("06_where_the_time_goes")
    lesson.run("cell-09", KEY, leave_out=["cell-05", "cell-07-explore"])
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    for cell in ("cell-03", "cell-07", "cell-09"):
        assert lesson.shown[cell].state == "right", cell


def test_the_pointwise_kernel_has_four_times_the_intensity(lesson):
    one, other = lesson["intensity"].values()
    assert one > 3.5 * other


def test_depthwise_kernels_do_a_sixth_of_the_arithmetic_and_take_more_time(lesson):
    c, costs = lesson["c"], lesson["costs"]
    flops = {k.name: k.flops for k in c.kernels.values()}
    depthwise = [name for name in flops if name.startswith("depthwise")]
    share = sum(flops[name] for name in depthwise) / sum(flops.values())
    time = sum(costs[name] for name in depthwise) / sum(costs.values())
    assert 1 / 8 < share < 1 / 5
    assert time > 1.5 * share


def test_answers_are_counted(lesson):
    c = lesson["c"]
    kernel = c.kernels["conv_1x1_1"]
    judge = exercises.intensity(c, "conv_1x1_1")
    assert check(round(kernel.flops / kernel.bytes_moved, 2), judge).is_right
    lessons.refusals(judge, {"bytes per operation": kernel.bytes_moved / kernel.flops})
    densest = max(c.kernels.values(), key=lambda k: k.flops / k.bytes_moved).name
    assert check(densest, exercises.most_intense(c)).is_right
    lessons.refusals(exercises.most_intense(c), {"it is not": "conv_1x1_1", "none of": "conv_9x9"})
    assert check(35, exercises.least_batch(192, 64, ridge=10.0)).is_right
    lessons.refusals(exercises.least_batch(192, 64, ridge=10.0), {"limited by bytes": 34})


@pytest.mark.parametrize("batch", [34, 35])
def test_the_ridge_lies_between_34_and_35_rows(batch):
    operations = 2 * 192 * 64 * batch
    moved = 4 * (192 * batch + 192 * 64 + 64 * batch)
    assert (operations / moved >= 10) == (batch == 35)
