"""Bytes that a loop nest moves between the levels of cache.

    for ot: for i: for jt: ( tile: 14 pixels x 288 inputs x 32 channels )

At every loop the elements that one run of it touches form boxes: their sizes are its footprint.
Where the footprint of a loop fits into a cache, what it touches is fetched once for all runs of
it inside of one run of the loop around it (the distance between two uses is no longer than that
footprint); so the loop around it, once per run, fetches its own boxes. What a cache holds whole
is not fetched again from one run of the kernel to the next.

This is the capacity model of blocked loops (Wolf and Lam, A data locality optimizing algorithm,
PLDI 1991); conflicts and prefetching are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects import affine, func, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from explorer.ir.structure import walk_inside
from explorer.ir.types import numpy_dtype
from explorer.kernels.cost.counting import extent_or_guess
from explorer.kernels.cost.machine import CacheLevel
from explorer.kernels.cost.rules import LINE_BYTES
from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    access_width,
    accesses_in,
    enclosing_loops,
    index_of,
    subscripts,
)

Forms = Mapping[Access, Sequence[LinearForm | None]]


def traffic_bytes(
    top: Operation, level: CacheLevel, threads: int = 1, kernel_bytes: int = 0
) -> float:
    """What comes into a cache while the nest runs once, its data being where it was left.

    `kernel_bytes`: of all that the kernel touches; the other nests may evict what this one needs.
    """
    accesses = [a for a in accesses_in(top) if not isinstance(a.memref.owner, memref.AllocaOp)]
    if not accesses:
        return 0.0
    forms = {access: subscripts(access) for access in accesses}
    size = level.size_bytes
    if not level.is_shared and threads > 1 and isinstance(top, affine.ForOp):
        size *= min(threads, extent_or_guess(top))  # each core has its own part of the work
    if max(_footprint(accesses, forms, None), kernel_bytes) <= size:
        return 0.0
    around: affine.ForOp | None = None
    for loop in _chain_of_most_work(top):
        inside = [a for a in accesses if loop in enclosing_loops(a)]
        if _footprint(inside, forms, loop) <= level.size_bytes:
            break
        around = loop
    runs = 1
    if around is not None:
        runs = prod(extent_or_guess(loop) for loop in enclosing_loops(around))
        accesses = [a for a in accesses if around in enclosing_loops(a)]
    return float(runs * _footprint(accesses, forms, around))


def argument_bytes(function: func.FuncOp) -> int:
    """Of all buffers that a kernel gets."""
    types = [argument.type for argument in function.body.block.args]
    return sum(
        prod(kind.get_shape()) * _item_bytes(kind) for kind in types if isinstance(kind, MemRefType)
    )


def _chain_of_most_work(top: Operation) -> list[affine.ForOp]:
    """The loops around the operation that runs most often, the outermost first."""
    innermost = [op for op in walk_inside(top) if isinstance(op, affine.ForOp)]
    if isinstance(top, affine.ForOp) and top not in innermost:
        innermost.append(top)
    if not innermost:
        return []

    def iterations(loop: affine.ForOp) -> int:
        return prod(extent_or_guess(other) for other in [*enclosing_loops(loop), loop])

    busiest = max(innermost, key=lambda loop: (iterations(loop), len(enclosing_loops(loop))))
    return [*enclosing_loops(busiest), busiest]


def _footprint(accesses: Sequence[Access], forms: Forms, loop: affine.ForOp | None) -> int:
    """Bytes of the boxes that one run of a loop touches (None: of the whole nest)."""
    boxes: dict[SSAValue, list[int]] = {}
    for access in accesses:
        varying = _varying(access, loop)
        shape = _shape(access.memref)
        box = boxes.setdefault(access.memref, [1] * len(shape))
        for dimension, form in enumerate(forms[access]):
            extent = shape[dimension]
            if form is not None:
                reach = sum(
                    abs(coefficient) * (varying[index] - 1)
                    for index, coefficient in form.terms.items()
                    if index in varying
                )
                is_last = dimension == len(shape) - 1
                extent = min(extent, reach + (access_width(access) if is_last else 1))
            box[dimension] = max(box[dimension], extent)
    return sum(_box_bytes(buffer, box) for buffer, box in boxes.items())


def _varying(access: Access, loop: affine.ForOp | None) -> dict[SSAValue, int]:
    """Extents of the loops around an access from `loop` inwards, by their indices."""
    around = enclosing_loops(access)
    start = around.index(loop) if loop is not None else 0
    return {index_of(inner): extent_or_guess(inner) for inner in around[start:]}


def _box_bytes(buffer: SSAValue, box: Sequence[int]) -> int:
    """Whole cache lines: a short row fetches its neighbours, too."""
    assert isinstance(buffer.type, MemRefType)
    size = _item_bytes(buffer.type)
    if not box:
        return size
    row = -(-box[-1] * size // LINE_BYTES) * LINE_BYTES
    shape = _shape(buffer)
    is_whole_row = box[-1] == shape[-1]
    row_bytes = box[-1] * size if is_whole_row else row
    return max(prod(box[:-1]) * row_bytes, LINE_BYTES)


def _item_bytes(kind: MemRefType) -> int:
    try:
        return numpy_dtype(kind.element_type).itemsize
    except (KeyError, ValueError, TypeError):
        return 8


def _shape(buffer: SSAValue) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()
