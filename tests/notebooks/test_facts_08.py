"""What lesson 8 says, and what its cells show. No speed is measured here."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.course import exercises
from explorer.course.predictions import check

lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"growth": 9, "products": 36}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("08_another_algorithm")
    lesson.run("cell-07", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    assert lesson.shown["cell-03"].state == "right"
    assert lesson.shown["cell-07"].state == "right"


def test_the_four_products_make_both_outputs(lesson):
    direct = np.correlate(lesson["d"], lesson["g"])
    np.testing.assert_allclose(lesson["fast"], direct, rtol=0, atol=1e-12)
    assert len(lesson["BT"]) == 4 and direct.size == 2


def test_the_transforms_are_exact_for_whole_numbers(lesson):
    """F(2, 3) as an identity: unit vectors of weights and of inputs."""
    for g in np.eye(3):
        for d in np.eye(4):
            fast = lesson["AT"] @ ((lesson["G"] @ g) * (lesson["BT"] @ d))
            assert (fast == np.correlate(d, g)).all()


def test_shares_are_computed():
    judge = exercises.share_of_products(6, 3)
    assert check(64 / 324, judge).is_right and check(0.198, judge).is_right
    lessons.refusals(judge, {"how many there are": 64, "it is not 0.5": 0.5})
    growth = exercises.growth_of_weights(4, 3)
    assert check(4, growth).is_right
    lessons.refusals(growth, {"for each window": 36, "it is not 2": 2})


def test_a_fork_with_the_other_algorithm_is_right(lesson):
    c = lesson["c"]
    judge = exercises.uses_schedule("conv_3x3_2", "winograd2")
    address = "schedule-loops/conv_3x3_2/schedule"
    assert check(c.fork(decisions={address: "winograd2"}), judge).is_right
    lessons.refusals(judge, {"schedule 'direct'": c.fork(decisions={address: "direct"})})
