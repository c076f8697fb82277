"""Winograd convolutions of which a call decides the sizes: outputs below (times * size - minus).

    for r, s: padded[c, r, s] = r < rows + 2 and s < columns + 2 ? x[c, r, s] : 0

A tile at the end of a call's sizes mixes what a call has with what lies beyond. In a program of one
size that is zeros, and so it is here: whatever x holds there, NaN as well, goes into no tile. Loops
over tiles end with the sizes like those over elements (`clipping.py`): buffers of tiles have an
extent in tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import affine, arith, func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.ir import Block, Operation, SSAValue

from explorer.ir.scalars import Scalar
from explorer.kernels.loops.find_extents import (
    EXTENTS,
    LEAST,
    UNEVEN,
    WHOLE,
    Extent,
    extents_of_kernel,
)
from explorer.kernels.loops.nest import LinearForm, linear_map, make_load, shape_of

Extents = tuple[Extent | None, Extent | None]


class UnevenError(ValueError):
    """Why a convolution of open sizes has no tiles; the text is a reason."""


@dataclass(frozen=True)
class OpenPlane:
    """The rows and the columns of outputs that a call needs; None: all of them."""

    rows: Extent | None
    columns: Extent | None
    least: tuple[int, int] = (0, 0)
    """How many those are at the smallest sizes of a call."""

    @property
    def is_open(self) -> bool:
        return self.rows is not None or self.columns is not None

    def tiles(self, outputs: int) -> Extents:
        """The same in tiles of so many outputs each way."""
        return _in_units(self.rows, outputs), _in_units(self.columns, outputs)

    def elements(self, more: int) -> Extents:
        """So many elements more than outputs each way."""
        return _longer(self.rows, more), _longer(self.columns, more)

    def is_inside(
        self, function: func.FuncOp, place: Sequence[LinearForm], halo: int, like: Operation
    ) -> tuple[list[Operation], SSAValue]:
        """The condition that a row and a column of the input, counted from the first that is read,
        are of a call."""
        block = Block()
        found: SSAValue | None = None
        for form, extent in zip(place, self.elements(halo), strict=True):
            if extent is None:
                continue
            load = make_load(function.body.block.args[extent.argument], [LinearForm()], like)
            indices, access_map = linear_map([form])
            position = affine.ApplyOp(indices, access_map)
            block.add_ops([load, position])
            size = Scalar(block, load.result) * extent.times - extent.minus
            own = Scalar(block, position.result).convert(i64).compare("lt", size)
            value = own.value
            if found is not None:
                both = arith.AndIOp(found, value)
                block.add_op(both)
                value = both.result
            found = value
        operations = list(block.ops)
        for op in operations:
            op.detach()
            op.location = like.location
        assert found is not None, "one of both is open"
        return operations, found


def open_plane(function: func.FuncOp, result: SSAValue, start: Sequence[int]) -> OpenPlane:
    """Of a convolution that stores its outputs from `start` on.

    Raises UnevenError where launches of the kernel need different outputs, or whole vectors.
    """
    every = extents_of_kernel(function)
    if not every:
        return OpenPlane(None, None)
    if UNEVEN in function.attributes:
        raise UnevenError("its launches need different sizes")
    arguments: list[SSAValue] = list(function.body.block.args)
    known = every[arguments.index(result)]
    rows, columns = (
        None if extent is None else replace(extent, minus=extent.minus + first)
        for extent, first in zip(known[2:4], start, strict=True)
    )
    if any(extent is not None and extent.multiple != 1 for extent in (rows, columns)):
        raise UnevenError("its sizes are rounded to whole vectors")
    attribute = function.attributes[LEAST]
    assert isinstance(attribute, DenseArrayBase)
    sizes = [int(size) for size in attribute.get_values()]
    height, width = (
        0 if extent is None else max(1, extent.times * sizes[extent.argument] - extent.minus)
        for extent in (rows, columns)
    )
    return OpenPlane(rows, columns, (height, width))


def declare_extents(function: func.FuncOp, extents: Sequence[Extent | None]) -> None:
    """States what a call needs of the buffer that a step added as the last argument."""
    attribute = function.attributes[EXTENTS]
    assert isinstance(attribute, ArrayAttr)
    rows = list(attribute.data)
    for argument in function.body.block.args[len(rows) : -1]:
        whole = list(WHOLE) * len(shape_of(argument))
        rows.append(DenseArrayBase.from_list(i64, whole))
    numbers = [n for extent in extents for n in (WHOLE if extent is None else extent.row())]
    rows.append(DenseArrayBase.from_list(i64, numbers))
    function.attributes[EXTENTS] = ArrayAttr(rows)


def _in_units(extent: Extent | None, count: int) -> Extent | None:
    return None if extent is None else replace(extent, per=count)


def _longer(extent: Extent | None, more: int) -> Extent | None:
    return None if extent is None else replace(extent, minus=extent.minus - more)
