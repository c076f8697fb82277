"""Decisions: what addresses are about, and how branches are called after them."""

import pytest

from explorer.kernels.passes import ScheduleLoops
from explorer.kernels.schedules.listing import GIVEN
from explorer.memory.planning import PlanMemory
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.results.decisions import (
    BUDGET,
    LAYOUTS,
    MEMORY,
    ORDER,
    PINS,
    PLANNER,
    SCHEDULES,
    STEPS,
    DecisionTitle,
    label_of,
    place_of,
    words,
)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("fuse-bias", DecisionTitle("pass", "", "fuse-bias")),
        ("fuse-activation/fuse-unary", DecisionTitle("rule", "fuse-activation", "fuse-unary")),
        ("fuse-activation/fuse-unary/relu/1", DecisionTitle("rewrite", "relu/1", "fuse-unary")),
        ("schedule-loops/conv_1/pixels", DecisionTitle("schedule", "conv_1", "pixels")),
        ("assign-layouts/block", DecisionTitle("layout", "", "block")),
        ("assign-layouts/blocked/conv7", DecisionTitle("layout", "conv7", "blocked")),
        (PLANNER, DecisionTitle("memory", "", "memory planner")),
        ("target/vector_floats", DecisionTitle("program", "", "floats per vector")),
        ("dimensions/batch", DecisionTitle("program", "", "batch")),
        ("fuel", DecisionTitle("program", "", "rewrites at most")),
    ],
)
def test_an_address_says_what_it_is_about(address, place):
    assert place_of(address) == place


def test_passes_are_called_as_addresses_call_them():
    names = (ScheduleLoops.name, AssignLayouts.name, PlanMemory.name, GIVEN)
    assert names == (SCHEDULES, LAYOUTS, MEMORY, STEPS)


@pytest.mark.parametrize(
    ("address", "value", "text"),
    [
        ("fuse-bias", False, "without fuse-bias"),
        ("fuse-bias", True, "with fuse-bias"),
        ("fuse-activation/fuse-unary", False, "without fuse-unary"),
        ("fuse-activation/fuse-unary/relu1", False, "without fuse-unary at relu1"),
        ("schedule-loops/conv_1/pixels", 7, "conv_1 pixels = 7"),
        ("schedule-loops/conv_1/steps", "[]", "conv_1 by a list of steps"),
        ("quantize/threshold/conv7", 0.5, "threshold conv7 = 0.5"),
        ("target", "opencl", "for opencl"),
        ("dimensions/batch", 4, "batch = 4"),
        ("fuel", 3, "fuel 3"),
        ("host", False, "nothing on the host"),
        (ORDER, ["b", "a"], "in the order b, a"),
        (ORDER, list("abcde"), "5 passes reordered"),
        (BUDGET, 4096, "at most 4,096 bytes"),
        (BUDGET, None, "no budget"),
        (PLANNER, "no-sharing", "planner no-sharing"),
        (PINS, [["conv_1", 64], ["x", 0]], "conv_1 at byte 64, x at byte 0"),
    ],
)
def test_a_decision_in_words(address, value, text):
    assert words(address, value) == text


def test_a_label_says_what_is_other_than_before():
    before = {"fuse-bias": False, "schedule-loops/conv_1/pixels": 7, "fuel": 3}
    after = {"fuel": 4, "fuse-add": False}
    assert label_of(before) == "without fuse-bias, conv_1 pixels = 7, fuel 3"
    assert label_of(after, before) == (
        "fuel 4, without fuse-add, with fuse-bias, conv_1 pixels as by default"
    )
    assert label_of(before, before) == ""
