"""Rotary embeddings: the sign of the rotated half goes into the constant that it is multiplied by.

    %n = top.unary(%second) {kind = "neg"} : tensor<1x8x64x32xf32>
    %c = top.concat(%n, %first) {axis = 3} : tensor<1x8x64x64xf32>
    %y = top.binary(%c, %sine) {kind = "mul"} : tensor<1x8x64x64xf32>
 => %c = top.concat(%second, %first) {axis = 3} : tensor<1x8x64x64xf32>
    %y = top.binary(%c, %signed_sine) {kind = "mul"} : tensor<1x8x64x64xf32>

Reference: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.types import is_static, static_shape
from explorer.passes.analysis.matching import constant, is_kind, is_used_once, maker, weight_name

LARGEST_SIGNED_BYTES = 1 << 20


class MoveSigns(Rule):
    """concat(neg(b), a) * c   =>   concat(b, a) * (c with the sign of its first half changed)

    Applies to a constant of up to 1 MiB (one number per element along the axis of the concat),
    when nothing else reads the concat and the negated inputs. Pays because a pass over a half is
    saved. Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        concat, array = maker(op.left, ConcatOp), constant(op.right, rewriter.weights)
        if concat is None or array is None or op.kind.data != "mul":
            return
        negated = [m for m in (maker(v, UnaryOp) for v in concat.inputs) if is_kind(m, "neg")]
        steps = [m for m in negated if m is not None]
        if not steps:
            return
        if not is_used_once(concat) or not all(is_used_once(m) for m in steps):
            raise Declined(f"{identity_of(concat)} or what it joins is needed elsewhere too")
        if op.output.type != concat.output.type or not is_static(op.output):
            raise Declined(f"{identity_of(op)} makes the result larger than {identity_of(concat)}")
        signed = _with_signs(array, concat)
        if signed.nbytes > LARGEST_SIGNED_BYTES:
            raise Declined(f"the constant with signs would have {signed.nbytes} bytes")
        unsigned: dict[SSAValue, SSAValue] = {step.output: step.input for step in steps}
        inputs = [unsigned.get(value, value) for value in concat.inputs]
        joined = concat.altered(inputs=inputs)
        rewriter.insert_before(op, joined, like=concat)
        value = rewriter.add_weight(op, weight_name(op, "signed"), signed)
        new = op.altered(left=joined.output, right=value)
        rewriter.replace(op, new, absorbs=[concat, *steps])


def _with_signs(array: np.ndarray, concat: ConcatOp) -> np.ndarray:
    """The constant times -1 where a negated input stands, in full along the concat's axis only."""
    axis, rank = concat.get("axis"), len(static_shape(concat.output))
    signs = np.concatenate(
        [
            np.full(static_shape(v)[axis], -1 if is_kind(maker(v, UnaryOp), "neg") else 1)
            for v in concat.inputs
        ]
    )
    shaped = signs.reshape([-1 if a == axis else 1 for a in range(axis, rank)])
    return (array * shaped).astype(array.dtype)


ROTATION_RULES: tuple[type[Rule], ...] = (MoveSigns,)
