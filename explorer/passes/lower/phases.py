"""Convolutions over inputs with zeros between their elements, which transposed ones are.

    %1 = top.pad(%x) {interior = [0, 0, 1, 1], low = [0, 0, 1, 1], high = [0, 0, 1, 1]}
    %y = top.conv(%1, %w : 8x16x2x2) {strides = [1, 1], ...} : tensor<1x8x64x64xf32>
 => %1 = top.conv(%x, %v : 32x16x1x1) {strides = [1, 1], ...} : tensor<1x32x32x32xf32>
    %2 = top.reshape(%1) {shape = [1, 2, 2, 8, 32, 32]}
    %3 = top.transpose(%2) {permutation = [0, 3, 4, 1, 5, 2]}
    %y = top.reshape(%3) {shape = [1, 8, 64, 64]}

Outputs at positions that leave one remainder (a phase) meet one part of the filter only: of s x s
phases each has filters of its own, over the input as it is. Outputs in front, which are cut off,
make all parts begin at one place in the input. Phases whose parts have one size are one
convolution; where sizes differ (a 3x3 filter of stride 2), each has a window of its own, and the
results are joined. Few filters, which would leave a vector's lanes empty, are multiplied tap by tap
in one convolution, and each phase adds up what it meets. No window is filled up with zeros: 0 times
infinity is NaN. Shi et al., "Is the
deconvolution layer the same as a convolutional layer?", arXiv:1609.07009, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp, slice_properties
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import element_type_of, is_static, static_shape
from explorer.passes.analysis.matching import constant, weight_name


@dataclass(frozen=True)
class AxisPhases:
    """One axis: output o = stride * q + r is the sum over k of w[k] * x[(o + k - offset) / stride].

    size: elements of x; outputs: of the result; window: of the filter; lead: outputs in front that
    are cut off, so that all phases have the same place in x.
    """

    size: int
    outputs: int
    window: int
    stride: int
    offset: int
    lead: int = 0

    @classmethod
    def aligned(cls, size: int, outputs: int, window: int, stride: int, offset: int) -> AxisPhases:
        """With the outputs in front that make the filter's tap `stride - 1` the first phase's."""
        lead = (stride - 1 - offset) % stride
        return cls(size, outputs + lead, window, stride, offset + lead, lead)

    def first_tap(self, phase: int) -> int:
        """The first k that meets an element of x, in every output of the phase."""
        return (self.offset - phase) % self.stride

    def part(self, phase: int) -> Part:
        """What the outputs of a phase are made of."""
        first = self.first_tap(phase)
        taps = len(range(first, self.window, self.stride))
        shift = (phase + first - self.offset) // self.stride
        is_met = shift < self.size and shift + self.steps + taps - 1 > 0
        return Part(taps, shift) if taps and is_met else NOTHING

    def taken(self, phase: int) -> slice:
        """The taps of a phase, among those of the filter."""
        return slice(self.first_tap(phase), self.window, self.stride)

    @property
    def steps(self) -> int:
        """Outputs of a phase, the longest."""
        return -(-self.outputs // self.stride)

    @property
    def runs(self) -> list[range]:
        """Phases that follow each other and have the same part."""
        parts = [self.part(phase) for phase in range(self.stride)]
        starts = [n for n in range(self.stride) if not n or parts[n] != parts[n - 1]]
        return [range(a, b) for a, b in zip(starts, [*starts[1:], self.stride], strict=True)]

    def met_taps(self, phase: int) -> list[tuple[int, int]]:
        """Taps of a phase that meet x, and the element that each has in the first output."""
        part, first = self.part(phase), self.first_tap(phase)
        return [(first + n * self.stride, part.shift + n) for n in range(part.taps)]

    @property
    def margins(self) -> tuple[int, int]:
        """Zeros before and behind x that taps of any phase read."""
        met = [shift for phase in range(self.stride) for _, shift in self.met_taps(phase)]
        last = max(met, default=0) + self.steps
        return max(-min(met, default=0), 0), max(last - self.size, 0)

    def pads(self, part: Part) -> tuple[int, int]:
        """Before and behind x; less than 0 where the first or last elements are not met."""
        return -part.shift, self.steps + part.taps - 1 - self.size + part.shift


@dataclass(frozen=True)
class Part:
    """A window of `taps` elements of x, of which output q of a phase has the first at q + shift."""

    taps: int
    shift: int


NOTHING = Part(0, 0)
"""Of outputs that meet no element of x: the bias is all that they are."""

MAX_CONVOLUTIONS = 32
FEW_CHANNELS, MAX_PRODUCTS = 4, 128
"""Of results, for which all taps are one convolution."""


def pays_by_taps(filters: np.ndarray) -> bool:
    """Whether filters (M, C, window...) are too few to fill a vector with results of one phase.

    Not of narrow floats, which would be rounded after each tap.
    """
    count = filters.shape[0]
    if filters.dtype.itemsize < 4:
        return False
    return count <= FEW_CHANNELS and count * prod(filters.shape[2:]) <= MAX_PRODUCTS


def blocks_of(axes: Sequence[AxisPhases]) -> list[tuple[range, ...]]:
    """Phases of all axes by convolution, the last axis fastest, in the order of the outputs.

    An axis has runs of phases if all axes behind it have a single run, else each phase by itself.
    """
    ranges: list[list[range]] = []
    is_whole = True
    for axis in reversed(axes):
        runs = axis.runs
        ranges.insert(0, runs if is_whole else [range(n, n + 1) for n in range(axis.stride)])
        is_whole = is_whole and len(runs) == 1
    return list(product(*ranges))


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
        if max(filters.shape[2:]) == 1:
            raise Declined(f"the windows of {identity_of(op)} would not get smaller")
        blocks = blocks_of(axes)
        steps = _Steps(
            op=op, input=pad.input, axes=axes, filters=filters, bias=bias, rewriter=rewriter
        )
        if len(blocks) > 1 and pays_by_taps(filters):
            joined = steps.by_taps()
        elif len(blocks) > MAX_CONVOLUTIONS:
            raise Declined(f"{identity_of(op)} would be {len(blocks)} convolutions")
        else:
            joined = steps.concat([steps.block(phases) for phases in blocks])
        rewriter.replace(op, _shuffled(joined, op, axes, rewriter))


@dataclass(frozen=True)
class _Steps:
    """Inserts the convolutions of phases in front of the one that they replace."""

    op: ConvOp
    input: SSAValue
    axes: Sequence[AxisPhases]
    filters: np.ndarray
    bias: np.ndarray | None
    rewriter: RecordedRewriter

    def added(self, new: TopOperation) -> SSAValue:
        self.rewriter.insert_before(self.op, new)
        return new.results[0]

    def weight(self, role: str, array: np.ndarray) -> SSAValue:
        name = weight_name(self.op, role)
        return self.rewriter.add_weight(self.op, name, array, like=self.op)

    def block(self, phases: Sequence[range]) -> SSAValue:
        """(n, phases * m, steps...) of phases that have one part."""
        parts = [axis.part(own[0]) for axis, own in zip(self.axes, phases, strict=True)]
        count = prod(map(len, phases))
        bias = None if self.bias is None else np.tile(self.bias, count)
        if NOTHING in parts:
            return self.without_input(count, bias)
        changes: dict[str, SSAValue | list[int]] = {}
        pads = [axis.pads(part) for axis, part in zip(self.axes, parts, strict=True)]
        changes["input"] = self.met(pads)
        changes["pads"] = [max(pad[end], 0) for end in (0, 1) for pad in pads]
        changes["weight"] = self.weight("phases", phase_filters(self.filters, self.axes, phases))
        if bias is not None:
            changes["bias"] = self.weight("bias", bias)
        return self.added(self.op.altered(**changes))

    def concat(self, results: Sequence[SSAValue]) -> SSAValue:
        return results[0] if len(results) == 1 else self.added(ConcatOp.make([results], axis=1))

    def by_taps(self) -> SSAValue:
        """(n, phases * m, steps...): products with every tap first, which each phase adds up."""
        rank, (count, channels) = len(self.axes), self.filters.shape[:2]
        taps = np.moveaxis(self.filters, (0, 1), (-2, -1)).reshape(-1, channels, *[1] * rank)
        weight = self.weight("taps", np.ascontiguousarray(taps))
        products = self.added(
            ConvOp.make(
                [self.input, weight, None, None],
                strides=[1] * rank,
                pads=[0] * (2 * rank),
                dilations=[1] * rank,
                group=1,
            )
        )
        low, high = zip(*(axis.margins for axis in self.axes), strict=True)
        if any((*low, *high)):
            none = [0] * (2 + rank)
            products = self.added(
                PadOp.make(
                    [products, None], low=[0, 0, *low], high=[0, 0, *high], interior=none, value=0.0
                )
            )
        phases = product(*(range(axis.stride) for axis in self.axes))
        return self._finished(self.concat([self._sum(products, n, low, count) for n in phases]))

    def _sum(
        self, products: SSAValue, phases: Sequence[int], low: Sequence[int], count: int
    ) -> SSAValue:
        """(n, m, steps...) of one phase of each axis; zeros where no tap meets the input."""
        batch = static_shape(products)[0]
        total: SSAValue | None = None
        for met in product(*(axis.met_taps(n) for axis, n in zip(self.axes, phases, strict=True))):
            place = 0
            for axis, (tap, _) in zip(self.axes, met, strict=True):
                place = place * axis.window + tap
            starts = [shift + own for (_, shift), own in zip(met, low, strict=True)]
            ranges = [range(batch), range(place * count, (place + 1) * count)]
            ranges += [range(a, a + x.steps) for a, x in zip(starts, self.axes, strict=True)]
            properties = slice_properties(ranges)
            part = self.added(SliceOp.make([products, None, None, None], None, **properties))
            if total is not None:
                part = self.added(BinaryOp.make([total, part], kind="add"))
            total = part
        if total is not None:
            return total
        zeros = self.weight("nothing", np.zeros([1] * (2 + len(self.axes)), self.filters.dtype))
        shape = [batch, count, *(axis.steps for axis in self.axes)]
        return self.added(ExpandOp.make([zeros, None], shape=shape))

    def _finished(self, sums: SSAValue) -> SSAValue:
        """With the bias and the activation, for all phases."""
        if self.bias is not None:
            count = prod(axis.stride for axis in self.axes)
            own = np.tile(self.bias, count).reshape(-1, *[1] * len(self.axes))
            sums = self.added(BinaryOp.make([sums, self.weight("bias", own)], kind="add"))
        return self.activated(sums)

    def activated(self, value: SSAValue) -> SSAValue:
        if self.op.fused_activation is None:
            return value
        kind, alpha, beta = self.op.fused_activation
        return self.added(UnaryOp.make([value], kind=kind, alpha=alpha, beta=beta))

    def met(self, pads: Sequence[tuple[int, int]]) -> SSAValue:
        """The input without first and last elements that no window meets."""
        shape = static_shape(self.input)
        kept = [
            range(max(-low, 0), axis.size + min(high, 0))
            for axis, (low, high) in zip(self.axes, pads, strict=True)
        ]
        ranges = [range(shape[0]), range(shape[1]), *kept]
        if tuple(map(len, ranges)) == shape:
            return self.input
        properties = slice_properties(ranges)
        return self.added(SliceOp.make([self.input, None, None, None], None, **properties))

    def without_input(self, count: int, bias: np.ndarray | None) -> SSAValue:
        """The bias everywhere, with the activation."""
        batch, channels = static_shape(self.op.output)[:2]
        own = np.zeros(count * channels, self.filters.dtype) if bias is None else bias
        value = self.activated(self.weight("bias", own.reshape(-1, *[1] * len(self.axes))))
        shape = [batch, count * channels, *(axis.steps for axis in self.axes)]
        return self.added(ExpandOp.make([value, None], shape=shape))


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
        AxisPhases.aligned(
            size=size[a], outputs=outputs[a], window=window[a], stride=interior[2 + a] + 1,
            offset=low[2 + a] + op.get("pads")[a],
        )
        for a in range(rank)
    ]  # fmt: skip


def phase_filters(
    filters: np.ndarray, axes: Sequence[AxisPhases], phases: Sequence[range]
) -> np.ndarray:
    """Filters (M, C, window...) of some phases: (phases * M, C, taps...), the phases outermost."""
    parts = [
        filters[(..., *(axis.taken(n) for axis, n in zip(axes, numbers, strict=True)))]
        for numbers in product(*phases)
    ]
    return np.ascontiguousarray(np.concatenate(parts))


def _shuffled(
    value: SSAValue, op: ConvOp, axes: Sequence[AxisPhases], rewriter: RecordedRewriter
) -> ReshapeOp | SliceOp:
    """(n, phases * m, steps...) with the phases of each axis behind its steps, as long as `op`."""
    batch, channels, *outputs = static_shape(op.output)
    ranges = [range(axis.lead, axis.outputs) for axis in axes]
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
    kept = slice_properties([range(batch), range(channels), *ranges])
    return SliceOp.make([joined.output, None, None, None], None, **kept)
