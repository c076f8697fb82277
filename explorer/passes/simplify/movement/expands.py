"""Expands: repeated elements that nobody needs to store.

   %1 = top.expand(%c) {shape = [4, 4, 8]} : tensor<4x4x8xf32>            %c : tensor<1x8xf32>
   %2 = top.binary(%x, %1) {kind = "add"} : tensor<4x4x8xf32>
=> %2 = top.binary(%x, %c) {kind = "add"} : tensor<4x4x8xf32>
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ExpandOp
from explorer.ir.types import is_static, static_shape
from explorer.passes.analysis.matching import maker


class MergeExpands(Rule):
    """expand(expand(x) {shape = [4, 1]}) {shape = [4, 8]}   =>   expand(x) {shape = [4, 8]}

    Applies to fixed shapes. Pays because one copy is made instead of two. Exact.
    """

    matches = (ExpandOp,)

    def rewrite(self, op: ExpandOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, ExpandOp)
        if inner is None or not is_static(op.output):
            return
        shape = list(static_shape(op.output))
        rewriter.replace(op, ExpandOp.make([inner.input, None], shape=shape), absorbs=[inner])


class BroadcastInstead(Rule):
    """select(c, x, expand(zero) {shape = [4, 8]})   =>   select(c, x, zero)

    Applies to operands of elementwise operations and of batched matmuls, which broadcast by
    themselves, when the result keeps its shape. Pays because the expanded tensor is not stored.
    Exact.
    """

    matches = (BinaryOp, SelectOp, MatMulOp)

    def rewrite(self, op: BinaryOp | SelectOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        count = 2 if isinstance(op, MatMulOp) else len(op.operands)
        for index in range(count):
            expand = maker(op.operands[index], ExpandOp)
            if expand is None or not is_static(expand.input):
                continue
            if self._keeps_type(op, index, expand.input):
                rewriter.set_operand(op, index, expand.input)
                return

    @staticmethod
    def _keeps_type(op: BinaryOp | SelectOp | MatMulOp, index: int, value: SSAValue) -> bool:
        if isinstance(op, MatMulOp):
            before, after = static_shape(op.operands[index].type), static_shape(value)
            if len(after) < 2 or before[-2:] != after[-2:]:
                return False
        name = op.get_irdl_definition().operands[index][0]
        changed = op.altered(**{name: value})
        same = changed.results[0].type == op.output.type
        changed.erase()
        return same


EXPAND_RULES: tuple[type[Rule], ...] = (MergeExpands, BroadcastInstead)
