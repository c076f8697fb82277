"""Constants: one place for them in every operation, and of several in a row one.

   %1 = top.binary(%x, %two) {kind = "mul"} : tensor<8xf32>
   %2 = top.binary(%1, %three) {kind = "mul"} : tensor<8xf32>
=> %2 = top.binary(%x, %six) {kind = "mul"} : tensor<8xf32>
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.support.binary_kinds import COMMUTATIVE
from explorer.ir.types import format_shape
from explorer.passes.analysis.matching import (
    constant,
    dtype_of,
    is_constant,
    is_float,
    is_kind,
    is_used_once,
    maker,
    weight_name,
)

MERGED: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
}
LARGEST_CANCELLATION = 2.0**-10
LARGEST_ROUNDING = 1e-5
"""A sum of constants that is so much smaller than its terms, which themselves round what they are
added to by so much, was meant to round: (x + 12582912) - 12582912 is x without its fraction."""


class ConstantToTheRight(Rule):
    """2 * x   =>   x * 2

    Applies to commutative operations whose left operand only is constant. Pays because other
    rules need to look in one place only. Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data not in COMMUTATIVE:
            return
        if is_constant(op.left) and not is_constant(op.right):
            rewriter.replace(op, op.altered(left=op.right, right=op.left))


class AddInstead(Rule):
    """x - 2   =>   x + -2

    Applies to constants with a sign. Pays because additions of constants merge with one another,
    and with the bias of a convolution. Exact: negation does not round.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "sub" or is_constant(op.left):
            return
        array = constant(op.right, rewriter.weights)
        if array is None:
            return
        if array.dtype.kind == "u":
            raise Declined(f"{array.dtype} has no negative numbers")
        negative = rewriter.add_weight(op, weight_name(op, "negative"), -array)
        rewriter.replace(op, op.altered(right=negative, kind="add"))


class MergeConstants(Rule):
    """(x * 2) * 3   =>   x * 6      (add, max, min, and, or likewise)

    Applies when nothing else reads the first result and the merged constant is no larger than the
    larger of the two. A sum that cancels is left alone: it rounds on purpose; so are half-precision
    floats. Pays because a pass over the tensor is saved. Floats are rounded once instead of twice,
    whole numbers are exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        kind, inner = op.kind.data, maker(op.left, BinaryOp)
        if inner is None or inner.kind != op.kind or kind not in MERGED:
            return
        first = constant(inner.right, rewriter.weights)
        second = constant(op.right, rewriter.weights)
        if first is None or second is None or is_constant(inner.left):
            return
        if kind in ("max", "min") and first.size == second.size == 1:
            return  # bounds: `merge-clamps`
        if not is_used_once(inner):
            raise Declined(f"{identity_of(inner)} is needed elsewhere too")
        merged = _merged(kind, first, second, op)
        value = rewriter.add_weight(op, weight_name(op, "merged"), merged, like=inner)
        rewriter.replace(op, op.altered(left=inner.left, right=value), absorbs=[inner])


class SignToConstant(Rule):
    """neg(x) * 2   =>   x * -2

    Applies when nothing else reads the negation. Pays because a pass over the tensor is saved.
    Exact: negation does not round.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        negation = maker(op.left, UnaryOp)
        array = constant(op.right, rewriter.weights)
        if op.kind.data != "mul" or negation is None or array is None:
            return
        if not is_kind(negation, "neg") or not is_float(op.left):
            return
        if not is_used_once(negation):
            raise Declined(f"{identity_of(negation)} is needed elsewhere too")
        negative = rewriter.add_weight(op, weight_name(op, "negative"), -array)
        new = op.altered(left=negation.input, right=negative)
        rewriter.replace(op, new, absorbs=[negation])


class MergeScales(Rule):
    """(x * f + a) * g   =>   x * (f * g) + a * g

    Applies to constants, when nothing else reads the steps between. Pays because one of three
    passes over the tensor is saved. Constants are rounded once.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        add = maker(op.left, BinaryOp)
        if op.kind.data != "mul" or add is None or not is_kind(add, "add"):
            return
        product = maker(add.left, BinaryOp)
        if product is None or not is_kind(product, "mul") or is_constant(product.left):
            return
        arrays = [constant(o.right, rewriter.weights) for o in (product, add, op)]
        factor, offset, outer = arrays
        if factor is None or offset is None or outer is None or not is_float(op.left):
            return
        for step in (add, product):
            if not is_used_once(step):
                raise Declined(f"{identity_of(step)} is needed elsewhere too")
        scale = _merged("mul", factor, outer, op)
        shift = _merged("mul", offset, outer, op)
        new_scale = rewriter.add_weight(op, weight_name(op, "scale"), scale, like=product)
        new_shift = rewriter.add_weight(op, weight_name(op, "shift"), shift, like=add)
        scaled = product.altered(right=new_scale)
        rewriter.insert_before(op, scaled, like=product)
        rewriter.replace(op, add.altered(left=scaled.output, right=new_shift), absorbs=[add])


def _merged(kind: str, first: np.ndarray, second: np.ndarray, op: BinaryOp) -> np.ndarray:
    """The constant that does the work of both; Declined where it would not."""
    try:
        shape = np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise Declined(
            f"constants of shapes {format_shape(first.shape)} and {format_shape(second.shape)} "
            "do not broadcast to one another"
        ) from None
    size = int(np.prod(shape))
    if size > max(first.size, second.size):
        raise Declined(
            f"the merged constant would have {size} elements instead of "
            f"{first.size} and {second.size}"
        )
    if kind in ("add", "mul") and is_narrow_float(op.left):
        raise Declined(f"{dtype_of(op.left)} has few digits: one rounding less would show")
    if not is_float(op.left):
        return MERGED[kind](first, second).astype(first.dtype)
    exact = np.asarray(MERGED[kind](first.astype(np.float64), second.astype(np.float64)))
    _check_scale(kind, exact, first, second)
    merged = exact.astype(dtype_of(op.left))
    if np.isfinite(exact).all() and not np.isfinite(merged).all():
        raise Declined("the merged constant is too large for the element type")
    return merged


def is_narrow_float(value: SSAValue) -> bool:
    """Half precision and below, whose roundings are as large as what a comparison tolerates."""
    return is_float(value) and dtype_of(value).itemsize < 4


def _check_scale(kind: str, exact: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    """Declined where a sum cancels, or a product is too small for its element type."""
    if kind == "add":
        terms = np.maximum(np.abs(first.astype(np.float64)), np.abs(second.astype(np.float64)))
        rounding = terms * float(ml_dtypes.finfo(first.dtype).eps)
        cancels = np.abs(exact) < LARGEST_CANCELLATION * terms
        if np.any(cancels & (rounding > LARGEST_ROUNDING)):
            raise Declined("the constants cancel: the first addition rounds on purpose")
    if kind == "mul":
        smallest = np.finfo(np.float32).tiny if first.dtype.itemsize >= 4 else 2.0**-14
        is_small = np.abs(exact) < smallest
        if np.any(is_small & (first != 0) & (second != 0)):
            raise Declined("the merged constant is too small for the element type")


CONSTANT_RULES: tuple[type[Rule], ...] = (
    ConstantToTheRight,
    AddInstead,
    MergeConstants,
    SignToConstant,
    MergeScales,
)
