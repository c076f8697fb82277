"""What the reading of an operation depends on, as a value: two that are equal are read alike.

    reach = reach_of(op)
    reach.key       the operation, what it reads through, types and order of what that reads
    reach.values    all values of these, in an order that equal keys share

A layer reads through moves, conversions and sums (`explorer/npu/layers/from_operations.py`) and
stops at every other value. So the key has the operations up to these values, with their properties
and weights, and of the values themselves the types and the order in which the host writes them
alone: a copy of the operation in another function, which reads an argument where the first one
reads a transfer, has the same key.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.structure import value_name
from explorer.ir.top.casting import BitcastOp, CastOp
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.npu.layers.arrangement import arrangement_of
from explorer.npu.layers.computed_matrices import is_read_as_matrix
from explorer.npu.layers.data_movement import MOVES

READ_THROUGH = (BinaryOp, BitcastOp, CastOp, ReduceOp, *MOVES)


@dataclass(frozen=True, eq=False)
class Reach:
    key: Hashable
    values: tuple[SSAValue, ...]


def reach_of(op: TopOperation) -> Reach:
    """The key holds the name of the result, too: layers and their problems are called by it."""
    walk = _Walk()
    walk.visit(op)
    return Reach((value_name(op.results[0]), *walk.nodes), tuple(walk.values))


@dataclass
class _Walk:
    nodes: list[Hashable] = field(default_factory=list)
    values: dict[SSAValue, int] = field(default_factory=dict)
    """Their numbers, in the order in which they were met."""

    def visit(self, op: Operation) -> None:
        for result in op.results:
            self.values.setdefault(result, len(self.values))
        self.nodes.append((
            op.name,
            tuple(sorted(op.properties.items())),
            tuple(result.type for result in op.results),
            is_read_as_matrix(op),
            len(op.operands),
        ))  # fmt: skip
        for operand in op.operands:
            self._operand(operand)

    def _operand(self, value: SSAValue) -> None:
        known = self.values.get(value)
        if known is not None:
            self.nodes.append(known)
            return
        owner = value.owner
        if isinstance(owner, WeightOp):
            self.nodes.append((owner.weight.data, value.type))
        elif isinstance(owner, Operation) and is_in_reach(owner):
            self.visit(owner)
        else:
            self.values[value] = len(self.values)
            self.nodes.append((value.type, arrangement_of(value)))


def is_in_reach(op: Operation) -> bool:
    if isinstance(op, ConvOp | MatMulOp):
        return op.requantization is None
    return isinstance(op, READ_THROUGH)
