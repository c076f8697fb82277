"""What operations share that move elements: reshape, transpose, concat, slice, pad, expand.

None computes anything; each definition is a copy whose subscripts say where elements go. What is
not known before the model runs (a shape or bounds that are computed) is an optional operand,
which a pass replaces by properties once it is constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.interfaces import (
    ComputesSizes,
    Elements,
    Moving,
    Permutation,
    Permuted,
    RowWise,
    inverse,
)
from explorer.ir.operation import Access, TopOperation
from explorer.ir.sizes.dimensions import (
    UNKNOWN,
)
from explorer.ir.top.definitions import (
    CHANNELS,
    clear_padding_channels,
)
from explorer.ir.top.sizes import plain_numbers
from explorer.ir.top.support.operands import require_integers, require_same_type
from explorer.ir.types import (
    Dim,
    QuantizedType,
    Shape,
    element_type_of,
    format_shape,
    is_static,
    layout_of,
    shape_of,
    tensor_type,
)


class MovementOperation(RowWise, ComputesSizes, Moving):
    """What they share: finite stays finite, and the result has the first operand's element type."""

    FAMILY: ClassVar[str] = "movement"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    def infer_types(self) -> list[Attribute]:
        return [tensor_type(self.result_element(), self.result_shape())]

    def result_element(self) -> Attribute:
        """The first operand's element type; ValueError where its scales would not fit any more."""
        kind = element_type_of(self.operands[0])
        if not isinstance(kind, QuantizedType):
            require_same_type(f"what {self.name} joins", self.moved_operands())
            return kind
        if any(element_type_of(o) != kind for o in self.moved_operands()):
            raise ValueError(f"{self.name} joins numbers of different scales or zero points")
        if kind.block_size:
            raise ValueError(f"{self.name} would move numbers away from the scales of their blocks")
        return kind if kind.is_per_tensor else kind.with_axis(self.moved_axis(kind.axis_number))

    def moved_axis(self, axis: int) -> int:
        """Where an axis with a scale for each of its slices is in the result."""
        raise ValueError(f"{self.name} mixes slices of axis {axis}, each with a scale of its own")

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        """What is moved may be expressions; operands that say how must be known numbers."""
        is_moved = [operand in self.moved_operands() for operand in self.operands]
        found = [elements(operand) for operand in self.operands]
        given = [a if m else plain_numbers(a) for a, m in zip(found, is_moved, strict=True)]
        known = [array for array in given if array is not None]
        if len(known) < len(given):
            return None
        return np.asarray(self.evaluate(*known)[0], object)

    def result_shape(self) -> Shape:
        """Shape of the result; ValueError where operands and properties do not fit."""
        raise NotImplementedError(self.name)

    def numbers_of(self, role: str, operand: SSAValue) -> Dim:
        """The length of an operand that is a vector of integers; ValueError where it is none."""
        require_integers(role, operand)
        shape = shape_of(operand)
        if len(shape) != 1:
            raise ValueError(f"{role} is {format_shape(shape)}; a vector expected")
        return shape[0]

    def declared_or_unknown(self, rank: Dim) -> Shape:
        """For operands that are only known when the model runs: what was declared, else "?"."""
        if self.results:
            return shape_of(self.results[0])
        if not isinstance(rank, int):
            raise ValueError(f"{self.name}: not even the rank of the result is known")
        return (UNKNOWN,) * rank

    @property
    def has_plain_buffers(self) -> bool:
        """Static operand and result whose buffers hold their elements densely, in order."""
        ends = (self.operands[0], self.results[0])
        return all(is_static(v) and layout_of(v).is_plain for v in ends)


def same_element(s: ScalarBuilder, x: Scalar) -> Scalar:
    return x


def clear_behind(k: KernelBuilder, output: Access, covered: Sequence[int]) -> None:
    if output.rank > CHANNELS:
        clear_padding_channels(k, output, covered[CHANNELS])


def permuted_numbers(op: TopOperation, names: Sequence[str], permutation: Permutation) -> Permuted:
    """Properties that are lists with one number per axis."""
    lists = {name: op.get(name) for name in names if op.get(name) is not None}
    back = inverse(permutation)
    moved = {name: [numbers[axis] for axis in back] for name, numbers in lists.items()}
    return Permuted(moved, permutation)


def affine(index: AffineExpr, factor: int, offset: int) -> Subscript:
    scaled = index * factor if factor != 1 else index
    return scaled + offset if offset else scaled
