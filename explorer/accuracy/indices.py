"""Which indices of a run lie outside of what they index.

    Gather(table of 4 rows, ids = [0, 99])   ->   index 99 at [1] of 'ids' ..., 4 elements

Generated code clamps such an index, on every device, so that no data reaches outside a buffer; the
result is a number that nobody asked for. The index tensors of a run are looked at on the host: they
are values of the compiled program like any other, whatever device that was made for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.ir import BlockArgument, SSAValue

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origin_of, sources_of
from explorer.ir.program import Snapshot
from explorer.ir.structure import operations, value_name
from explorer.ir.top.data import TransferOp, WeightOp
from explorer.ir.top.indexing import IndexingOperation
from explorer.ir.types import is_static, shape_of
from explorer.results import OutsideIndex

Values = Mapping[str, np.ndarray]


def indexing_operations(snapshot: Snapshot) -> list[IndexingOperation]:
    """The operations of a snapshot of level `top` whose indices may lie outside."""
    return [op for op in operations(snapshot.program) if isinstance(op, IndexingOperation)]


def outside_indices(snapshot: Snapshot, values: Values) -> tuple[OutsideIndex, ...]:
    """What lies outside, one record per operation, in program order.

    snapshot: of level `top`. values: by name, of this snapshot or of one that was made of it; what
    is missing there (a view, a weight) is computed from what is not.
    """
    found = []
    for op in indexing_operations(snapshot):
        indices = _value(op.operands[1], snapshot, values)
        indexed = op.operands[0]
        is_known = is_static(indexed)
        shape = shape_of(indexed) if is_known else _value(indexed, snapshot, values).shape
        first = op.outside(indices, shape)
        if first is not None:
            found.append(
                OutsideIndex(
                    tensor=_tensor_name(op.operands[1], snapshot),
                    operation=identity_of(op),
                    nodes=sources_of(op),
                    element=first.element,
                    value=first.value,
                    axis=first.axis,
                    extent=first.extent,
                    count=first.count,
                )
            )
    return tuple(found)


def describe_outside(found: OutsideIndex) -> str:
    """One line: the index, its tensor, and what it is outside of."""
    more = f" and {found.count - 1} more" if found.count > 1 else ""
    where = list(found.element) if found.element else "the scalar"
    return (
        f"index {found.value} at {where} of {found.tensor!r}{more}: axis {found.axis} of what "
        f"{found.operation} indexes has {found.extent} elements"
    )


def require_inside(found: Sequence[OutsideIndex]) -> None:
    """InputError where an index lies outside; the message names all tensors."""
    if found:
        raise InputError(
            "; ".join(map(describe_outside, found)),
            node=", ".join(dict.fromkeys(node for one in found for node in one.nodes)),
            hint="give inputs whose indices lie inside; without the check each is clamped to the "
            "nearest element",
        )


def _value(value: SSAValue, snapshot: Snapshot, values: Values) -> np.ndarray:
    name = value_name(value)
    if name in values:
        return values[name]
    owner = value.owner
    if isinstance(owner, WeightOp):
        return snapshot.weights[owner.weight.data]
    assert isinstance(owner, TopOperation), name
    operands = [_value(operand, snapshot, values) for operand in owner.operands]
    results = owner.evaluate(*operands)
    return next(a for a, result in zip(results, owner.results, strict=True) if result is value)


def _tensor_name(value: SSAValue, snapshot: Snapshot) -> str:
    """The source model's name of a value, also where a device's function was given it."""
    if isinstance(value.owner, WeightOp):
        return value.owner.weight.data
    entry = entry_function(snapshot.program)
    if isinstance(value, BlockArgument):
        callee = value.block.parent_op()
        name = callee.sym_name.data if isinstance(callee, func.FuncOp) else ""
        for call in entry.walk():
            if isinstance(call, func.CallOp) and call.callee.string_value() == name:
                value = call.operands[value.index]
                break
    while isinstance(value.owner, TransferOp):
        value = value.owner.input
    if isinstance(value, BlockArgument) and value.block is entry.body.block:
        return input_names(entry)[value.index]
    origin = origin_of(value)
    return value_name(value) if origin is None else origin.tensor
