"""Averages of windows, rounded as a division of whole numbers is.

    average(op, name)           top.integer_average as convolutions of equal weights
    divided(layer, machine)     a layer that divides, with factors of the machine's own scheme

Where windows reach into the padding fewer numbers are divided by fewer. Positions at which windows
have the same taps inside the picture are a piece, of smaller windows that need no padding.

Averages that get another scale have a factor for each number of taps. Where the scale stays, sums
s are divided by n with a factor that is a little too large, m / 2^k > 1 / n: then each scheme that
rounds to nearest rounds ties away from zero, which are none any more. All others lie at least
1 / 2n beside a tie, so that they are rounded as without the difference while

    |s| (m n - 2^k) < 2^k / 2
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.ir.requantization import (
    DOUBLED_BITS,
    LARGEST_SHIFT,
    Requantization,
    fixed_point,
)
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.npu.layers.borders import Run, runs
from explorer.npu.layers.convolution import Convolution, Placement
from explorer.npu.layers.layer import Layer, LayerError, Rescaling
from explorer.npu.layers.partition import merged
from explorer.npu.layers.products import offset_of
from explorer.npu.layers.value_layout import stored_form
from explorer.targets.npu.machine import Machine

NEAREST = ("nearest_even", "nearest_up", "nearest_away_from_zero")


def average(op: IntegerAverageOp, name: str) -> Layer:
    """Of one picture: one convolution, or a piece for each class of positions."""
    stored = stored_form(op.input)
    channels = stored.shape[0]
    window, strides = tuple(op.get("window")), tuple(op.get("strides"))
    if len(window) != 2:
        raise LayerError(f"its window has {len(window)} axes, and layers have two")
    if any(step > 1 for step in op.steps):
        raise LayerError("elements of its windows lie apart, and padding does not count")
    whole = Convolution(
        name=name, input_shape=stored.picture_shape, groups=channels,
        weights=np.full((channels, 1, *window), 1 << op.lift), bias=np.zeros(channels, np.int64),
        rescaling=None, strides=strides, pads=tuple(op.get("pads")),
    )  # fmt: skip
    found = [
        _class(whole, (rows, columns), op, stored.offset)
        for rows in runs(whole, 0)
        for columns in runs(whole, 1)
    ]
    if len(found) == 1:
        return replace(found[0], placement=None)
    return merged(name, [(layer, (0,)) for layer in found])


def _class(
    whole: Convolution, both: tuple[Run, Run], op: IntegerAverageOp, offset: int
) -> Convolution:
    """The positions of two runs; unsigned numbers were stored less `offset`."""
    starts, ends = [], []
    for axis, run in enumerate(both):
        first = run.positions.start * whole.strides[axis] - whole.pads[axis] + run.taps.start
        end = first + (len(run.positions) - 1) * whole.strides[axis] + len(run.taps)
        starts.append(-first)
        ends.append(end - whole.input_shape[1 + axis])
    rows, columns = both
    weights = whole.weights[:, :, : len(rows.taps), : len(columns.taps)]
    count = len(rows.taps) * len(columns.taps)
    zero = 0 if op.by is None else int(op.kind.zero_point_array[0])
    bias = np.full(weights.shape[0], (offset - zero) * count << op.lift)
    return replace(
        whole, weights=weights, bias=bias, pads=(*starts, *ends),
        rescaling=_rescaling(op, count, weights.shape[0]),
        placement=Placement(size=whole.output_shape[1:],
                            offset=(rows.positions.start, columns.positions.start)),
    )  # fmt: skip


def _rescaling(op: IntegerAverageOp, count: int, channels: int) -> Rescaling:
    """Of sums of so many numbers."""
    offset, ones = offset_of(op.to), np.ones(channels, np.int64)
    low, high = (limit - offset for limit in op.limits)
    if op.by is None:
        return Rescaling(
            how=None, multipliers=ones, shifts=0 * ones, zero_point=-offset, low=low, high=high,
            divisor=count,
        )  # fmt: skip
    factors = fixed_point(op.ratios[count - 1 : count], op.by.how)
    return Rescaling(
        how=op.by.how, multipliers=factors.multipliers * ones, shifts=factors.shifts * ones,
        zero_point=int(op.to.zero_point_array[0]) - offset, low=low, high=high,
    )  # fmt: skip


def divided(layer: Convolution, machine: Machine) -> Convolution:
    """LayerError where the machine's scheme does not divide exactly."""
    scaling = layer.rescaling
    if scaling is None or not scaling.divisor:
        return layer
    if not machine.scheme or not machine.rounding:
        raise LayerError(f"{machine.name} does not say how it requantizes")
    how = Requantization(machine.scheme, machine.rounding)
    largest = layer.largest_sum(machine)
    found = division(scaling.divisor, largest, how)
    if found is None:
        raise LayerError(
            f"{layer.name} cannot be computed by {machine.name}: requantization by {how} does not "
            f"divide sums of up to {largest} by {scaling.divisor} exactly"
        )
    multiplier, shift = found
    ones = np.ones_like(scaling.multipliers)
    scaling = replace(scaling, how=how, multipliers=multiplier * ones, shifts=shift * ones,
                      divisor=0)  # fmt: skip
    return replace(layer, rescaling=scaling)


def division(divisor: int, largest: int, how: Requantization) -> tuple[int, int] | None:
    """Multiplier and shift that divide sums of up to `largest`; None where the scheme has none."""
    is_doubling = how.scheme == "doubling_high_multiply"
    if how.scheme == "multiplier_shift":
        bits = how.multiplier_bits - 1
    elif is_doubling:
        bits = DOUBLED_BITS
    else:
        return None
    if how.rounding not in NEAREST and not is_doubling:
        return None
    # With a larger shift the doubling scheme would round twice.
    most = DOUBLED_BITS if is_doubling else LARGEST_SHIFT
    for shift in range(most, 0, -1):
        multiplier = (1 << shift) // divisor + 1
        if multiplier >= 1 << bits:
            continue
        is_exact = 2 * largest * (multiplier * divisor - (1 << shift)) < 1 << shift
        return (multiplier, shift) if is_exact else None
    return None


__all__ = ["average", "divided", "division"]
