"""Casts in a row: a detour through a wider type changes nothing.

   %1 = top.cast(%x) {to = i64} : tensor<8xi64>            %x : tensor<8xi32>
   %2 = top.cast(%1) {to = f32} : tensor<8xf32>
=> %2 = top.cast(%x) {to = f32} : tensor<8xf32>
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import CastOp
from explorer.ir.types import format_type, is_float_dtype
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
    """Is every number of `source` one of `target`?

    NumPy's answer does not serve: it calls int64 to float64 and uint8 to float8 safe.
    """
    if source == target:
        return True
    if source.kind == "b":
        return target != ml_dtypes.float8_e8m0fnu  # which has no zero
    if is_float_dtype(source):
        return target.name in _IEEE and _float_holds(source, target)
    if target.kind == "b":
        return False
    least, most = (int(getattr(ml_dtypes.iinfo(source), end)) for end in ("min", "max"))
    if not is_float_dtype(target):
        return int(ml_dtypes.iinfo(target).min) <= least and most <= int(
            ml_dtypes.iinfo(target).max
        )
    if target == ml_dtypes.float8_e8m0fnu:
        return False
    limits = ml_dtypes.finfo(target)
    return most.bit_length() <= limits.nmant + 1 and most <= float(limits.max) >= -least


_IEEE = ("float64", "float32", "float16", "bfloat16")
"""Types with infinities, NaN and zeros of both signs."""


def _float_holds(source: np.dtype, target: np.dtype) -> bool:
    inner, outer = ml_dtypes.finfo(source), ml_dtypes.finfo(target)
    return (
        inner.nmant <= outer.nmant
        and float(inner.max) <= float(outer.max)
        and float(inner.smallest_subnormal) >= float(outer.smallest_subnormal)
    )


CAST_RULES: tuple[type[Rule], ...] = (MergeCasts,)
