"""Which operations have a compiled form as they stand, and why the others have none.

    %i = top.nonzero(%x) : tensor<1x?xi64>      the size 1x? depends on data
    %y = top.loop(%x, %count) ...               is control flow that depends on data

What lowering refuses and what placement leaves to the host are told by the same words.
"""

from __future__ import annotations

from explorer.ir.operation import TopOperation
from explorer.ir.types import format_shape, is_static, shape_of
from explorer.passes.sizes.written_out import MAX_OPERATIONS, loop_length


def missing_form(op: TopOperation) -> str:
    """Why nothing can be compiled for an operation, with a way out; empty where it can."""
    if op.regions:
        return f"{op.name} {': '.join(missing_control(op))}"
    for value in (*op.operands, *op.results):
        if not is_static(value):
            return f"{op.name}: the size {format_shape(shape_of(value))} depends on data"
    return op.missing_form()


def missing_control(op: TopOperation) -> tuple[str, str]:
    """Why control flow was left over, and the way out: compiled code has none."""
    if not op.REPEATS:
        return (
            "has branches of different shapes, or one that may trap",
            "export the one that is needed",
        )
    trips = op.get("trip_count")
    if trips is not None and len(op.regions[0].block.args) == 1 + len(op.operands):
        return (
            f"runs its {loop_length(op)} operations {trips:,} times; at most "
            f"{MAX_OPERATIONS:,} in all are written out",
            "export the model with fewer iterations",
        )
    return (
        "is control flow that depends on data",
        "export the model with a constant limit of iterations and without rows",
    )
