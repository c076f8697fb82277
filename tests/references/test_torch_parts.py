"""Which steps of a PyTorch program are judged alone, and why others are not."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from explorer.references.torch_parts import _reason

NONE = "its result is no tensor of numbers"


@pytest.mark.parametrize(
    ("kinds", "values", "reason"),
    [
        (("y",), ("x", "y"), ""),
        (("y",), ("x",), NONE),  # the reference shows no such numbers
        ((), ("x", "y"), NONE),
        (("y", "z"), ("x", "z"), ""),  # one of two results is enough
        (("y",), ("y",), "its operand 'x' is no tensor of numbers"),
    ],
)
def test_a_step_needs_operands_and_a_result_of_numbers(
    kinds: tuple[str, ...], values: tuple[str, ...], reason: str
):
    call = SimpleNamespace(arguments={})
    step: Any = SimpleNamespace(
        write=None, unclear=False, call=call, inputs=("x",), outputs=("y", "z")
    )
    types: Any = dict.fromkeys(kinds)
    assert _reason(step, types, {name: np.zeros(1) for name in values}) == reason


def test_a_step_that_writes_is_not_judged_alone():
    for write, unclear in (("x", False), (None, True)):
        step: Any = SimpleNamespace(write=write, unclear=unclear)
        assert _reason(step, {}, {}) == "it writes into its operand"
