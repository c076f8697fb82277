"""Which operations a machine runs only together, because a layer reads through one of them.

%y = top.reshape(%x)      between channels and positions: no layer of its own
%z = top.matmul(%y, %w)   its layer reads %x where it lies

needed(reshape)      [matmul]     without it the machine would have to move numbers
needed(requantize)   [conv]       where it takes 32 bits that no transfer brings
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xdsl.ir import Block, Operation, SSAValue

from explorer.backends.npu.lowered import LoweredLayer, LoweredLayers
from explorer.backends.npu.reach import is_in_reach
from explorer.ir.operation import TopOperation
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.top.data import WeightOp
from explorer.ir.weights import Weights
from explorer.npu.layers.fusion import is_read_through, stays
from explorer.npu.layers.layer import LayerError


def layers_of(
    op: TopOperation,
    lowered: LoweredLayers,
    weights: Weights,
    separate: Collection[SSAValue] = (),
) -> tuple[LoweredLayer, ...]:
    """The layers of an operation where what has layers of its own is computed before it.

    `separate`: values between it and what it reads that are computed before it, too. LayerError
    where no layers compute it.
    """
    computed = {
        value for value in _inner_values(op) if value in separate or not _is_fused(value.owner)
    }
    return lowered.of(_cut(op, computed) if computed else op, weights)


def needed(op: TopOperation, lowered: LoweredLayers, weights: Weights) -> list[TopOperation]:
    """The operations that a machine has to run, too, where it runs this one.

    Those that read through it, where it has no layer of its own; else those that its layer reads
    through, where none computes it from their results, and whoever lets them be read through.
    """
    if stays(op):
        return []
    if _has_problem(op, lowered, weights):
        return _users(op) if is_read_through(op) else []
    found: dict[TopOperation, None] = {}
    for value in dict.fromkeys(_inner_values(op)):
        maker = value.owner
        if not isinstance(maker, TopOperation) or not _is_fused(maker):
            continue
        if _has_problem(op, lowered, weights, [value]):
            found |= dict.fromkeys([maker, *(user for user in _users(maker) if user is not op)])
    return list(found)


def _has_problem(
    op: TopOperation,
    lowered: LoweredLayers,
    weights: Weights,
    separate: Collection[SSAValue] = (),
) -> bool:
    try:
        return any(one.problem for one in layers_of(op, lowered, weights, separate))
    except LayerError:
        return True


def _users(op: TopOperation) -> list[TopOperation]:
    users = dict.fromkeys(use.operation for use in op.results[0].uses)
    return [user for user in users if isinstance(user, TopOperation)]


def _is_fused(op: object) -> bool:
    """Whether nothing computes it by itself where the machine runs all of the program."""
    return isinstance(op, TopOperation) and (stays(op) or is_read_through(op))


def _inner_values(op: Operation) -> Iterator[SSAValue]:
    """The values between an operation and what its layer reads."""
    for value in op.operands:
        if isinstance(value.owner, Operation) and is_in_reach(value.owner):
            yield value
            yield from _inner_values(value.owner)


def _cut(op: TopOperation, places: Collection[SSAValue]) -> TopOperation:
    """A copy of an operation and of what its layer reads through, which gets the values of
    `places`, and all that comes from further away, as arguments."""
    block = Block()
    copies: dict[SSAValue, SSAValue] = {}

    def copy(one: TopOperation) -> TopOperation:
        for value in one.operands:
            owner = value.owner
            if value in copies:
                continue
            is_inner = isinstance(owner, Operation) and is_in_reach(owner) and value not in places
            if isinstance(owner, TopOperation) and (is_inner or isinstance(owner, WeightOp)):
                copy(owner)
                continue
            copies[value] = block.insert_arg(value.type, len(block.args))
            copies[value].name_hint = value.name_hint
        made = copy_operation(one, copies)
        block.add_op(made)
        return made

    return copy(op)
