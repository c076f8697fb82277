"""No-ops: operations that return their operand, and pairs that undo one another.

   %1 = top.transpose(%x) {permutation = [0, 2, 3, 1]} : tensor<1x8x8x3xf32>
   %2 = top.transpose(%1) {permutation = [0, 3, 1, 2]} : tensor<1x3x8x8xf32>
   %3 = top.binary(%2, %zero) {kind = "add"} : tensor<1x3x8x8xf32>
   top.return(%3)
=> top.return(%x)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.elementwise import BinaryOp, CastOp, UnaryOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import is_static, shape_of, static_shape
from explorer.passes.analysis.matching import dtype_of, maker, splat


class RemoveReshape(Rule):
    """reshape(x : 1x8) {shape = [1, 8]}   =>   x

    Applies when the result has the operand's shape. Pays because it does nothing.
    """

    matches = (ReshapeOp,)

    def rewrite(self, op: ReshapeOp, rewriter: RecordedRewriter) -> None:
        _forward_if_same_type(op, op.input, rewriter)


class MergeReshapes(Rule):
    """reshape(reshape(x) {shape = [2, 12]}) {shape = [24]}   =>   reshape(x) {shape = [24]}

    Applies to fixed shapes. Pays because only the last shape matters, and the first reshape may
    become dead.
    """

    matches = (ReshapeOp,)

    def rewrite(self, op: ReshapeOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, ReshapeOp)
        if inner is None or op.target is not None:
            return
        new = ReshapeOp.make([inner.input, None], shape=op.get("shape"))
        if new.output.type != op.output.type:
            raise Declined(
                f"the shape of {identity_of(op)} follows from {identity_of(inner)}'s, which "
                "is not known yet"
            )
        rewriter.replace(op, new, absorbs=[inner])


class RemoveTranspose(Rule):
    """transpose(x) {permutation = [0, 1, 2]}   =>   x

    Applies when no axis moves. Pays because it does nothing.
    """

    matches = (TransposeOp,)

    def rewrite(self, op: TransposeOp, rewriter: RecordedRewriter) -> None:
        permutation = op.get("permutation")
        if permutation == tuple(range(len(permutation))):
            rewriter.replace(op, op.input)


class MergeTransposes(Rule):
    """transpose(transpose(x) {p}) {q}   =>   transpose(x) {p[q]}, or x where that moves no axis

    Applies to any two transposes in a row. Pays because one copy, or both, is not made.
    """

    matches = (TransposeOp,)

    def rewrite(self, op: TransposeOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, TransposeOp)
        if inner is None:
            return
        first = inner.get("permutation")
        merged = [first[axis] for axis in op.get("permutation")]
        if merged == sorted(merged):
            rewriter.replace(op, inner.input, absorbs=[inner])
        else:
            new = TransposeOp.make([inner.input], permutation=merged)
            rewriter.replace(op, new, absorbs=[inner])


class TransposeToReshape(Rule):
    """transpose(x : 1x8x1x1) {permutation = [0, 2, 3, 1]}   =>   reshape(x) {shape = [1, 1, 1, 8]}

    Applies when only axes of extent 1 move past others: no element changes its place. Pays
    because a reshape is a view, a transpose a copy.
    """

    matches = (TransposeOp,)

    def rewrite(self, op: TransposeOp, rewriter: RecordedRewriter) -> None:
        if not is_static(op.input):
            return
        sizes = static_shape(op.input)
        moved = [axis for axis in op.get("permutation") if sizes[axis] != 1]
        if moved == sorted(moved):
            new = ReshapeOp.make([op.input, None], shape=list(static_shape(op.output)))
            rewriter.replace(op, new)


class RemoveSlice(Rule):
    """slice(x : 4x8) {starts = [0, 0], stops = [4, 8], steps = [1, 1]}   =>   x

    Applies when every element is taken, in order. Pays because it is a copy.
    """

    matches = (SliceOp,)

    def rewrite(self, op: SliceOp, rewriter: RecordedRewriter) -> None:
        if not op.is_static_slice or not is_static(op.input):
            return
        sizes = static_shape(op.input)
        taken = op.ranges(sizes)
        if all(positions == range(size) for positions, size in zip(taken, sizes, strict=True)):
            rewriter.replace(op, op.input)


class RemovePad(Rule):
    """pad(x) {low = [0, 0], high = [0, 0]}   =>   x

    Applies when nothing is added. Pays because it is a copy.
    """

    matches = (PadOp,)

    def rewrite(self, op: PadOp, rewriter: RecordedRewriter) -> None:
        if op.amounts is None and not any(
            (*op.get("low"), *op.get("high"), *op.get("interior", ()))
        ):
            rewriter.replace(op, op.input)


class RemoveCast(Rule):
    """cast(x : f32) {to = f32}   =>   x

    Applies when the element type stays. Pays because it is a copy.
    """

    matches = (CastOp,)

    def rewrite(self, op: CastOp, rewriter: RecordedRewriter) -> None:
        _forward_if_same_type(op, op.input, rewriter)


class RemoveNeutralElement(Rule):
    """x + 0, x - 0, x * 1, x / 1, max(x, -inf), min(x, inf)   =>   x

    Applies when all elements of the other operand are that number and the result has x's shape.
    Pays because it is a pass over the tensor for nothing.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        neutral = NEUTRAL.get(op.kind.data)
        if neutral is None:
            return
        pairs = [(op.left, op.right)]
        if op.kind.data not in ("sub", "div", "pow"):
            pairs.append((op.right, op.left))
        for kept, other in pairs:
            if kept.type == op.output.type and splat(other, rewriter.weights) == neutral:
                rewriter.replace(op, kept)
                return


