"""Values of a program as tensors in global memory: signed integers of [channels, height, width].

    stored = stored_form(op.output)            ui8 of [1, 32, 7, 7]
    stored.shape, stored.offset                (32, 7, 7), 128: unsigned numbers less 128
    stored.signed(array)                       what layers compute with
    stored.logical(numbers)                    what the program means

Pictures [1, C, H, W] lie as they are; of all others the last axis are the channels, and the rest
are positions. Both are the same bytes where height x width is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType
from xdsl.ir import Attribute, SSAValue

from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_static,
    numpy_dtype,
    static_shape,
)
from explorer.npu.layer import LayerError
from explorer.npu.tensors import Shape, Tensor

WIDE_BITS = 32


@dataclass(frozen=True, kw_only=True)
class Stored:
    """How a value lies in global memory."""

    name: str
    logical_shape: tuple[int, ...]
    element_type: str
    """NumPy's name of a stored number, as the program has it."""
    shape: Shape
    offset: int
    """What is subtracted of unsigned numbers so that they are signed."""
    is_wide: bool

    @property
    def tensor(self) -> Tensor:
        return Tensor(name=self.name, shape=self.shape, is_wide=self.is_wide)

    def agrees(self, tensor: Tensor) -> bool:
        """Whether a layer's operand or result is these bytes."""
        (channels, *size), (others, *other) = self.shape, tensor.shape
        return (channels, prod(size), self.is_wide) == (others, prod(other), tensor.is_wide)

    def signed(self, array: np.ndarray) -> np.ndarray:
        """i64 of `shape` of a value of the program."""
        return self.arranged(array.astype(np.int64)) - self.offset

    def arranged(self, array: np.ndarray) -> np.ndarray:
        """An array of the logical shape in `shape`."""
        if _is_picture(self.logical_shape):
            return array.reshape(self.shape)
        return array.reshape(-1, self.shape[0]).T.reshape(self.shape)

    def logical(self, numbers: np.ndarray) -> np.ndarray:
        """The value of the program that has these signed numbers."""
        found = numbers.reshape(self.shape) + self.offset
        if not _is_picture(self.logical_shape):
            found = found.reshape(self.shape[0], -1).T
        return found.reshape(self.logical_shape).astype(self.element_type)


def stored_form(value: SSAValue, name: str = "") -> Stored:
    """How the value lies; LayerError where it has no integers of a known number."""
    if not isinstance(value.type, TensorType) or not is_static(value):
        raise LayerError("its size is not known")
    kind, shape = element_type_of(value), static_shape(value)
    storage = kind.storage if isinstance(kind, QuantizedType) else kind
    if not isinstance(storage, IntegerType) or storage.width.data == 1:
        raise LayerError("its numbers are no integers")
    if not shape or 0 in shape:
        raise LayerError(f"a shape of {list(shape)} is no picture and has no channels")
    if _is_picture(shape):
        lies: Shape = (shape[1], shape[2], shape[3])
    else:
        lies = (shape[-1], 1, prod(shape[:-1]))
    is_wide = storage.width.data == WIDE_BITS
    return Stored(
        name=name, logical_shape=shape, element_type=numpy_dtype(kind).name, shape=lies,
        offset=_offset(storage), is_wide=is_wide,
    )  # fmt: skip


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[0] == 1


def _offset(storage: Attribute) -> int:
    assert isinstance(storage, IntegerType)
    is_unsigned = storage.signedness.data == Signedness.UNSIGNED
    return 1 << storage.width.data - 1 if is_unsigned else 0


def are_same_bytes(left: SSAValue, right: SSAValue) -> bool:
    """Whether a reshape from one to the other moves nothing."""
    a, b = stored_form(left), stored_form(right)
    return (a.shape[0], prod(a.shape[1:]), a.is_wide) == (b.shape[0], prod(b.shape[1:]), b.is_wide)
