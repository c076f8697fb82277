"""Random parts of a one-operator model: shapes, types, scales, constants.

    draw = Draw(seed=1, kind="ADD", number=4)
    x = draw.tensor("x", draw.shape(4), draw.type("float32", "int8"))

The same numbers give the same model on every machine. Every second case is large: tensors of 4,000
elements and more, since small ones pass with wrong roundings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from verification.conformance.choices import LARGE, Choices
from verification.conformance.tflite.models import GraphOf, TensorOf

QUANTIZED = ("int8", "uint8", "int16")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One operator with its tensors. `ranges`: of some inputs the least and the largest number."""

    inputs: Sequence[TensorOf | None]
    results: Sequence[TensorOf]
    options: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    others: Sequence[GraphOf] = ()
    """Subgraphs that it calls."""
    intermediates: Sequence[TensorOf] = ()


class Draw(Choices):
    """One source of random numbers for a case; `attempt` tells those apart that LiteRT refused."""

    def shape(self, rank: int | None = None, most: int = 6) -> tuple[int, ...]:
        """Sizes of at most `most`, which are doubled at random until a large case is large."""
        sizes = [self.integer(1, most) for _ in range(self.integer(1, 4) if rank is None else rank)]
        while self.is_large and prod(sizes) < LARGE:
            sizes[self.integer(0, len(sizes) - 1)] *= 2
        return tuple(sizes)

    def image(self, rank: int = 4) -> tuple[int, ...]:
        """A batch of images with their channels last."""
        spatial = [self.integer(5, 9) * (2 if self.is_large else 1) for _ in range(rank - 2)]
        batch, channels = self.integer(1, 2), self.integer(1, 4)
        missing = -(-LARGE // (batch * prod(spatial)))
        return (batch, *spatial, max(channels, missing) if self.is_large else channels)

    def broadcast(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another one."""
        if self.flag():
            return tuple(shape)
        kept = [size if self.flag() else 1 for size in shape]
        return tuple(kept[self.integer(0, len(kept) - 1) :])

    def scale(self, low: float = 0.004, high: float = 0.1) -> float:
        """Uniform in its logarithm; nearly never a power of two."""
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def zero(self, dtype: str) -> int:
        if dtype == "int16":
            return 0
        limits = np.iinfo(dtype)
        return int(self.random.integers(limits.min // 2, limits.max // 2 + 1))

    def tensor(self, name: str, shape: Sequence[int], dtype: str = "float32") -> TensorOf:
        """An operand; of bytes and 16-bit numbers with a random scale and zero point."""
        if dtype not in QUANTIZED:
            return TensorOf(name=name, shape=shape, element_type=dtype)
        return self.quantized(name, shape, dtype, self.scale(), self.zero(dtype))

    @staticmethod
    def quantized(name: str, shape: Sequence[int], dtype: str, scale: float, zero: int) -> TensorOf:
        return TensorOf(name=name, shape=shape, element_type=dtype, scales=[scale], zeros=[zero])

    @staticmethod
    def like(tensor: TensorOf, name: str, shape: Sequence[int]) -> TensorOf:
        """A tensor of another's type and scale."""
        return TensorOf(
            name=name,
            shape=shape,
            element_type=tensor.element_type,
            scales=tensor.scales,
            zeros=tensor.zeros,
        )

    @staticmethod
    def constant(name: str, values: Any, dtype: str = "int32") -> TensorOf:
        array = np.asarray(values, dtype)
        return TensorOf(name=name, shape=array.shape, element_type=dtype, data=array)

    def floats(self, name: str, shape: Sequence[int]) -> TensorOf:
        """Constant weights."""
        return self.constant(name, self.random.standard_normal(shape), "float32")

    def axis(self, rank: int) -> int:
        """Counted from the front or from the back."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int) -> list[int]:
        """Some axes, at least one, in any order."""
        count = self.integer(1, rank)
        return [int(axis) for axis in self.random.permutation(rank)[:count]]

    def activation(self) -> int:
        """NONE, RELU, RELU_N1_TO_1 or RELU6, as the schema numbers them."""
        return self.integer(0, 3)


def inputs_of(
    draw: Draw, inputs: Sequence[TensorOf | None], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, np.ndarray]:
    """Random contents: bytes over their whole range, other integers between -100 and 100."""
    found = {}
    for tensor in inputs:
        if tensor is None or tensor.data is not None:
            continue
        dtype, shape = np.dtype(tensor.element_type), tuple(tensor.shape)
        if dtype.kind == "b":
            found[tensor.name] = draw.random.integers(0, 2, shape).astype(bool)
        elif dtype.kind == "f":
            low, high = ranges.get(tensor.name, (-5.0, 5.0))
            found[tensor.name] = draw.random.uniform(low, high, shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            whole = (limits.min, limits.max) if dtype.itemsize < 4 else (-100, 100)
            low, high = ranges.get(tensor.name, whole)
            found[tensor.name] = draw.random.integers(int(low), int(high) + 1, shape).astype(dtype)
    return found
