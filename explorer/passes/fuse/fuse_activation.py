"""Activations: an elementwise function becomes the end of the convolution that feeds it.

   %1 = top.conv(%x, %w) {...} : tensor<1x8x6x6xf32>
   %2 = top.unary(%1) {kind = "relu"} : tensor<1x8x6x6xf32>
=> %2 = top.conv(%x, %w) {activation = "relu", ...} : tensor<1x8x6x6xf32>
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.passes.analysis.matching import require_single_use


class FuseUnary(Rule):
    """relu(conv(x, w))   =>   conv(x, w) {activation = "relu"}

    Applies to every kind that keeps finite numbers finite, after a convolution or matmul that
    nothing else reads and that has no activation yet. Pays because a pass over the result is
    saved: the function is applied while it is still in registers.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        linear = op.input.owner
        if not isinstance(linear, ConvOp | MatMulOp):
            return
        kind, name = op.kind.data, identity_of(linear)
        if linear.get("activation"):
            raise Declined(f"{name} ends with {linear.get('activation')} already")
        if not op.keeps_finite:
            raise Declined(f"{kind} can make infinities of the zeros in {name}'s padding channels")
        if op.output.type != linear.output.type:
            raise Declined(f"{kind} changes the element type of {name}")
        require_single_use(linear, f"its result without {kind} is needed too")
        fused = linear.altered(activation=kind, alpha=op.get("alpha"), beta=op.get("beta"))
        rewriter.replace(op, fused, absorbs=[linear])


@dataclass(frozen=True)
class FuseActivation(RulePass):
    """Activations become part of the convolution or matmul that feeds them."""

    name = "fuse-activation"
    rules = (FuseUnary,)
