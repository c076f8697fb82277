"""Matrices of a batch lie one behind the other: products of quantized numbers have three axes.

    %s = top.matmul(%q, %k) : tensor<1x4x8x8x!top.quantized<...>>       %q : tensor<1x4x8x12x...>
 => %a = top.reshape(%q) {shape = [4, 8, 12]}
    %b = top.reshape(%k) {shape = [4, 12, 8]}
    %1 = top.matmul(%a, %b) : tensor<4x8x8x!top.quantized<...>>
    %s = top.reshape(%1) {shape = [1, 4, 8, 8]}

A device that takes tensors of four axes for pictures has the columns of such matrices as channels
then, as it has those of all others, and reshapes go on to where the heads are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from explorer.ir.interfaces import Reshapable
from explorer.ir.operation import identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import QuantizedType, element_type_of, is_static, static_shape
from explorer.passes.analysis.matching import maker
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.simplify.eliminate_dead_code import EraseUnused
from explorer.passes.simplify.movement.reshapes import SinkReshape
from explorer.passes.simplify.movement.swaps import swap_of, swapped
from explorer.passes.simplify.remove_no_ops import VIEW_RULES

PICTURE = 4
"""Axes from which on a tensor is taken for a picture."""


class StackMatrices(Rule):
    """matmul(a : 2x4x8x12, b : 2x4x12x8)   =>   reshape(matmul(a : 8x8x12, b : 8x12x8))

    Applies to quantized products of four axes or more whose second operand has the same batch, or
    is one matrix: then all rows are those of one product. A second operand that is transposed is
    reshaped before it is. Pays because columns are channels then. Exact.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        is_integer = isinstance(element_type_of(op.left), QuantizedType)
        if not is_integer or not all(is_static(v) for v in (op.left, op.right)):
            return
        left, right = static_shape(op.left), static_shape(op.right)
        if len(left) < PICTURE:
            return
        if len(op.operands) > 2 + (op.bias is not None):
            raise Declined(f"{identity_of(op)} has operands that are known at run time only")
        if len(right) > 2 and left[:-2] != right[:-2]:
            raise Declined(f"the matrices of {identity_of(op)} are broadcast")
        batch = prod(right[:-2])
        rows = prod(left[:-1]) // batch
        shape = (rows, left[-1]) if len(right) == 2 else (batch, rows, left[-1])
        second = op.right if len(right) == 2 else _stacked(op, batch, rewriter)
        first = _reshaped(op.left, shape, op, rewriter)
        new = op.with_operands([first, second, *list(op.operands)[2:]])
        origin = origin_of(op.output)
        own = static_shape(new.results[0])
        set_origins(new, [None if origin is None else origin.then("reshape", own)])
        rewriter.insert_before(op, new, stem=identity_of(op), like=op)
        back = ReshapeOp.make([new.results[0], None], shape=list(static_shape(op.output)))
        rewriter.replace(op, back)


def _stacked(op: MatMulOp, batch: int, rewriter: RecordedRewriter) -> SSAValue:
    """The second operand with three axes."""
    rows, columns = static_shape(op.right)[-2:]
    before = maker(op.right, TransposeOp)
    # Else what the transpose reads is no nearer to what is multiplied.
    if before is None or before.get("permutation")[-2] != len(static_shape(op.right)) - 1:
        return _reshaped(op.right, (batch, rows, columns), op, rewriter)
    before = swapped(op.right, op, rewriter)
    before = _reshaped(before, (batch, columns, rows), op, rewriter)
    order = swap_of(3)
    transpose = TransposeOp.make([before], permutation=order)
    origin = origin_of(before)
    set_origins(transpose, [None if origin is None else origin.then("permute", order)])
    rewriter.insert_before(op, transpose)
    return transpose.output


def _reshaped(
    value: SSAValue, shape: Sequence[int], op: MatMulOp, rewriter: RecordedRewriter
) -> SSAValue:
    new = ReshapeOp.make([value, None], shape=list(shape))
    origin = origin_of(value)
    set_origins(new, [None if origin is None else origin.then("reshape", shape)])
    rewriter.insert_before(op, new)
    return new.output


class SinkStack(SinkReshape):
    """softmax(reshape(x))   =>   reshape(softmax(x))

    Applies to what `sink-reshape` applies to, but for products, which take what is stacked. Pays
    because what stands behind a product has its three axes. Exact.
    """

    def rewrite(self, op: Reshapable, rewriter: RecordedRewriter) -> None:
        if not isinstance(op, MatMulOp):
            super().rewrite(op, rewriter)


@dataclass(frozen=True)
class StackedMatrices(FixpointPass):
    """Products of matrices of a batch have three axes, and so has what is made of them."""

    name = "stack-matrices"
    rules = (StackMatrices, SinkStack, *VIEW_RULES, EraseUnused)
