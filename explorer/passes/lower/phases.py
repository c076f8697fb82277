"""Convolutions over inputs with zeros between their elements, which transposed ones are.

    %1 = top.pad(%x) {interior = [0, 0, 1, 1], low = [0, 0, 1, 1], high = [0, 0, 1, 1]}
    %y = top.conv(%1, %w : 8x16x2x2) {strides = [1, 1], ...} : tensor<1x8x64x64xf32>
 => %1 = top.conv(%x, %v : 32x16x1x1) {strides = [1, 1], ...} : tensor<1x32x32x32xf32>
    %2 = top.reshape(%1) {shape = [1, 2, 2, 8, 32, 32]}
    %3 = top.transpose(%2) {permutation = [0, 3, 4, 1, 5, 2]}
    %y = top.reshape(%3) {shape = [1, 8, 64, 64]}

Outputs at positions that leave one remainder (a phase) meet one part of the filter only: of s x s
phases each has filters of its own, over the input as it is. Shi et al., "Is the deconvolution layer
the same as a convolutional layer?", arXiv:1609.07009, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import SliceOp, slice_properties
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import element_type_of, is_static, static_shape
from explorer.passes.analysis.matching import constant, weight_name


@dataclass(frozen=True)
class AxisPhases:
    """One axis: output o = stride * q + r is the sum over k of w[k] * x[(o + k - offset) / stride].

    size: elements of x; outputs: of the result; window: of the filter.
    """

    size: int
    outputs: int
    window: int
    stride: int
    offset: int

    def first_tap(self, phase: int) -> int:
        """The first k that meets an element of x, in every output of the phase."""
        return (self.offset - phase) % self.stride

    def shift(self, phase: int) -> int:
        """Which element that is, less q."""
        return (phase + self.first_tap(phase) - self.offset) // self.stride

    @property
    def first(self) -> int:
        """The lowest shift: where the windows of all phases begin."""
        return min(self.shift(phase) for phase in range(self.stride))

    @property
    def taps(self) -> int:
        """Of a window that holds those of all phases."""
        return max(
            self.shift(phase)
            - self.first
            + len(range(self.first_tap(phase), self.window, self.stride))
            for phase in range(self.stride)
        )

    @property
    def steps(self) -> int:
        """Outputs of a phase, the longest."""
        return -(-self.outputs // self.stride)

    @property
    def pads(self) -> tuple[int, int]:
        """Before and behind x: 0 or more, for every element of x is met by an output."""
        return -self.first, self.steps + self.taps - 1 - self.size + self.first

    def part(self, phase: int) -> tuple[slice, slice]:
        """The places of a phase's taps in its window, and in the filter."""
        taken = slice(self.first_tap(phase), self.window, self.stride)
        start = self.shift(phase) - self.first
        count = len(range(*taken.indices(self.window)))
        return slice(start, start + count), taken


class ConvolveByPhases(Rule):
    """conv(pad(x) {interior = [0, 0, 1, 1]}, w : 8x16x2x2)   =>   shuffle(conv(x, w : 32x16x1x1))

    Applies to transposed convolutions of floats with constant filters, in one group and undilated,
    if the windows get smaller. Pays because nothing is multiplied by the zeros in between.
    """

    matches = (ConvOp,)

    def rewrite(self, op: ConvOp, rewriter: RecordedRewriter) -> None:
        pad = op.input.owner
        if not isinstance(pad, PadOp) or pad.amounts is not None or not any(pad.get("interior")):
            return
        axes = _phases_of(op, pad)
        filters = constant(op.weight, rewriter.weights)
        if filters is None:
            raise Declined(f"the filters of {identity_of(op)} are computed")
        bias = None if op.bias is None else constant(op.bias, rewriter.weights)
        if op.bias is not None and bias is None:
            raise Declined(f"the bias of {identity_of(op)} is computed")
        if prod(axis.taps for axis in axes) >= prod(filters.shape[2:]):
            raise Declined(f"the windows of {identity_of(op)} would not get smaller")

        count = prod(axis.stride for axis in axes)
        changes: dict[str, SSAValue | list[int]] = {
            "input": pad.input,
            "weight": rewriter.add_weight(
                op, weight_name(op, "phases"), split_filters(filters, axes), like=op
            ),
            "pads": [axis.pads[end] for end in (0, 1) for axis in axes],
        }
        if bias is not None:
            repeated = np.tile(bias, count)
            changes["bias"] = rewriter.add_weight(op, weight_name(op, "bias"), repeated, like=op)
        new = op.altered(**changes)
        rewriter.insert_before(op, new)
        rewriter.replace(op, _shuffled(new.output, op, axes, rewriter))


