"""Weights as narrow integers with a scale for every block of rows.

    form = BlockForm("int4", 32)
    found = nearest(weights, form)              (k, n) floats
    found.numbers, found.scales, found.zeros    (k, n) i4, (ceil(k / 32), n) f32, None
    found.real()                                (number - zero) * scale, f32

    with a sign       scale = max |w| / (2^(b-1) - 1), zero point 0
    without one       scale = (max w - min w) / (2^b - 1), the range holding 0;
                      zero point round(-min w / scale)

A block is so many rows of one column: what belongs to one sum. The last one may be shorter.
Reference: ONNX operators, DequantizeLinear-21.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.errors import InputError
from explorer.ir.requantization import integer_limits
from explorer.ir.types import QuantizedType, element_type_from_numpy
from explorer.results.names import near_name

BlockType = Literal["int4", "uint4", "int8", "uint8"]
DTYPES: dict[str, np.dtype] = {
    "int4": np.dtype(ml_dtypes.int4),
    "uint4": np.dtype(ml_dtypes.uint4),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
}
"""With a sign zero points are 0; without one a range need not lie around zero."""
BLOCKS = (16, 32, 64, 128, 256)
"""Lengths of blocks that are usual; others may be, but for odd ones."""
SMALLEST_SCALE = 2.0**-60
"""Of blocks that are all zero."""


@dataclass(frozen=True)
class BlockForm:
    """What weights are stored as: a name of `DTYPES`, and how many rows share a scale.

    InputError for what is none.
    """

    name: str
    block: int

    def __post_init__(self) -> None:
        if self.name not in DTYPES:
            raise InputError(
                f"weights cannot be {self.name!r}", hint=near_name(self.name, list(DTYPES))
            )
        is_number = isinstance(self.block, int) and not isinstance(self.block, bool)
        if not is_number or self.block < 2 or self.block % 2:
            raise InputError(
                f"weights cannot have a scale for every {self.block!r}",
                hint=f"an even number: {', '.join(map(str, BLOCKS))}",
            )

    def __str__(self) -> str:
        return f"{self.name} in blocks of {self.block}"

    @property
    def dtype(self) -> np.dtype:
        return DTYPES[self.name]

    @property
    def storage(self) -> IntegerType:
        kind = element_type_from_numpy(self.dtype)
        assert isinstance(kind, IntegerType)
        return kind

    @property
    def limits(self) -> tuple[int, int]:
        return integer_limits(self.storage)

    @property
    def is_symmetric(self) -> bool:
        return not self.name.startswith("u")

    def type_along(self, axis: int) -> QuantizedType:
        return QuantizedType.in_blocks(self.storage, axis, self.block)


@dataclass(frozen=True, kw_only=True)
class BlockNumbers:
    """Weights in blocks along their rows; zeros: of the numbers' type, None where all are 0."""

    form: BlockForm
    numbers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None

    def real(self) -> np.ndarray:
        """(k, n) f32, as `top.dequantize_blocks` has it."""
        block_of = np.arange(len(self.numbers)) // self.form.block
        real = self.numbers.astype(np.float32)
        if self.zeros is not None:
            real = real - self.zeros.astype(np.float32)[block_of]
        return real * self.scales[block_of]

    @property
    def size_bytes(self) -> int:
        """Of numbers, scales and zero points, as they lie in memory: two of four bits in a byte."""
        bits = self.form.storage.width.data
        zeros = 0 if self.zeros is None else self.zeros.size
        rows, columns = self.numbers.shape
        return -(-rows * bits // 8) * columns + self.scales.nbytes + zeros


def parameters(weights: np.ndarray, form: BlockForm) -> tuple[np.ndarray, np.ndarray]:
    """(n,) f32 scales and (n,) f64 zero points of one block (rows, n)."""
    low, high = form.limits
    if form.is_symmetric:
        scales = np.abs(weights).max(axis=0, initial=0.0) / high
        return _single(scales), np.zeros(weights.shape[1])
    least = weights.min(axis=0, initial=0.0)
    scales = _single((weights.max(axis=0, initial=0.0) - least) / (high - low))
    return scales, np.clip(np.rint(-least / scales), low, high)


def _single(scales: np.ndarray) -> np.ndarray:
    return np.maximum(scales, SMALLEST_SCALE).astype(np.float32)


def rounded(weights: np.ndarray, scales: np.ndarray, zeros: np.ndarray, form: BlockForm):
    """The nearest numbers of a block, f64: of ties the even one."""
    return np.clip(np.rint(weights / scales) + zeros, *form.limits)


def assembled(
    numbers: np.ndarray, scales: np.ndarray, zeros: np.ndarray, form: BlockForm
) -> BlockNumbers:
    """Whole numbers and parameters, of whatever type, as they are stored."""
    stored = None if form.is_symmetric else zeros.astype(np.int64).astype(form.dtype)
    whole = numbers.astype(np.int64).astype(form.dtype)
    return BlockNumbers(form=form, numbers=whole, scales=scales.astype(np.float32), zeros=stored)


def nearest(weights: np.ndarray, form: BlockForm) -> BlockNumbers:
    """Each weight (k, n) by itself."""
    wide = weights.astype(np.float64)
    parts = [wide[start : start + form.block] for start in range(0, len(wide), form.block)]
    grids = [parameters(part, form) for part in parts]
    numbers = [rounded(part, *grid, form) for part, grid in zip(parts, grids, strict=True)]
    scales, zeros = (np.stack(each) for each in zip(*grids, strict=True))
    return assembled(np.concatenate(numbers), scales, zeros, form)
