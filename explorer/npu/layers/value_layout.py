"""Values of a program as tensors in global memory: signed integers of [channels, height, width].

    stored = stored_form(op.output)            ui8 of [1, 32, 7, 7]
    stored.shape, stored.offset                (32, 7, 7), 128: unsigned numbers less 128
    stored.signed(array)                       what layers compute with
    stored.logical(numbers)                    what the program means

Pictures [N, C, H, W] lie one below the other, as one of N x H rows; of all others the last axis are
the channels, and the rest are positions. Both are the same bytes where height x width is the same.

The host writes an argument of a function in any order. One that views alone read, each read by the
next, lies as the last of them has it, and nothing is moved: reshapes, orders of axes
(`npu.permute`), and neighbouring positions as channels (`npu.unfold`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
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
from explorer.ir.unfolding import Unfolding
from explorer.npu.layers.arrangement import (
    Steps,
    arranged,
    arranged_shape,
    arrangement_of,
    restored,
)
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.tensors import Shape, Tensor
from explorer.targets.npu.machine import Machine

WIDE_BITS = 32
PICTURE_RANK = 4


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
    steps: Steps = ()
    """From the logical shape to the one by which numbers are arranged."""
    unfolding: Unfolding | None = None
    """Where neighbouring positions of the one picture of that shape are channels."""
    bits: int = 8
    """Of a number of the program; in memory it takes those of the machine's inputs or sums."""

    @property
    def pictures(self) -> int:
        """How many lie one below the other."""
        return self.logical_shape[0] if _is_picture(self.logical_shape) else 1

    @property
    def channel_axis(self) -> int:
        """Of `logical_shape`."""
        return channel_axis(len(self.logical_shape))

    @property
    def picture_shape(self) -> Shape:
        """Of one of them."""
        channels, height, width = self.shape
        return channels, height // self.pictures, width

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

    @property
    def read_shape(self) -> tuple[int, ...]:
        """The one by which numbers are arranged."""
        return arranged_shape(self.logical_shape, self.steps)

    def viewed(self, array: np.ndarray) -> np.ndarray:
        """An array of the logical shape in `read_shape`."""
        return arranged(array.reshape(self.logical_shape), self.steps)

    def restored(self, array: np.ndarray) -> np.ndarray:
        """The array of the logical shape that is viewed so."""
        return restored(array, self.steps, self.logical_shape)

    def arranged(self, array: np.ndarray) -> np.ndarray:
        """An array of the logical shape in `shape`."""
        array = self.viewed(array)
        if self.unfolding is not None:
            return self.unfolding.apply(array[0])
        if _is_picture(array.shape):
            return array.swapaxes(0, 1).reshape(self.shape)
        return array.reshape(-1, self.shape[0]).T.reshape(self.shape)

    def logical(self, numbers: np.ndarray) -> np.ndarray:
        """The value of the program that has these signed numbers; where numbers do not lie in
        memory, because nothing reads them, it has padding."""
        found = numbers.reshape(self.shape) + self.offset
        read = self.read_shape
        if self.unfolding is not None:
            _, channels, height, width = read
            found = self.unfolding.undo(found, (channels, height, width))
        elif _is_picture(read):
            count, channels, *size = read
            found = found.reshape(channels, count, *size).swapaxes(0, 1)
        else:
            found = found.reshape(self.shape[0], -1).T
        return self.restored(found).astype(self.element_type)


def stored_form(value: SSAValue | Attribute, name: str = "") -> Stored:
    """How a value, or one of that type, lies; LayerError where it has no integers of a known
    number."""
    tensor = value.type if isinstance(value, SSAValue) else value
    if not isinstance(tensor, TensorType) or not is_static(tensor):
        raise LayerError("its size is not known")
    kind, shape = element_type_of(tensor), static_shape(tensor)
    storage = kind.storage if isinstance(kind, QuantizedType) else kind
    if not isinstance(storage, IntegerType) or storage.width.data == 1:
        raise LayerError("its numbers are no integers")
    if not shape or 0 in shape:
        raise LayerError(f"a shape of {list(shape)} is no picture and has no channels")
    is_wide = storage.width.data == WIDE_BITS
    steps, unfolding = arrangement_of(value)
    return Stored(
        name=name, logical_shape=shape, element_type=numpy_dtype(kind).name, steps=steps,
        shape=lying_shape(arranged_shape(shape, steps), unfolding), offset=_offset(storage),
        is_wide=is_wide, unfolding=unfolding, bits=storage.width.data,
    )  # fmt: skip


def lying_shape(shape: tuple[int, ...], unfolding: Unfolding | None = None) -> Shape:
    """Channels, height and width of a value of a logical shape, as it lies in global memory."""
    if unfolding is not None:
        return unfolding.shape((shape[1], shape[2], shape[3]))
    if _is_picture(shape):
        return shape[1], shape[0] * shape[2], shape[3]
    return shape[-1], 1, prod(shape[:-1])


def width_problem(value: SSAValue | Attribute, machine: Machine) -> str:
    """Why numbers of that type would be cut in the machine's memory; empty where they fit."""
    stored = stored_form(value)
    room = machine.accumulator_bits if stored.is_wide else machine.input_bits
    if stored.bits <= room:
        return ""
    return f"its numbers have {stored.bits} bits, and {machine.name} stores {room} of each"


def channel_axis(rank: int) -> int:
    """Of values of so many axes."""
    return 1 if rank == PICTURE_RANK else rank - 1


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == PICTURE_RANK


def _offset(storage: Attribute) -> int:
    assert isinstance(storage, IntegerType)
    is_unsigned = storage.signedness.data == Signedness.UNSIGNED
    return 1 << storage.width.data - 1 if is_unsigned else 0


def are_same_bytes(left: SSAValue, right: SSAValue) -> bool:
    """Whether a reshape from one to the other moves nothing."""
    a, b = stored_form(left), stored_form(right)
    is_alike = (a.shape[0], prod(a.shape[1:]), a.is_wide) == (
        b.shape[0], prod(b.shape[1:]), b.is_wide,
    )  # fmt: skip
    return is_alike and _lie_alike(a, b)


@lru_cache(maxsize=1024)
def _lie_alike(a: Stored, b: Stored) -> bool:
    """Whether as many numbers lie in the same order: a picture of as many channels as columns
    may become rows of which these are the channels."""
    numbers = np.arange(prod(a.logical_shape), dtype=np.int64)
    first, second = (form.arranged(numbers.reshape(form.logical_shape)) for form in (a, b))
    return np.array_equal(first.reshape(-1), second.reshape(-1))
