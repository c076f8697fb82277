"""Parts: values that lie inside the buffer of another value, so that nothing is copied.

    %y = top.concat(%a, %b) {axis = 1, in_place = true}     a and b are written where y has them
    %s = top.slice(%y) {..., in_place = true}               s is read where y has it
    %v = top.reshape(%y) {...}                              v is y under another shape

What an operation says of its values with `TopOperation.parts()` is what memory is planned by:

    BufferPart(a, y, 0), BufferPart(b, y, 4096)
    BufferPart(s, y, 4096, is_view=True), BufferPart(v, y, 0, is_view=True)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import SSAValue

from explorer.ir.layout import ROWS, haloed_shape, physical_shape
from explorer.ir.types import Layout, element_type_of, layout_of, numpy_dtype, static_shape

CHANNELS = 1
ALIGNMENT_BYTES = 64
"""Parts begin at multiples of it, like every other buffer; bands of rows begin at any row."""


@dataclass(frozen=True)
class BufferPart:
    """`value` lies in the buffer of `whole`, `offset_bytes` behind its beginning."""

    value: SSAValue
    whole: SSAValue
    offset_bytes: int = 0
    is_view: bool = False
    """It shows bytes that the whole holds; else it is written, and the whole is made of it."""


def offset_of_part(whole: SSAValue, part: SSAValue, axis: int, start: int) -> int:
    """Byte of the whole's buffer where the part begins: elements from `start` on of an axis.

    ValueError where its bytes are not one aligned piece of the whole's; the message is the reason.
    Both have static shapes.
    """
    layout = layout_of(whole)
    if layout_of(part).pitch and axis == ROWS:
        return _offset_of_rows(whole, part, start)
    if layout != layout_of(part):
        raise ValueError("it lies in another layout or with other padding")
    itemsize = numpy_dtype(element_type_of(whole)).itemsize
    return offset_in(static_shape(whole), static_shape(part), layout, itemsize, axis, start)


def band_layout(whole: tuple[int, ...], layout: Layout, start: int, stop: int) -> Layout:
    """Of rows [start, stop) in the buffer of a whole: they have the halo where they have its edge.

    whole: the shape of a tensor (N, C, rows, columns); layout: its own.
    """
    top, left, bottom, right = layout.halo
    halo = (0 if start else top, left, bottom if stop == whole[ROWS] else 0, right)
    return replace(layout, halo=halo, pitch=haloed_shape(whole, replace(layout, block=1))[ROWS])


def _offset_of_rows(whole: SSAValue, part: SSAValue, start: int) -> int:
    shape, layout = static_shape(whole), layout_of(whole)
    stop = start + static_shape(part)[ROWS]
    if layout_of(part) != band_layout(shape, layout, start, stop):
        raise ValueError("its rows lie otherwise than in the whole")
    row_bytes = prod(physical_shape(shape, layout)[ROWS + 1 :])
    row_bytes *= numpy_dtype(element_type_of(whole)).itemsize
    return (start + layout.halo[0] if start else 0) * row_bytes


def offset_in(
    shape: tuple[int, ...],
    part: tuple[int, ...],
    layout: Layout,
    itemsize: int,
    axis: int,
    start: int,
) -> int:
    """As `offset_of_part`, for shapes in a common layout and elements of so many bytes."""
    if not prod(shape) or not prod(part):
        raise ValueError("a part is empty")
    if axis > CHANNELS and not layout.is_plain:
        raise ValueError(f"axis {axis} cuts through blocks or padding")
    stop = start + part[axis]
    if layout.block and axis == CHANNELS:
        for channel in (start, stop):
            if channel % layout.block and channel != shape[axis]:
                raise ValueError(f"channel {channel} begins no block of {layout.block}")
        start //= layout.block
    physical = physical_shape(shape, layout)
    if prod(physical[:axis]) != 1:
        raise ValueError(f"axis {axis} is not the outermost one of more than one element")
    offset = start * prod(physical[axis + 1 :]) * itemsize
    if offset % ALIGNMENT_BYTES:
        raise ValueError(f"it would begin at byte {offset}, no multiple of {ALIGNMENT_BYTES}")
    return offset
