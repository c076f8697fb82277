"""Transposes between reshapes move as few axes as can be: pixel and channel shuffles in one form.

    %1 = top.reshape(%x) {shape = [1, 2, 29, 28, 28]} : tensor<1x2x29x28x28xf32>
    %2 = top.transpose(%1) {permutation = [0, 2, 1, 3, 4]} : tensor<1x29x2x28x28xf32>
    %3 = top.reshape(%2) {shape = [1, 58, 28, 28]} : tensor<1x58x28x28xf32>
 => %1 = top.reshape(%x) {shape = [2, 29, 784]} : tensor<2x29x784xf32>
    %2 = top.transpose(%1) {permutation = [1, 0, 2]} : tensor<29x2x784xf32>
    %3 = top.reshape(%2) {shape = [1, 58, 28, 28]} : tensor<1x58x28x28xf32>

A channel shuffle is a swap of two axes in front of a third, whatever its spatial axes, and a pixel
shuffle one of five axes at most. Both are one copy between views, so that no operation of its
own would be faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from explorer.ir.evaluation import entry_function
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.operation import identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import is_static, static_shape
from explorer.passes.analysis.axes import joined_axes
from explorer.passes.analysis.matching import maker
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.simplify.eliminate_dead_code import EraseUnused
from explorer.passes.simplify.remove_no_ops import VIEW_RULES


class JoinAxes(Rule):
    """transpose(reshape(x) : 2x29x28x28) {1, 0, 2, 3}   =>   transpose(... : 2x29x784) {1, 0, 2}

    Applies between reshapes, to axes that stay neighbours in their order, and to axes of extent 1.
    An open axis joins none in front of it, so that the copy ends with the sizes of a call. The
    reshape that it takes on each side merges with the one that is there. Pays because the copy has
    fewer loops and longer rows. Exact.
    """

    matches = (TransposeOp,)

    def rewrite(self, op: TransposeOp, rewriter: RecordedRewriter) -> None:
        users = [use.operation for use in op.output.uses]
        if maker(op.input, ReshapeOp) is None or not users:
            return
        if not all(isinstance(user, ReshapeOp) for user in users):
            return
        if not is_static(op.input):
            raise Declined(f"the shape of {identity_of(op)} is not known yet")
        sizes, permutation = static_shape(op.input), op.get("permutation")
        found = sizes_of_function(entry_function(rewriter.module))
        groups = joined_axes(sizes, permutation, found.extents if found else ())
        if len(groups) in (len(sizes), 0):
            return
        joined = [prod(sizes[axis] for axis in group) for group in groups]
        place = {group[0]: index for index, group in enumerate(groups)}
        order = [place[axis] for axis in permutation if axis in place]
        before = ReshapeOp.make([op.input, None], shape=joined)
        _derive_origin(before, op.input, ("reshape", joined))
        rewriter.insert_before(op, before)
        moved = TransposeOp.make([before.output], permutation=order)
        _derive_origin(moved, op.output, ("reshape", static_shape(moved.output)))
        rewriter.insert_before(op, moved, like=op)
        rewriter.replace(
            op, ReshapeOp.make([moved.output, None], shape=list(static_shape(op.output)))
        )


def _derive_origin(
    new: ReshapeOp | TransposeOp, value: SSAValue, step: tuple[str, Sequence[int]]
) -> None:
    """The new value is the other one, reshaped."""
    origin = origin_of(value)
    set_origins(new, [None if origin is None else origin.then(*step)])


@dataclass(frozen=True)
class NarrowTransposes(FixpointPass):
    """Transposes between reshapes move only the axes that have to move."""

    name = "narrow-transposes"
    rules = (JoinAxes, *VIEW_RULES, EraseUnused)
