"""Questions that rules ask about values: is it constant, is it used once, what feeds it?

scalar(%half, weights)                  0.5 for a weight of one element, None for all else
per_channel(array, 4, axis=1, size=8)   the 8 numbers of an 8x1x1 constant
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import constant as constant
from explorer.ir.constants import is_about as is_about
from explorer.ir.constants import is_constant as is_constant
from explorer.ir.constants import scalar as scalar
from explorer.ir.constants import splat as splat
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import element_type_of, numpy_dtype, shape_of

AnyOperation = TypeVar("AnyOperation", bound=Operation)


def maker(value: SSAValue, kind: type[AnyOperation]) -> AnyOperation | None:
    """The operation that computes the value if it is one of that class."""
    return value.owner if isinstance(value.owner, kind) else None


def is_float(value: SSAValue) -> bool:
    return isinstance(element_type_of(value), AnyFloat)


def has_fused_parts(op: ConvOp | MatMulOp) -> bool:
    """Is it more than a product of two tensors of real numbers?"""
    is_alone = op.bias is None and op.residual is None and not op.get("activation")
    return not is_alone or op.sums is not None


def per_channel(array: np.ndarray, rank: int, axis: int, size: int) -> np.ndarray | None:
    """The numbers of a constant that varies, broadcast to `rank` dimensions, along `axis` only.

    Returns (size,); None where it varies along another axis or has more dimensions.
    """
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(n != 1 for a, n in enumerate(shape) if a != axis) or shape[axis] not in (1, size):
        return None
    return np.broadcast_to(array.reshape(-1), (size,)).copy()


def channel_axis(op: ConvOp | MatMulOp) -> int:
    """The axis of the result that a bias runs along."""
    return 1 if isinstance(op, ConvOp) else len(shape_of(op.output)) - 1


def both_orders(op: BinaryOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Both ways to read a commutative operation's operands."""
    yield op.left, op.right
    yield op.right, op.left


def is_used_once(op: Operation) -> bool:
    """Is the operation's result (it has one) read by a single operand?"""
    return op.results[0].has_one_use()


def uses(op: Operation) -> int:
    """How often the operation's results are read; what a function returns counts."""
    return sum(1 for result in op.results for _ in result.uses)


def require_single_use(op: Operation, reason: str = "") -> None:
    """Declined where more than one operand reads the operation."""
    count = uses(op)
    if count > 1:
        suffix = f": {reason}" if reason else ""
        raise Declined(f"{identity_of(op)} is used {count} times{suffix}")


def is_kind(op: Operation | None, kind: str) -> bool:
    """Is it the `top.unary` or `top.binary` of that kind?"""
    return isinstance(op, UnaryOp | BinaryOp) and op.kind.data == kind


def dtype_of(value: SSAValue) -> np.dtype:
    return numpy_dtype(element_type_of(value))


def weight_name(op: TopOperation, role: str) -> str:
    """Name for a weight that a pass computes: `conv3.bias`."""
    return f"{identity_of(op)}.{role}"