def _phases_of(op: ConvOp, pad: PadOp) -> list[AxisPhases]:
    """Of every axis of the picture. Raises `Declined` with the reason if there is no such form."""
    name, rank = identity_of(op), len(op.get("strides"))
    if not all(is_static(value) for value in (pad.input, op.weight, op.output)):
        raise Declined(f"the shape of {name} is not known yet")
    if not isinstance(element_type_of(op.weight), AnyFloat) or op.rounding is not None:
        raise Declined(f"{name} does not multiply plain floats")
    if op.residual is not None:
        raise Declined(f"something is added to the result of {name}")
    if op.get("group") != 1 or {*op.get("strides"), *op.get("dilations")} != {1}:
        raise Declined(f"{name} has groups, strides or dilations")
    low, high, interior = pad.get("low"), pad.get("high"), pad.get("interior")
    if pad.get("value") != 0.0 or any((*low[:2], *high[:2], *interior[:2])):
        raise Declined(f"{name} reads more than zeros between its elements")
    size, window, outputs = (static_shape(value)[2:] for value in (pad.input, op.weight, op.output))
    return [
        AxisPhases(
            size=size[a], outputs=outputs[a], window=window[a], stride=interior[2 + a] + 1,
            offset=low[2 + a] + op.get("pads")[a],
        )
        for a in range(rank)
    ]  # fmt: skip


def split_filters(filters: np.ndarray, axes: Sequence[AxisPhases]) -> np.ndarray:
    """Filters (M, C, window...) by phase: (phases * M, C, taps...), the phases outermost."""
    count = prod(axis.stride for axis in axes)
    split = np.zeros((count, *filters.shape[:2], *(axis.taps for axis in axes)), filters.dtype)
    for number, phases in enumerate(product(*(range(axis.stride) for axis in axes))):
        parts = [axis.part(phase) for axis, phase in zip(axes, phases, strict=True)]
        places, taken = zip(*parts, strict=True)
        split[(number, ..., *places)] = filters[(..., *taken)]
    return split.reshape(-1, *split.shape[2:])


def _shuffled(
    value: SSAValue, op: ConvOp, axes: Sequence[AxisPhases], rewriter: RecordedRewriter
) -> ReshapeOp | SliceOp:
    """(n, phases * m, steps...) with the phases of each axis behind its steps, as long as `op`."""
    batch, channels, *outputs = static_shape(op.output)
    rank, strides = len(axes), [axis.stride for axis in axes]
    steps = [axis.steps for axis in axes]
    parts = ReshapeOp.make([value, None], shape=[batch, *strides, channels, *steps])
    rewriter.insert_before(op, parts)
    order = [0, 1 + rank]
    for axis in range(rank):
        order += [2 + rank + axis, 1 + axis]
    moved = TransposeOp.make([parts.output], permutation=order)
    rewriter.insert_before(op, moved)
    whole = [n * s for n, s in zip(steps, strides, strict=True)]
    joined = ReshapeOp.make([moved.output, None], shape=[batch, channels, *whole])
    if whole == outputs:
        return joined
    rewriter.insert_before(op, joined)
    kept = slice_properties([range(n) for n in (batch, channels, *outputs)])
    return SliceOp.make([joined.output, None, None, None], None, **kept)
