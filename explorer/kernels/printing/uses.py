"""Which operations of a kernel are printed, and how often their values are mentioned.

%k = arith.addi %j, %one : index      no text of its own: `%j` is mentioned by the load
%a = memref.load %x[%i, %k]           x[i * 8 + j + 1]
%b = arith.mulf %a, %a                `%a` is mentioned twice, so it gets a name
%c = arith.addf %a, %b                nothing uses it: not printed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import affine, arith, func, memref, vector
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Block, Operation, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import name_of
from explorer.kernels.printing.subscripts import (
    Sum,
    flat_subscript,
    is_index_arithmetic,
    subscripts,
    sum_of,
    sum_of_expression,
)

Load = affine.LoadOp | memref.LoadOp | affine.VectorLoadOp
Store = affine.StoreOp | memref.StoreOp | affine.VectorStoreOp


@dataclass(frozen=True)
class Uses:
    """What of a function is printed, and how often and where its values are used there."""

    live: frozenset[Operation]
    counts: Mapping[SSAValue, int]
    blocks: Mapping[SSAValue, Block]
    """The block of a use of each value (the only one where the count is 1)."""


def find_uses(function: func.FuncOp) -> Uses:
    """Counts uses from live operations only: what has an effect, and all that it needs."""
    live: set[Operation] = set()
    counts: dict[SSAValue, int] = {}
    blocks: dict[SSAValue, Block] = {}
    for op in reversed(walk_inside(function)):
        if isinstance(op, func.FuncOp | func.ReturnOp | affine.YieldOp):
            continue
        has_effect = not op.results or bool(op.regions)
        if not has_effect and not any(result in counts for result in op.results):
            continue
        live.add(op)
        if is_index_arithmetic(op):
            continue  # its users mention what it is made of
        for value in mentioned_values(op):
            counts[value] = counts.get(value, 0) + 1
            if op.parent is not None:
                blocks[value] = op.parent
    return Uses(frozenset(live), counts, blocks)


def mentioned_values(operation: Operation) -> list[SSAValue]:
    """The values that the text of an operation mentions; index arithmetic is looked through."""
    match operation:
        case affine.ForOp():
            return [v for bound in loop_bounds(operation) for v in bound.values()]
        case affine.LoadOp() | memref.LoadOp() | affine.VectorLoadOp():
            return [operation.memref, *_subscript_values(operation)]
        case affine.StoreOp() | memref.StoreOp() | affine.VectorStoreOp():
            return [
                *_operand_values(operation.value),
                operation.memref,
                *_subscript_values(operation),
            ]
        case _:
            return [v for operand in operation.operands for v in _operand_values(operand)]


def loop_bounds(loop: affine.ForOp) -> tuple[Sum, Sum]:
    bounds: list[Sum] = []
    for bound_map, operands in (
        (loop.lowerBoundMap, loop.lowerBoundOperands),
        (loop.upperBoundMap, loop.upperBoundOperands),
    ):
        results = bound_map.data.results
        if len(results) != 1:
            raise UnsupportedError(
                f"loop {name_of(loop)} has a bound that is a minimum or maximum",
                hint="cut the loop so that its bounds are single expressions",
            )
        bounds.append(sum_of_expression(results[0], list(operands)))
    return bounds[0], bounds[1]


def _subscript_values(operation: Load | Store) -> list[SSAValue]:
    """Each value as often as the printed subscripts mention it."""
    forms = subscripts(operation)
    buffer = operation.memref
    if isinstance(buffer.owner, Operation):  # a register array: one bracket per dimension
        return [v for form in forms for v in form.values()]
    assert isinstance(buffer.type, MemRefType)
    return list(flat_subscript(forms, buffer.type).values())


def _operand_values(value: SSAValue) -> list[SSAValue]:
    return list(sum_of(value).values()) if isinstance(value.type, IndexType) else [value]


def is_constant(operation: Operation) -> bool:
    """Constants, and constants repeated in a vector: written at every use."""
    if isinstance(operation, vector.BroadcastOp):
        source = operation.source.owner
        return isinstance(source, arith.ConstantOp)
    return isinstance(operation, arith.ConstantOp)
