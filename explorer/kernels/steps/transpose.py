"""Step transpose: a square tile of a copy that turns rows into columns, in registers.

    for p in 16:                     %r0 .. %r15 = 16 vector loads, one for each p
      for c in 16:              ->   four rounds of loop.interleave_low and loop.interleave_high
        y[c, p] = x[p, c]            16 vector stores, one for each c

Element by element each number is a load and a store of its own. Of n rows, log2(n) rounds of
perfect shuffles make columns: each round puts row i and row i + n/2 together, lane by lane
(Stone, "Parallel Processing with the Perfect Shuffle", IEEE Transactions on Computers, 1971).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import affine
from xdsl.dialects.builtin import Float32Type, MemRefType, VectorType
from xdsl.ir import Operation, SSAValue

from explorer.ir.loop_dialect import InterleaveHighOp, InterleaveLowOp
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    body_of,
    extent_of,
    index_of,
    linear_map,
    linear_subscripts,
    name_of,
)

SIDES = (4, 8, 16)
"""Rows and columns of a tile: lanes that vectors have."""


@dataclass(frozen=True)
class _Tile:
    """One element's way, and the indices along which its neighbours lie."""

    load: affine.LoadOp
    store: affine.StoreOp
    read: SSAValue
    written: SSAValue
    side: int


def transpose(nest: LoopNest, rows: str, columns: str) -> None:
    """Turns loops `rows` that hold a loop `columns`, and that a copy of a number, into vectors.

    Illegal for outermost loops, and unless both have 4, 8 or 16 iterations, one walks along the
    neighbours of what is read, the other along those of what is written, and the numbers are
    float32 in different buffers.
    """
    found = [(loop, _recognize(nest, loop, columns)) for loop in nest.loops(rows, "transpose")]
    for loop, tile in found:
        _replace(loop, tile)
    nest.changed()


def _recognize(nest: LoopNest, loop: affine.ForOp, columns: str) -> _Tile:
    if not isinstance(loop.parent_op(), affine.ForOp):
        raise nest.error("transpose", f"{name_of(loop)} is the outermost loop; split it first")
    inner, *others = body_of(loop)
    if others or not isinstance(inner, affine.ForOp) or name_of(inner) != columns:
        raise nest.error("transpose", f"{name_of(loop)} does not hold {columns} and nothing else")
    side = extent_of(loop)
    if side != extent_of(inner) or side not in SIDES:
        raise nest.error(
            "transpose",
            f"a tile of {side} x {extent_of(inner)} elements; it has 4, 8 or 16 rows and columns",
        )
    operations = body_of(inner)
    if len(operations) != 2:
        raise nest.error("transpose", f"{columns} does more than to copy a number")
    load, store = operations
    if not isinstance(load, affine.LoadOp) or not isinstance(store, affine.StoreOp):
        raise nest.error("transpose", f"{columns} does not copy a number")
    if store.value is not load.result:
        raise nest.error("transpose", f"{columns} does not store what it loads")
    kind = load.memref.type
    if load.memref is store.memref or not isinstance(kind, MemRefType):
        raise nest.error("transpose", "numbers are read and written in one buffer")
    if not isinstance(kind.element_type, Float32Type):
        raise nest.error("transpose", f"{kind.element_type} is not transposed in registers")
    pair = (index_of(loop), index_of(inner))
    read, written = (_neighbours(nest, access, pair) for access in (load, store))
    if read is written:
        raise nest.error("transpose", "rows are read and written alike: there is nothing to turn")
    return _Tile(load, store, read, written, side)


def _neighbours(
    nest: LoopNest, access: affine.LoadOp | affine.StoreOp, pair: tuple[SSAValue, SSAValue]
) -> SSAValue:
    """The index of the pair along which an access walks from an element to its neighbour."""
    try:
        *outer, last = linear_subscripts(access) or [LinearForm()]
    except ValueError as reason:
        raise nest.error("transpose", str(reason)) from reason
    near = [index for index in pair if last.terms.get(index, 0) == 1]
    if len(near) == 1:
        (far,) = (index for index in pair if index is not near[0])
        is_alone = not any(near[0] in form.terms for form in outer)
        if is_alone and far not in last.terms and any(far in form.terms for form in outer):
            return near[0]
    buffer = nest.name_of_buffer(access.memref)
    raise nest.error("transpose", f"{buffer} has no rows of neighbours along one of the loops")


def _replace(loop: affine.ForOp, tile: _Tile) -> None:
    kind = VectorType(Float32Type(), [tile.side])
    made: list[Operation] = []
    rows: list[SSAValue] = []
    for row in range(tile.side):
        place = {tile.read: LinearForm(), tile.written: LinearForm({}, row)}
        indices, access_map = linear_map(_at(tile.load, place))
        load = affine.VectorLoadOp.create(
            operands=[tile.load.memref, *indices],
            result_types=[kind],
            properties={"map": access_map},
        )
        load.results[0].name_hint = "row"
        made.append(load)
        rows.append(load.results[0])
    half = tile.side // 2
    for _ in range(tile.side.bit_length() - 1):
        turned: list[SSAValue] = []
        for low, high in zip(rows[:half], rows[half:], strict=True):
            for joined in (InterleaveLowOp, InterleaveHighOp):
                op = joined.create(operands=[low, high], result_types=[kind])
                op.results[0].name_hint = "mixed"
                made.append(op)
                turned.append(op.results[0])
        rows = turned
    for column, value in enumerate(rows):
        place = {tile.written: LinearForm(), tile.read: LinearForm({}, column)}
        indices, access_map = linear_map(_at(tile.store, place))
        made.append(
            affine.VectorStoreOp.create(
                operands=[value, tile.store.memref, *indices], properties={"map": access_map}
            )
        )
    for op in made:
        op.location = tile.store.location
    block = loop.parent
    assert block is not None
    block.insert_ops_before(made, loop)
    block.detach_op(loop)
    loop.erase()


def _at(
    access: affine.LoadOp | affine.StoreOp, place: dict[SSAValue, LinearForm]
) -> list[LinearForm]:
    return [form.substitute(place) for form in linear_subscripts(access)]
