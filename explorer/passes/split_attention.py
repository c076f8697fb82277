"""Attention is taken apart into what has schedules: two products with a softmax between them.

    %y = top.attention(%q, %k, %v, bias = %bias) {scale = 0.125} : tensor<1x4x128x64xf32>
 => %c = top.binary(%q, %eighth) {kind = "mul"} : tensor<1x4x128x64xf32>
    %t = top.transpose(%k) {permutation = [0, 1, 3, 2]} : tensor<1x4x64x128xf32>
    %s = top.matmul(%c, %t) : tensor<1x4x128x128xf32>
    %m = top.binary(%s, %bias) {kind = "add"} : tensor<1x4x128x128xf32>
    %p = top.softmax(%m) {axis = 3, logarithm = false} : tensor<1x4x128x128xf32>
    %y = top.matmul(%p, %v) : tensor<1x4x128x64xf32>

It stands in front of the passes that move transposes, scales and sums into the weights around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import Origin, inner_origins, origin_of, set_origins
from explorer.ir.passes import RulePass
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.attention import COLUMNS, HEADS, AttentionOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.top.linear import MatMulOp
from explorer.ir.top.movement import ReshapeOp
from explorer.ir.top.normalization import SoftmaxOp
from explorer.ir.types import is_static, shape_of, static_shape
from explorer.passes.matching import dtype_of, weight_name
from explorer.passes.recognition.attention import swapped


class SplitAttention(Rule):
    """attention(q, k, v, bias = m) {scale = c}   =>   matmul(softmax(matmul(q * c, k^T) + m), v)

    Applies to every attention of known shape; heads of queries that share keys are the rows of one
    product. The factor stands on the queries, or on the scores where these are fewer. Pays because
    the products have tiled kernels, and because factor and transposes may go into the weights in
    front of them.
    """

    matches = (AttentionOp,)

    def rewrite(self, op: AttentionOp, rewriter: RecordedRewriter) -> None:
        if not all(is_static(v) for v in (*op.operands, op.output)):
            raise Declined(f"the shape of {identity_of(op)} is not known yet")
        scores_origin, weights_origin = inner_origins(op, 2)
        steps = _Steps(op, rewriter)
        is_masked = op.mask is not None or op.bias is not None
        group = op.group or 1
        shape = steps.scores_shape
        rows = _joined_heads(shape, group)
        query = steps.reshaped(op.query, (*rows[:COLUMNS], static_shape(op.query)[COLUMNS]))
        scale = op.get("scale")
        scales_query = np.prod(static_shape(query)) <= np.prod(shape)
        if scales_query:
            query = steps.scaled(query, scale)
        key = swapped(op.key, op, rewriter)
        scores = steps.added(MatMulOp.make([query, key, None, None]))
        if not scales_query:
            scores = steps.scaled(scores, scale)
        if is_masked:
            scores = steps.masked(steps.reshaped(scores, shape))
        steps.set_origin(scores, scores_origin)
        weights = steps.added(
            SoftmaxOp.make([scores], axis=len(shape) - 1, logarithm=False), weights_origin
        )
        weights = steps.reshaped(weights, rows)
        result = MatMulOp.make([weights, op.value, None, None])
        if shape_of(result.output) == shape_of(op.output):
            rewriter.replace(op, result)
            return
        steps.added(result)
        origin, own = origin_of(op.output), static_shape(result.output)
        set_origins(result, [None if origin is None else origin.then("reshape", own)])
        back = ReshapeOp.make([result.output, None], shape=list(static_shape(op.output)))
        rewriter.replace(op, back)


def _joined_heads(scores: tuple[int, ...], group: int) -> tuple[int, ...]:
    """The scores' shape with the rows of all heads that share keys one behind the other."""
    if group == 1:
        return scores
    heads, rows, columns = scores[HEADS:]
    return (*scores[:HEADS], heads // group, group * rows, columns)


@dataclass(frozen=True)
class _Steps:
    """Inserts the parts of an attention in front of it."""

    op: AttentionOp
    rewriter: RecordedRewriter

    @property
    def scores_shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.op.scores_shape)

    def added(self, new: TopOperation, origin: Origin | None = None) -> SSAValue:
        self.rewriter.insert_before(self.op, new)
        self.set_origin(new.results[0], origin)
        return new.results[0]

    def set_origin(self, value: SSAValue, origin: Origin | None) -> None:
        """Scores or weights of the source model, in the shape that they have here."""
        made, own = value.owner, static_shape(value)
        if origin is None or not isinstance(made, TopOperation):
            return
        set_origins(made, [origin if own == self.scores_shape else origin.then("reshape", own)])

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The value itself where it has that shape."""
        if static_shape(value) == tuple(shape):
            return value
        new = ReshapeOp.make([value, None], shape=list(shape))
        origin = origin_of(value)
        self.rewriter.insert_before(self.op, new)
        set_origins(new, [None if origin is None else origin.then("reshape", shape)])
        return new.output

    def scaled(self, value: SSAValue, factor: float) -> SSAValue:
        """value * factor; the value itself for 1."""
        if factor == 1:
            return value
        return self.added(BinaryOp.make([value, self._number(factor)], kind="mul"))

    def _number(self, number: float) -> SSAValue:
        array = np.array(number, dtype_of(self.op.query))
        return self.rewriter.add_weight(self.op, weight_name(self.op, "number"), array)

    def masked(self, scores: SSAValue) -> SSAValue:
        if self.op.mask is not None:
            fill = self._number(self.op.masked_score)
            scores = self.added(SelectOp.make([self.op.mask, scores, fill]))
        if self.op.bias is not None:
            scores = self.added(BinaryOp.make([scores, self.op.bias], kind="add"))
        return scores


@dataclass(frozen=True)
class SplitAttentions(RulePass):
    """Attention becomes two products with a softmax between them, which have kernels."""

    name = "split-attention"
    is_required = True
    rules = (SplitAttention,)
