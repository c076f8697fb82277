"""What layers read through: operations that become part of those that read them.

fusion_of(op)               Fusion(rule, readers, reason); None: it is no candidate
is_read_through(op)         whether it is fused by itself
stays(op)                   whether nothing has to be computed for it, because bytes stay

conv -> mul by constants -> requantize    =>  one convolution           fuse-sums
slice -> transpose -> conv                =>  a convolution of x        fuse-moves
transpose -> second operand of a product  =>  the matrix as it was      fuse-transpose
    reshape that moves nothing -> layer     =>  the layer alone             fuse-view
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from explorer.ir.dialects.npu_arranged import ArrangedOp
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.top.casting import BitcastOp, CastOp
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.npu.layers.computed_matrices import is_read_as_matrix, is_swap
from explorer.npu.layers.data_movement import (
    MOVES,
    flattened_picture,
    is_joined_as_it_is,
    is_unmoved,
)
from explorer.npu.layers.sums import is_of_sums, takes_sums
from explorer.npu.layers.value_layout import are_same_bytes

SUMS = "fuse-sums"
MOVED = "fuse-moves"
TRANSPOSED = "fuse-transpose"
VIEWED = "fuse-view"
EXPLANATIONS = {
    SUMS: "requantize(arithmetic(sums(x)))   =>   layer(x): accumulators hold what lies between",
    MOVED: "layer(move(x))   =>   layer(x): it reads each number from where it lies",
    TRANSPOSED: "matmul(a, transpose(b))   =>   layer(a, b): it takes the second matrix by rows",
    VIEWED: "layer(view(x))   =>   layer(x): the same bytes, seen otherwise",
}
"""Before and after of each rule, for people."""


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """A candidate, and what becomes of it."""

    rule: str
    readers: tuple[str, ...]
    """Identities of the operations that read it."""
    reason: str = ""
    """Why it is not fused; empty where it is."""


def stays(op: TopOperation) -> bool:
    """Whether nothing has to be computed for it: weights, the return, views of the same bytes, or
    of what the host writes."""
    if isinstance(op, WeightOp | ReturnOp | ArrangedOp):
        return True
    return op.is_view and are_same_bytes(op.operands[0], op.results[0])


def is_read_through(op: TopOperation) -> bool:
    """Whether nobody needs its result as it is: those that read it read what it is made of."""
    found = fusion_of(op)
    return found is not None and not found.reason


def fusion_of(op: TopOperation) -> Fusion | None:
    """None of what has a layer of its own whoever reads it. LayerError for a value that has no
    layout in the machine's memory."""
    users = [use.operation for use in op.results[0].uses]
    readers = readers_of(op)
    if is_read_as_matrix(op):
        return Fusion(rule=TRANSPOSED, readers=readers)
    if isinstance(op, MOVES) and not stays(op):
        needing = [identity_of(user) for user in users if needs_moved(user, op)]
        return Fusion(rule=MOVED, readers=readers, reason=_unread(users) or _needed(needing))
    if isinstance(op, (BinaryOp, BitcastOp, CastOp, ReduceOp, ConvOp, MatMulOp, *MOVES)):
        if isinstance(op, ConvOp | MatMulOp | BinaryOp | ReduceOp) and not is_of_sums(op):
            return None
        other = [identity_of(user) for user in users if not takes_sums(user)]
        return Fusion(rule=SUMS, readers=readers, reason=_unread(users) or _needed(other))
    return None


def readers_of(op: TopOperation) -> tuple[str, ...]:
    """Identities of the operations that read its results."""
    users = [use.operation for result in op.results for use in result.uses]
    return tuple(dict.fromkeys(map(identity_of, users)))


def _unread(users: list[Operation]) -> str:
    return "" if users else "nothing reads it"


def _needed(readers: list[str]) -> str:
    names = ", ".join(dict.fromkeys(readers))
    return f"its result is read as it is by {names}" if names else ""


def needs_moved(user: Operation, op: TopOperation) -> bool:
    """Whether `user` needs the result of the movement `op` in memory.

    user: an operation that reads `op`. op: an operation that only moves elements (`MOVES`). False
    where `user` is a movement of its own that is folded with `op`, or where it reads the operand of
    `op` through a window.
    """
    if isinstance(user, MatMulOp) and user.operands[0] is op.results[0]:
        return flattened_picture(op.results[0], {}) is None
    if is_swap(user) and isinstance(user, TransposeOp) and not stays(user):
        return is_read_as_matrix(user) or not is_unmoved(user.output)
    if isinstance(user, ConcatOp):
        return is_joined_as_it_is(user, op.results[0])
    if not isinstance(user, MOVES) or user.operands[0] is not op.results[0]:
        return True
    if stays(user):
        return any(needs_moved(use.operation, user) for use in user.results[0].uses)
    return False
