"""What operations ask of their operands beside their own arithmetic of shapes.

    require_vector("the bias", (3,), 8)          ValueError: the bias is 3; a vector of 8 expected
    require_broadcast("a mask", (4, 1), (4, 9))  nothing: it fits

Every operation says these things in `infer_types`, so that an importer, a rule and the verifier
learn of a misfit from the same line. A size that is not known fits whatever it meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from xdsl.dialects.builtin import AnyFloat, IntegerType, i1
from xdsl.ir import Attribute, SSAValue

from explorer.ir.top.support.broadcasting import broadcast_shapes
from explorer.ir.types import (
    Dim,
    QuantizedType,
    Shape,
    arithmetic_type,
    element_type_of,
    format_shape,
    shape_of,
)


def may_be_equal(first: Dim, second: Dim) -> bool:
    """Whether two sizes can be the same, as far as they are known."""
    return isinstance(first, str) or isinstance(second, str) or first == second


def may_be_same_shape(first: Shape, second: Shape) -> bool:
    """Equal as far as sizes are known."""
    return len(first) == len(second) and all(map(may_be_equal, first, second))


def require_vector(role: str, operand: SSAValue | None, size: Dim) -> None:
    """ValueError unless an operand, where it is there, is a vector of `size` elements."""
    if operand is not None and not may_be_same_shape(shape_of(operand), (size,)):
        raise ValueError(
            f"{role} is {format_shape(shape_of(operand))}; a vector of {size} expected"
        )


def require_scalar(role: str, operand: SSAValue | None) -> None:
    """ValueError unless an operand, where it is there, holds one element of rank 0."""
    if operand is not None and shape_of(operand):
        raise ValueError(f"{role} is {format_shape(shape_of(operand))}; a scalar expected")


def require_broadcast(role: str, own: Shape, target: Shape) -> None:
    """ValueError unless a shape broadcasts to another one without making that larger."""
    if len(own) <= len(target):
        with suppress(ValueError):  # which names both shapes, but not the role
            if all(map(may_be_equal, broadcast_shapes(target, own), target)):
                return
    raise ValueError(f"{role} {format_shape(own)} does not broadcast to {format_shape(target)}")


def require_same_type(role: str, operands: Sequence[SSAValue | None]) -> None:
    """ValueError unless the operands that are there have one element type."""
    kinds = dict.fromkeys(element_type_of(o) for o in operands if o is not None)
    if len(kinds) > 1:
        raise ValueError(f"{role} have one element type, not {', '.join(map(str, kinds))}")


def require_integers(role: str, operand: SSAValue | None) -> None:
    """ValueError unless an operand, where it is there, holds integers (booleans are none)."""
    if operand is None:
        return
    kind = element_type_of(operand)
    if not isinstance(kind, IntegerType) or kind.width.data == 1:
        raise ValueError(f"{role} has elements of type {kind}; integers expected")


def require_numbers(role: str, operand: SSAValue) -> None:
    """ValueError for booleans."""
    if element_type_of(operand) == i1:
        raise ValueError(f"{role}: elements of type i1; numbers expected")


def require_floats(role: str, operands: Sequence[SSAValue | None]) -> None:
    """ValueError unless the operands that are there hold floats."""
    for kind in (element_type_of(o) for o in operands if o is not None):
        if not isinstance(kind, AnyFloat):
            raise ValueError(f"{role}: elements of type {kind}; floats expected")


def require_same_arithmetic(role: str, operands: Sequence[SSAValue | None]) -> None:
    """ValueError unless the operands that are there are computed with in one type.

    Types for storage may differ: f16 and bf16 are both computed with in f32.
    """
    present = [o for o in operands if o is not None]
    if len({arithmetic_type(element_type_of(o)) for o in present}) > 1:
        require_same_type(role, present)


def require_counts(name: str, rank: int, **numbers: tuple[Sequence[int], int, int]) -> None:
    """ValueError unless each list has its length and nothing below its least number.

    numbers: by what they are called, (list, length, least).
    """
    for role, (found, length, least) in numbers.items():
        if len(found) != length or min(found, default=least) < least:
            raise ValueError(
                f"{name} over {rank} dimensions: {role} {list(found)}; {length} numbers of "
                f"{least} or more expected"
            )


def require_slices(kind: Attribute, shape: Shape) -> None:
    """ValueError where a type has scales for other slices than a tensor of that shape has."""
    if not isinstance(kind, QuantizedType) or kind.is_per_tensor:
        return
    axis, count = kind.axis_number, len(kind.scale_array)
    if axis >= len(shape):
        raise ValueError(f"scales along axis {axis} of a tensor with {len(shape)} axes")
    if kind.block_size:
        return  # in tensors of their own, which `top.dequantize_blocks` compares
    if not may_be_equal(shape[axis], count):
        raise ValueError(f"{count} scales along axis {axis} of {format_shape(shape)}")
