"""Whole factors and shifts that a file states, on machines of another scheme: exactly, or not.

    y = (x * m + 2^(s - 1)) >> s    multiplier_shift, nearest_up: what is meant

    doubled(multipliers, shifts)    for doubling_high_multiply: m 2^(31 - s), shifted by 31, so that
                                    its second rounding finds nothing to round
    shifted(scaling, most)          for VTA, whose vector engine multiplies, adds and shifts: what
                                    it multiplies by, what it adds, and between which bounds

Bounds keep what the engine multiplies within 32 bits. What lies beyond them ends at a limit anyway:
above, where x * m >= limit * 2^s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.requantization import BY_SHIFT, DOUBLED_BITS, Requantization
from explorer.npu.layers.layer import Rescaling, scheme_problem
from explorer.targets.npu.machine import Machine

MAX_SUM = (1 << 31) - 1
MAX_IMMEDIATE = (1 << 15) - 1
MAX_SHIFT = 30
"""Half a step of a larger one has more than 32 bits with its sign."""


def is_stated(how: Requantization | None) -> bool:
    """Whether it multiplies by a whole number, shifts, and rounds once, ties up."""
    return how is not None and (how.scheme, how.rounding) == (BY_SHIFT.scheme, BY_SHIFT.rounding)


def reduced(multipliers: np.ndarray, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same ratios with the smallest whole multipliers."""
    multipliers, shifts = multipliers.astype(np.int64), shifts.astype(np.int64)
    lowest = (multipliers & -multipliers).astype(np.float64)
    zeros = np.where(multipliers > 0, np.frexp(lowest)[1] - 1, shifts)
    taken = np.minimum(zeros, shifts)
    return multipliers >> taken, shifts - taken


def half_steps(shifts: np.ndarray) -> np.ndarray:
    """What is added before a shift, so that it rounds to nearest, ties up."""
    return np.left_shift(1, shifts) >> 1


def doubled(
    multipliers: np.ndarray, shifts: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Multipliers below 2^31 with shifts of at most 31; None where some ratio has none, for
    numbers of up to `most`."""
    multipliers, shifts = reduced(multipliers, shifts)
    lengths = np.frexp(multipliers.astype(np.float64))[1].astype(np.int64)
    lifts = np.maximum(lengths - shifts, 0)
    room = DOUBLED_BITS - lifts - shifts
    if np.any(room < 0) or np.any((most << np.minimum(lifts, 31)) > MAX_SUM):
        return None
    return multipliers << room, DOUBLED_BITS - lifts


@dataclass(frozen=True, kw_only=True)
class Shifted:
    """What a vector engine without a multiplier of its own does with sums of each channel: arrays
    i64 of [outputs]."""

    multipliers: np.ndarray
    halves: np.ndarray
    """Half a step, which is added before the shift."""
    shifts: np.ndarray
    bounds: tuple[np.ndarray, np.ndarray] | None = None
    """Between which sums are kept before they are multiplied; None where they need not be."""

    @property
    def steps(self) -> list[tuple[str, int]] | str:
        """Of the first channel, as operations with an immediate of 16 bits each; or why not."""
        multiplier, half, shift = (
            int(numbers[0]) for numbers in (self.multipliers, self.halves, self.shifts)
        )
        found: list[tuple[str, int]] = []
        if self.bounds is not None:
            below, above = (int(numbers[0]) for numbers in self.bounds)
            found = [("maximum", below), ("minimum", above)]
        if multiplier != 1:
            found.append(("multiply", multiplier))
        if wide := [value for _, value in found if abs(value) > MAX_IMMEDIATE]:
            return f"{wide[0]}, by which it scales, is no immediate of 16 bits"
        while half:
            found.append(("add", min(half, MAX_IMMEDIATE)))
            half -= found[-1][1]
        return [*found, ("shift_right", shift)] if shift else found


def shifted(scaling: Rescaling, most: int) -> Shifted | str:
    """For sums of up to `most`; or why 32 bits do not do."""
    multipliers, shifts = reduced(scaling.multipliers, scaling.shifts)
    if np.any(shifts > MAX_SHIFT):
        return f"half a step of a shift by {shifts.max()} bits has more than 32 bits"
    halves = half_steps(shifts)
    found = Shifted(multipliers=multipliers, halves=halves, shifts=shifts)
    if np.all(most * multipliers + halves <= MAX_SUM):
        return found
    below, above = bounds_of(scaling)
    if np.any(np.maximum(above, -below) * multipliers + halves > MAX_SUM):
        return f"its sums times {multipliers.max()} need more than 32 bits"
    return replace(found, bounds=(below, above))


def bounds_of(scaling: Rescaling) -> tuple[np.ndarray, np.ndarray]:
    """Sums of each channel at which results reach the limits, within 32 bits."""
    multipliers, shifts = reduced(scaling.multipliers, scaling.shifts)
    low, high = (limit - scaling.zero_point for limit in (scaling.low, scaling.high))
    shifts = np.minimum(shifts, MAX_SHIFT)
    above = -((-max(high, 0) << shifts) // multipliers)
    below = (min(low, 0) << shifts) // multipliers
    return np.maximum(below, -MAX_SUM), np.minimum(above, MAX_SUM)


def scaling_problem(
    scaling: Rescaling, machine: Machine, most: int, by_immediates: bool = False
) -> str:
    """Why the machine does not requantize so; empty where it does.

    most: of the sums. by_immediates: whether all channels are scaled at once, by immediates where
    the machine only shifts.
    """
    if machine.instruction_set.requantizes or not is_stated(scaling.how):
        return scheme_problem(scaling, machine)
    if "multiply" not in machine.operations:
        return "its vector engine has no multiply"
    if np.any(scaling.multipliers == 0):
        return "a shift cannot make all numbers zero"
    found = shifted(scaling, most)
    if isinstance(found, Shifted) and by_immediates:
        steps = found.steps
        return steps if isinstance(steps, str) else ""
    return found if isinstance(found, str) else ""
