"""Operations that make bytes and scales of new rows: `explorer.ir.row_scales` in the IR.

%reach = top.reduce(%abs) {kind = "max", axes = [3]} : tensor<1x4x1x1xf32>
%raw = top.binary(%reach, 1/127) {kind = "mul"}         NaN where %reach is NaN or infinite
%scale = top.bitcast(... bits of %raw, rounded) {to = f32}
%bytes = top.cast(round(%new / %scale)) {to = i8} : tensor<1x4x1x16xi8>
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.row_scales import HALF_UNIT, INVERSE, KEPT, LARGEST, SMALLEST, row_axis
from explorer.ir.top.casting import BitcastOp, CastOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp, UnaryOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import shape_of


def quantize_rows(
    rows: SSAValue, axis: int, anchor: TopOperation, rewriter: RecordedRewriter
) -> tuple[SSAValue, SSAValue]:
    """Bytes and scales of rows of float32 that follow each other along an axis."""

    def added(op: TopOperation) -> SSAValue:
        rewriter.insert_before(anchor, op)
        return op.results[0]

    def number(value: float | np.generic, kind: type[np.generic], role: str) -> SSAValue:
        name = f"{identity_of(anchor)}.{role}"
        return rewriter.add_weight(anchor, name, np.array(value, kind), like=anchor)

    def binary(kind: str, left: SSAValue, right: SSAValue) -> SSAValue:
        return added(BinaryOp.make([left, right], kind=kind))

    along = row_axis(axis, len(shape_of(rows)))
    size = added(UnaryOp.make([rows], kind="abs"))
    reach = added(ReduceOp.make([size], kind="max", axes=[along], keepdims=True))
    raw = binary("mul", reach, number(INVERSE, np.float32, "inverse"))
    is_number = binary("less_equal", reach, number(LARGEST, np.float32, "largest"))
    no_number = number(np.nan, np.float32, "nan")
    raw = added(SelectOp.make([is_number, raw, no_number]))
    zero = number(0, np.float32, "zero")
    is_small = binary("less", raw, number(SMALLEST, np.float32, "smallest"))
    raw = added(SelectOp.make([is_small, zero, raw]))
    bits = added(BitcastOp.make([raw], to=i32))
    bits = binary("add", bits, number(HALF_UNIT, np.int32, "half"))
    bits = binary("bit_and", bits, number(KEPT, np.int32, "kept"))
    scale = added(BitcastOp.make([bits], to=f32))
    has_scale = binary("greater", scale, zero)
    steps = added(SelectOp.make([has_scale, binary("div", rows, scale), zero]))
    whole = added(UnaryOp.make([steps], kind="round"))
    return added(CastOp.make([whole], to=i8)), scale


def first_of(
    value: SSAValue, axis: int, anchor: TopOperation, rewriter: RecordedRewriter
) -> SSAValue:
    """The first element along an axis, which stays."""
    rank = len(shape_of(value))
    stops = [1 if each == axis else np.iinfo(np.int64).max for each in range(rank)]
    made = SliceOp.make([value], starts=[0] * rank, stops=stops, steps=[1] * rank)
    rewriter.insert_before(anchor, made)
    return made.output
