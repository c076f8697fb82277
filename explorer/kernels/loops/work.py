"""How much there is to do in loop nests: operations that are executed, a vector counted as one.

    affine.for %i = 0 to 56 {          56 × (load, multiply, add, store) = 224
      load; multiply; add; store
    }

It decides whether work is worth a second thread. A processor executes 3 (textbook loops) to 20
(register tiles) of them in a nanosecond; no more is known here than that.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import affine
from xdsl.ir import Operation

from explorer.kernels.loops.nest import bounds_of

FUNCTION_WORK = 10
"""Of one of the `math` dialect: exp, tanh ..."""
UNKNOWN_EXTENT = 1000
"""Of a loop whose bounds depend on data."""


def operation_count(operations: Iterable[Operation]) -> int:
    """Operations that are executed in all of these and in what they hold."""
    return sum(_count(operation) for operation in operations)


def _count(operation: Operation) -> int:
    if isinstance(operation, affine.YieldOp):
        return 0
    inside = sum(
        operation_count(block.ops) for region in operation.regions for block in region.blocks
    )
    if not isinstance(operation, affine.ForOp):
        return (FUNCTION_WORK if operation.dialect_name() == "math" else 1) + inside
    bounds = bounds_of(operation)
    extent = UNKNOWN_EXTENT if bounds is None else bounds[1] - bounds[0]
    return extent * inside
