"""Casts in a row: a detour through a wider type changes nothing.

   %1 = top.cast(%x) {to = i64} : tensor<8xi64>            %x : tensor<8xi32>
   %2 = top.cast(%1) {to = f32} : tensor<8xf32>
=> %2 = top.cast(%x) {to = f32} : tensor<8xf32>
"""

from __future__ import annotations

import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import CastOp
from explorer.ir.types import format_type
from explorer.passes.analysis.matching import dtype_of, maker


class MergeCasts(Rule):
    """cast(cast(x : i32) {to = i64}) {to = f32}   =>   cast(x) {to = f32}

    Applies when the first type holds every number of x exactly. Pays because a pass over the
    tensor, and often the larger tensor, is saved. Exact.
    """

    matches = (CastOp,)

    def rewrite(self, op: CastOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, CastOp)
        if inner is None:
            return
        if not holds_exactly(dtype_of(inner.input), dtype_of(inner.output)):
            source, between = format_type(inner.input.type), format_type(inner.output.type)
            raise Declined(f"{identity_of(inner)} rounds: {source} does not fit into {between}")
        new = op.altered(input=inner.input)
        if new.output.type == inner.input.type:
            new.erase()
            rewriter.replace(op, inner.input, absorbs=[inner])
        else:
            rewriter.replace(op, new, absorbs=[inner])


def holds_exactly(source: np.dtype, target: np.dtype) -> bool:
    """Is every number of `source` one of `target`? (NumPy calls int64 to float64 safe; it is
    not above 2^53.)"""
    if source.kind in "iu" and source.itemsize == 8 and target.kind not in "iu":
        return False
    return bool(np.can_cast(source, target, "safe"))


CAST_RULES: tuple[type[Rule], ...] = (MergeCasts,)
