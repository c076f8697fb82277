"""Pads: two in a row, and those that a window can read around its input by itself.

   %1 = top.pad(%x) {low = [0, 0, 1, 1], high = [0, 0, 1, 1], value = 0.0} : tensor<1x3x10x10xf32>
   %2 = top.conv(%1, %w) {pads = [0, 0, 0, 0], ...} : tensor<1x8x8x8xf32>
=> %2 = top.conv(%x, %w) {pads = [1, 1, 1, 1], ...} : tensor<1x8x8x8xf32>
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.types import shape_of
from explorer.passes.analysis.matching import dtype_of, is_float, maker
from explorer.passes.simplify.arithmetic.ranges import range_of


class MergePads(Rule):
    """pad(pad(x) {low = 1}) {low = 2}   =>   pad(x) {low = 3}

    Applies when both add the same number and the outer one nothing between elements. Pays because
    one copy is made instead of two. Exact.
    """

    matches = (PadOp,)

    def rewrite(self, op: PadOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, PadOp)
        if inner is None or op.amounts is not None or inner.amounts is not None:
            return
        if any(op.get("interior", ())):
            raise Declined(f"{identity_of(op)} pads between elements")
        if op.fill != inner.fill:
            raise Declined(f"{identity_of(inner)} adds {inner.fill}, not {op.fill}")
        low, high = (
            [a + b for a, b in zip(op.get(name), inner.get(name), strict=True)]
            for name in ("low", "high")
        )
        rewriter.replace(op, inner.altered(low=low, high=high), absorbs=[inner])


class PadByConv(Rule):
    """conv(pad(x) {low = [0, 0, 1, 1], high = [0, 0, 1, 1]}) {pads = 0}   =>   conv(x) {pads = 1}

    Applies to what stands for zero around the spatial axes, the zero point of quantized numbers,
    before a transpose, too. Pays because the padded tensor is not made: a convolution's padding is
    part of its input's buffer. Exact.
    """

    matches = (ConvOp,)

    def rewrite(self, op: ConvOp, rewriter: RecordedRewriter) -> None:
        transpose = maker(op.input, TransposeOp)
        pad = maker(op.input if transpose is None else transpose.input, PadOp)
        if pad is None:
            return
        order = range(len(shape_of(pad.input)))
        if transpose is not None:
            if not transpose.output.has_one_use():
                raise Declined(f"{identity_of(transpose)} is needed elsewhere")
            order = transpose.get("permutation")
        _require_window_pad(pad, op, order)
        if pad.get("value") != op.padding_fill:
            own = f"{op.padding_fill}" if op.padding_fill else "zeros"
            raise Declined(f"{identity_of(pad)} adds {pad.get('value')}, a convolution {own}")
        value, pads = pad.input, _sums(op, pad, order)
        if transpose is not None:
            moved = transpose.altered(input=value)
            origin = origin_of(value)
            set_origins(moved, [None if origin is None else origin.then("permute", order)])
            rewriter.insert_before(op, moved)
            value = moved.output
        rewriter.replace(op, op.altered(input=value, pads=pads), absorbs=[pad])


class PadByPool(Rule):
    """average(pad(x) {low = [0, 0, 1, 1], ...}) {pads = 0}   =>   average(x) {pads = 1}

    Applies to zeros around the spatial axes before an average, which then counts its padding, and
    before a maximum to what cannot win: the lowest number, or zeros around a value that is known
    not to be negative. Pays because the padded tensor is not made. Exact.
    """

    matches = (PoolOp,)

    def rewrite(self, op: PoolOp, rewriter: RecordedRewriter) -> None:
        pad = maker(op.input, PadOp)
        if pad is None:
            return
        _require_window_pad(pad, op)
        pads, value = _sums(op, pad), pad.fill
        name = identity_of(pad)
        if op.get("kind") == "max":
            if not _can_never_win(pad, op, rewriter):
                raise Declined(f"the {value} that {name} adds may be a maximum")
            rewriter.replace(op, op.altered(input=pad.input, pads=pads), absorbs=[pad])
            return
        if value != 0.0:
            raise Declined(f"{name} adds {value}, an average zeros")
        if any(op.get("pads")) and not op.counts_padding:
            raise Declined(f"{identity_of(op)} does not count its own padding, but would {name}'s")
        new = op.altered(input=pad.input, pads=pads, includes_padding=True)
        rewriter.replace(op, new, absorbs=[pad])


def _require_window_pad(
    pad: PadOp, op: ConvOp | PoolOp, order: Sequence[int] | None = None
) -> None:
    """Declined where something else than the borders of the spatial axes is padded.

    order: of the window's axes, those of the pad.
    """
    name = identity_of(pad)
    if pad.amounts is not None:
        raise Declined(f"how much {name} adds is computed")
    if any(pad.get("interior", ())):
        raise Declined(f"{name} pads between elements")
    if any(pad.get(end)[axis] for end in ("low", "high") for axis in (order or range(2))[:2]):
        raise Declined(f"{name} pads batch or channels, too")
    if not any((*pad.get("low"), *pad.get("high"))):
        raise Declined(f"{name} adds nothing")


def _sums(op: TopOperation, pad: PadOp, order: Sequence[int] | None = None) -> list[int]:
    spatial = (order or range(len(shape_of(pad.input))))[2:]
    added = [pad.get(end)[axis] for end in ("low", "high") for axis in spatial]
    return [a + b for a, b in zip(op.get("pads"), added, strict=True)]


def _can_never_win(pad: PadOp, op: PoolOp, rewriter: RecordedRewriter) -> bool:
    """Every window holds an element of the input that is at least as large as the padding."""
    pads = _sums(op, pad)
    rank = len(pads) // 2
    reach = [
        (size - 1) * step + 1
        for size, step in zip(op.get("window"), op.get("dilations"), strict=True)
    ]
    if any(pads[a] >= reach[a] or pads[rank + a] >= reach[a] for a in range(rank)):
        return False
    if any(step != 1 for step in op.get("dilations")):
        return False  # a window may step over the few elements of a small input
    dtype = dtype_of(pad.input)
    lowest = ml_dtypes.finfo(dtype).min if is_float(pad.input) else np.iinfo(dtype).min
    return pad.get("value") <= max(range_of(pad.input, rewriter.weights)[0], float(lowest))


PAD_RULES: tuple[type[Rule], ...] = (MergePads, PadByConv, PadByPool)
