"""Judges of machines: the size of an array, and what it takes for a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isclose, prod
from numbers import Real

from explorer.course.predictions import Judge, with_truth

BALANCE_TOLERANCE = 0.05
"""Relative: two digits are asked for."""
MAX_FIELD = 64
"""Of an array that is tried: a larger one takes long to simulate."""
Array = tuple[int, int, int]
"""Positions, inputs and outputs of a cycle."""


def balanced_array(multiplications: int, loaded_bytes: int, bytes_per_cycle: float) -> Judge:
    """The multipliers with which arithmetic and bytes take equally long."""
    truth = multiplications * bytes_per_cycle / loaded_bytes

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, Real) or isinstance(answer, bool):
            return "a number of multipliers is asked for"
        number = float(answer)
        if isclose(number, truth, rel_tol=BALANCE_TOLERANCE):
            return True
        if isclose(number, truth / bytes_per_cycle, rel_tol=BALANCE_TOLERANCE):
            return "that is for a link of one byte a cycle"
        return f"with {number:g} multipliers the two take different times"

    return with_truth(judge, round(truth))


def is_a_better_array(cycles_of: Callable[[int, int, int], int | str], than: Array) -> Judge:
    """Another array with at most as many multipliers that takes fewer cycles.

    `cycles_of` measures an array, or says why it cannot be built.
    """
    before = cycles_of(*than)
    assert isinstance(before, int), before

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, tuple | list) or len(answer) != len(than):
            return "three numbers are asked for, as (4, 4, 8)"
        if not all(type(n) is int and 1 <= n <= MAX_FIELD for n in answer):
            return f"each is a whole number from 1 to {MAX_FIELD}"
        if prod(answer) > prod(than):
            return f"that array has {prod(answer)} multipliers; at most {prod(than)} are allowed"
        found = cycles_of(*answer)
        if isinstance(found, str):
            return found
        return found < before or f"it takes {found:,} cycles, the machine in the middle {before:,}"

    return judge


def smallest_machine(cycles: Mapping[tuple[int, int], int], within: float) -> Judge:
    """The machine (batch, bytes per cycle) of the smallest batch, then the narrowest link, of those
    that take at most `within` times the fewest cycles."""
    limit = within * min(cycles.values())
    truth = min(machine for machine, taken in cycles.items() if taken <= limit)

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, tuple | list) or len(answer) != len(truth):
            return "two numbers are asked for, as (4, 4)"
        machine = tuple(answer)
        if not all(type(n) is int for n in machine) or machine not in cycles:
            return f"{machine} is none of the machines"
        if cycles[machine] > limit:
            return f"it takes {cycles[machine] / min(cycles.values()):.2f} times the fewest cycles"
        return machine == truth or "a smaller one is fast enough, too"

    return with_truth(judge, truth)
