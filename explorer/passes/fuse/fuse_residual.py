"""Residuals: the addition of another activation becomes part of a convolution or matmul.

   %1 = top.conv(%x, %w) {...} : tensor<1x8x6x6xf32>
   %2 = top.binary(%1, %s) {kind = "add"} : tensor<1x8x6x6xf32>
=> %2 = top.conv(%x, %w, residual = %s) {...} : tensor<1x8x6x6xf32>
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import format_type
from explorer.passes.analysis.matching import both_orders, is_constant, uses


class FuseAddedActivation(Rule):
    """conv(x, w) + s   =>   conv(x, w, residual = s)

    Applies when nothing else reads the convolution (or matmul), s has the result's shape and is
    computed, and neither a residual nor an activation is fused yet. Where both sides qualify the
    one that is computed last takes the other: nothing has to move. Pays because s is added while
    the result is still in registers.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "add":
            return
        reasons: list[str] = []
        accepted: list[tuple[ConvOp | MatMulOp, SSAValue]] = []
        for value, other in both_orders(op):
            linear = value.owner
            if not isinstance(linear, ConvOp | MatMulOp):
                continue
            reason = _why_not(linear, other, op)
            if reason:
                reasons.append(reason)
            else:
                accepted.append((linear, other))
        if accepted:
            linear, residual = _computed_last(accepted)
            rewriter.replace(op, linear.altered(residual=residual), absorbs=[linear])
        elif reasons:
            raise Declined("; ".join(dict.fromkeys(reasons)))


def _why_not(linear: ConvOp | MatMulOp, other: SSAValue, op: BinaryOp) -> str:
    name = identity_of(linear)
    if is_constant(other):
        return f"what is added to {name} is a constant, not an activation"
    if uses(linear) > 1:
        return f"{name} is used {uses(linear)} times"
    if linear.residual is not None:
        return f"{name} has a residual already"
    if linear.get("activation"):
        return f"{name} ends with an activation, and the addition comes after it"
    if other.type != op.output.type or linear.output.type != op.output.type:
        return f"{format_type(other.type)} is broadcast when it is added to {name}"
    return ""


def _computed_last(
    candidates: list[tuple[ConvOp | MatMulOp, SSAValue]],
) -> tuple[ConvOp | MatMulOp, SSAValue]:
    first, *rest = candidates
    for candidate in rest:
        if first[0].is_before_in_block(candidate[0]):
            first = candidate
    return first


@dataclass(frozen=True)
class FuseResidual(RulePass):
    """Activations that are added to the result of a convolution or matmul become its residual."""

    name = "fuse-residual"
    rules = (FuseAddedActivation,)
