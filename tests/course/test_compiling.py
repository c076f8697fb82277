"""Judges of answers that are measured: what counts as the same share."""

from types import SimpleNamespace
from typing import Any

import pytest

from explorer.compilation.measurements.schedule_steps import Ladder, Rung
from explorer.course.exercises.compiling import SHARE_TOLERANCE, share_of_speed


def ladder(gflops: float) -> Ladder:
    rung = Rung(step="textbook", arguments=(), milliseconds=1.0, gflops=gflops, max_relative=0.0)
    return Ladder(kernel="k", flops=1, rungs=(rung,))


@pytest.mark.parametrize(("apart", "is_right"), [(0, True), (0.9, True), (-0.9, True), (2, False)])
def test_a_share_is_right_within_its_tolerance(apart: float, is_right: bool):
    judge: Any = share_of_speed("k", ladder(100.0))
    share = 2 * (1 + apart * SHARE_TOLERANCE)
    assert (judge((ladder(200.0), share)) is True) == is_right


def test_other_answers_than_a_share_get_a_sentence():
    judge: Any = share_of_speed("k", ladder(100.0))
    assert "inverse" in judge((ladder(50.0), 2.0))
    assert "two things in brackets" in judge(0.5)
    assert "a ladder" in judge((SimpleNamespace(), 0.5))