NEUTRAL = {
    "add": 0.0,
    "sub": 0.0,
    "mul": 1.0,
    "div": 1.0,
    "pow": 1.0,
    "max": -np.inf,
    "min": np.inf,
}


class RemoveExpand(Rule):
    """expand(x : 4x8) {shape = [4, 8]}   =>   x

    Applies when nothing is repeated and the rank stays. Pays because it is a copy.
    """

    matches = (ExpandOp,)

    def rewrite(self, op: ExpandOp, rewriter: RecordedRewriter) -> None:
        _forward_if_same_type(op, op.input, rewriter)


class ReadUnexpanded(Rule):
    """x + expand(c : 1x1x8) {shape = [4, 4, 8]}   =>   x + c

    Applies to elementwise operations with two operands when the other one has the result's shape
    already: they broadcast by themselves. Pays because the expanded tensor is never stored.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        for index, other in ((1, op.left), (0, op.right)):
            expand = maker(op.operands[index], ExpandOp)
            if expand is None or shape_of(other) != shape_of(op.output) or not is_static(other):
                continue
            if is_static(expand.input):
                rewriter.set_operand(op, index, expand.input)
                return


class RemoveConcat(Rule):
    """concat(x)   =>   x

    Applies when there is one input. Pays because it is a copy.
    """

    matches = (ConcatOp,)

    def rewrite(self, op: ConcatOp, rewriter: RecordedRewriter) -> None:
        if len(op.inputs) == 1:
            rewriter.replace(op, op.inputs[0])


class RemoveClip(Rule):
    """clip(x) {alpha = -inf, beta = inf}   =>   x

    Applies when no number of the element type lies outside the bounds. Pays because it is a pass
    over the tensor for nothing.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "clip":
            return
        low, high = op.parameters
        dtype = dtype_of(op.input)
        if np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            is_open = low <= limits.min and high >= limits.max
        else:
            is_open = low == -np.inf and high == np.inf
        if is_open:
            rewriter.replace(op, op.input)


def _forward_if_same_type(
    op: ReshapeOp | CastOp | ExpandOp, value: SSAValue, rewriter: RecordedRewriter
) -> None:
    """Sizes of which nothing is known ("?") may differ although they look alike."""
    if value.type == op.output.type and "?" not in shape_of(value):
        rewriter.replace(op, value)


VIEW_RULES: tuple[type[Rule], ...] = (
    RemoveReshape,
    MergeReshapes,
    RemoveTranspose,
    MergeTransposes,
    TransposeToReshape,
)
"""Reshapes and transposes, alone and in a row."""

MOVEMENT_NO_OPS: tuple[type[Rule], ...] = (
    *VIEW_RULES,
    RemoveSlice,
    RemovePad,
    RemoveExpand,
    RemoveConcat,
)
"""Movement that moves nothing."""


@dataclass(frozen=True)
class RemoveNoOps(RulePass):
    """Operations that change nothing are removed; reshapes and transposes in a row become one."""

    name = "remove-no-ops"
    rules = (
        *MOVEMENT_NO_OPS,
        RemoveCast,
        RemoveNeutralElement,
        ReadUnexpanded,
        RemoveClip,
    )
