"""Matrices whose two axes are swapped, with as few transposes as possible.

%t = top.transpose(%k) {permutation = [0, 1, 3, 2]}
swapped(%t) = %k, and swapped(%k) = %t made anew
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.top.attention import COLUMNS, ROWS
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import Shape, shape_of
from explorer.passes.analysis.matching import maker


def swap_of(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def swapped_shape(shape: Shape) -> Shape:
    return (*shape[:ROWS], shape[COLUMNS], shape[ROWS])


def swapped(value: SSAValue, anchor: Operation, rewriter: RecordedRewriter) -> SSAValue:
    """The value with its last two axes swapped: without a transpose that is there already."""
    order = swap_of(len(shape_of(value)))
    source, before = value, maker(value, TransposeOp)
    if before is not None:
        order = [before.get("permutation")[axis] for axis in order]
        source = before.input
        if order == sorted(order):
            return source
    transpose = TransposeOp.make([source], permutation=order)
    origin = origin_of(source)
    set_origins(transpose, [None if origin is None else origin.then("permute", order)])
    rewriter.insert_before(anchor, transpose, like=before)
    return transpose.output
