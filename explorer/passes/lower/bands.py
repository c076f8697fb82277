"""Bands of rows: which rows of every value a chain of operations needs to compute some of its last.

    conv 3x3 (pad 1) -> pool 2x2 (stride 2)      pool rows [0, 2), [2, 4) of 4, conv rows of 8

    band 0     pool [0, 2)     conv [0, 4)     x [0, 5)     above row 0 lies the padding
    band 1     pool [2, 4)     conv [4, 8)     x [3, 8)

`roll` keeps rows that the next band reads again, so that every row is computed once; `recompute`
computes them again. Row i of a result reads rows `i * stride - before` and `extent - 1` more, or
those that a constant table names, as in a resize.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.interfaces import NotRowWise, RowWise, Windowed
from explorer.ir.layout import ROWS, physical_shape
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, TransferOp, WeightOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.types import (
    element_type_of,
    is_static,
    layout_of,
    numpy_dtype,
    shape_of,
    static_shape,
)

Halo = Literal["roll", "recompute"]
HALOS: Sequence[Halo] = ("roll", "recompute")


class NotInBands(Exception):
    """Why operations cannot run band by band, for people."""


@dataclass(frozen=True)
class Reach:
    """Rows of an operand that a row of a result is computed from."""

    stride: int = 1
    before: int = 0
    extent: int = 1
    axis: int = ROWS
    """Of the operand: that of its rows, unless it is transposed."""

    def rows(self, start: int, stop: int) -> tuple[int, int]:
        """Rows [start, stop) of the result read these; some may lie in the padding."""
        first = start * self.stride - self.before
        return first, (stop - 1) * self.stride - self.before + self.extent


@dataclass(frozen=True)
class TableReach:
    """Rows of an operand that each row of a result is computed from, by a constant table."""

    first: tuple[int, ...]
    """By row of the result: the first row that it or a later one reads."""
    last: tuple[int, ...]
    """By row of the result: the last row that it or an earlier one reads."""
    height: int
    """Rows of the operand."""
    axis = ROWS

    @staticmethod
    def of(positions: np.ndarray, height: int) -> TableReach:
        """positions: (rows of the result, rows that each of them reads)."""
        first = np.minimum.accumulate(positions.min(1)[::-1])[::-1]
        last = np.maximum.accumulate(positions.max(1))
        return TableReach(tuple(map(int, first)), tuple(map(int, last)), height)

    def rows(self, start: int, stop: int) -> tuple[int, int]:
        """Rows [start, stop) of the result read these; rows before 0 and beyond the last none."""
        count = len(self.first)
        first = self.first[max(start, 0)] if start < count else self.height
        if stop > 0:
            return first, self.last[min(stop, count) - 1] + 1
        return first, self.last[0] + 1 + ((stop - 1) * self.height) // count


AnyReach = Reach | TableReach
Tables = Mapping[str, np.ndarray]
"""Weights by name."""


def reaches_of(op: TopOperation, weights: Tables) -> tuple[AnyReach | None, ...]:
    """By operand: the rows that are read; None where all of it is, as of weights.

    Raises NotInBands.
    """
    is_data = isinstance(op, WeightOp | ReturnOp | TransferOp)
    if is_data or op.regions or (op.parts() and not isinstance(op, BitcastOp)):
        raise NotInBands(f"{identity_of(op)} is no operation that a kernel runs")
    if len(op.results) != 1 or not all(is_static(v) for v in (*op.operands, *op.results)):
        raise NotInBands(f"{identity_of(op)} has no single result of static shape")
    result = shape_of(op.results[0])
    if isinstance(op, SliceOp):
        raise NotInBands(f"{identity_of(op)} names the rows that it takes")
    if len(result) != 4 or layout_of(op.results[0]).pitch:
        raise NotInBands(f"the result of {identity_of(op)} has no rows")
    if isinstance(op, InterpolateOp) or takes_rows(op):
        return (_by_table(op, weights), *(None for _ in op.operands[1:]))
    return tuple(_reach(op, index) for index in range(len(op.operands)))


def takes_rows(op: TopOperation) -> bool:
    """Whether an operation makes each row of some rows that a table names."""
    return isinstance(op, GatherOp | InterpolateOp) and op.get("axis") == ROWS


def _by_table(op: TopOperation, weights: Tables) -> AnyReach:
    if not takes_rows(op):
        return Reach()
    places, rows = op.operands[1], static_shape(op.results[0])[ROWS]
    if not isinstance(places.owner, WeightOp) or len(shape_of(op.operands[0])) != 4:
        raise NotInBands(f"{identity_of(op)} takes rows that a run names")
    if not rows:
        raise NotInBands(f"{identity_of(op)} takes no rows")
    height = static_shape(op.operands[0])[ROWS]
    positions = weights[places.owner.get("weight")].reshape(rows, -1)
    return TableReach.of(np.where(positions < 0, positions + height, positions), height)


def _reach(op: TopOperation, index: int) -> Reach | None:
    operand, result = op.operands[index], op.results[0]
    shape, rows = static_shape(operand), static_shape(result)[ROWS]
    if isinstance(op, ConvOp | PoolOp) and index == 0:
        return _window(op)
    axis = len(shape) - 2
    has_rows = axis >= 0 and shape[axis] != 1
    if isinstance(operand.owner, WeightOp) or len(shape) != 4 or not has_rows:
        if has_rows and not isinstance(op, ConvOp):
            raise NotInBands(f"an operand of {identity_of(op)} has rows of its own")
        return None
    if isinstance(op, Windowed) and not isinstance(op, ConvOp):
        raise NotInBands(f"{identity_of(op)} reads rows in a way that is not known")
    axis = ROWS if isinstance(op, ConvOp | ConvertLayoutOp) else _carried(op, index)
    if shape[axis] != rows:
        raise NotInBands(f"{identity_of(op)} changes the number of rows")
    return Reach(axis=axis)


def _carried(op: TopOperation, index: int) -> int:
    """The axis of an operand that becomes the rows of the result."""
    reason = f"{identity_of(op)} does not compute row by row"
    if not isinstance(op, RowWise):
        raise NotInBands(reason)
    for axis in (ROWS, *(a for a in range(4) if a != ROWS)):
        try:
            if op.carried_axis(index, axis) == ROWS:
                return axis
        except NotRowWise as error:
            reason = f"{identity_of(op)}: {error}"
    raise NotInBands(reason)


def _window(op: ConvOp | PoolOp) -> Reach:
    if isinstance(op, PoolOp) and op.get("kind") == "max_position":
        raise NotInBands(f"{identity_of(op)} counts positions in the whole plane")
    window = shape_of(op.weight)[2:] if isinstance(op, ConvOp) else op.get("window")
    height = window[0]
    assert isinstance(height, int)
    extent = (height - 1) * op.get("dilations")[0] + 1
    return Reach(op.get("strides")[0], op.get("pads")[0], extent)


@dataclass(frozen=True)
class Chain:
    """Operations in program order of which only the last one's result is read by others."""

    operations: tuple[TopOperation, ...]
    reaches: tuple[tuple[AnyReach | None, ...], ...]

    @property
    def last(self) -> TopOperation:
        return self.operations[-1]

    @property
    def rows(self) -> int:
        """Rows of the last result."""
        return static_shape(self.last.results[0])[ROWS]


def chain_of(operations: Sequence[TopOperation], weights: Tables) -> Chain:
    """The chain that neighbouring operations are. Raises NotInBands."""
    reaches = tuple(reaches_of(op, weights) for op in operations)
    inside = dict(zip(operations, reaches, strict=True))
    for op in operations[:-1]:
        for use in op.results[0].uses:
            reader = use.operation
            if reader not in inside:
                raise NotInBands(f"{identity_of(op)} is read outside of the chain")
            assert isinstance(reader, TopOperation)
            reach = inside[reader][use.index]
            if reach is None or reach.axis != ROWS:
                raise NotInBands(f"{identity_of(reader)} reads all of {identity_of(op)} at once")
        if not op.results[0].uses:
            raise NotInBands(f"nothing reads {identity_of(op)}")
    return Chain(tuple(operations), reaches)


@dataclass(frozen=True)
class Band:
    """Rows of one operation's result in one band."""

    new: tuple[int, int]
    """Rows [first, end) that are computed."""
    kept: tuple[int, int]
    """Rows that its readers need from now on: of earlier bands, then the new ones."""

    @property
    def is_empty(self) -> bool:
        return self.new[0] >= self.new[1]


def bands_of(chain: Chain, count: int, halo: Halo) -> list[list[Band]]:
    """For every band what each operation of the chain computes, in the chain's order.

    `count` bands of the last result. Rolling, no operation computes more rows in a band than its
    share of the rows, so that a few bands more fill and empty the chain. Raises NotInBands.
    """
    height = -(-chain.rows // max(count, 1))
    if count < 2 or height * (count - 1) >= chain.rows:
        raise NotInBands(f"{chain.rows} rows make no {count} bands")
    if halo == "recompute":
        ends = [min(chain.rows, (number + 1) * height) for number in range(count)]
        begins = [0, *ends[:-1]]
        return [_computed_anew(chain, rows) for rows in zip(begins, ends, strict=True)]
    done = [0] * len(chain.operations)
    found: list[list[Band]] = []
    for stops in _shares(chain, count):
        band = _rolled(chain, done, stops)
        if any(not own.is_empty for own in band):
            _check_reads(chain, band)
            found.append(band)
        done = [max(had, own.new[1]) for had, own in zip(done, band, strict=True)]
    return found


def _check_reads(chain: Chain, band: Sequence[Band]) -> None:
    """Raises NotInBands where a window of new rows lies in the padding alone."""
    for op, reaches, own in zip(chain.operations, chain.reaches, band, strict=True):
        if not own.is_empty:
            for operand, reach in zip(op.operands, reaches, strict=True):
                rows_read(op, operand, reach, own.new)


def _computed_anew(chain: Chain, last: tuple[int, int]) -> list[Band]:
    """A band that computes all that its rows need."""
    found: dict[SSAValue, tuple[int, int]] = {chain.last.results[0]: last}
    for op, reaches in reversed(list(zip(chain.operations, chain.reaches, strict=True))):
        for operand, reach in zip(op.operands, reaches, strict=True):
            rows = rows_read(op, operand, reach, found[op.results[0]])
            if rows is not None:
                begin, end = found.get(operand, rows)
                found[operand] = min(begin, rows[0]), max(end, rows[1])
    return [Band(rows, rows) for op in chain.operations for rows in (found[op.results[0]],)]


def _shares(chain: Chain, count: int) -> list[list[int]]:
    """For every band the row at which each operation's result ends in it.

    They follow from the row at which the last result ends, which lies before row 0 while the first
    bands fill the chain.
    """
    heights = [static_shape(op.results[0])[ROWS] for op in chain.operations]
    shares = [-(-height // count) for height in heights]
    ends: list[list[int]] = []
    reached = -max(heights) * 4
    number = 0
    while reached < heights[-1]:
        number += 1
        limits = [number * share for share in shares]
        low, high = reached, max(reached, min(heights[-1], max(reached, 0) + shares[-1]))
        while low < high:
            middle = (low + high + 1) // 2
            needed = _demands(chain, middle)
            fits = all(
                min(n, h) <= limit for n, h, limit in zip(needed, heights, limits, strict=True)
            )
            low, high = (middle, high) if fits else (low, middle - 1)
        reached = low
        needed = _demands(chain, reached)
        ends.append([max(0, min(n, h)) for n, h in zip(needed, heights, strict=True)])
    return ends


def _demands(chain: Chain, last: int) -> list[int]:
    """Where the rows end that are needed of every result for rows of the last one up to `last`."""
    places: dict[SSAValue, int] = {op.results[0]: i for i, op in enumerate(chain.operations)}
    needed = [-(10**9)] * len(chain.operations)
    needed[-1] = last
    for index in reversed(range(len(chain.operations))):
        op = chain.operations[index]
        for operand, reach in zip(op.operands, chain.reaches[index], strict=True):
            place = places.get(operand)
            if place is not None and reach is not None:
                needed[place] = max(needed[place], reach.rows(0, needed[index])[1])
    return needed


def _rolled(chain: Chain, done: Sequence[int], stops: Sequence[int]) -> list[Band]:
    """A band that computes rows from where the bands before it ended."""
    first: dict[SSAValue, int] = {op.results[0]: 10**9 for op in chain.operations}
    for index, op in enumerate(chain.operations):
        for operand, reach in zip(op.operands, chain.reaches[index], strict=True):
            if operand in first and reach is not None:
                begin = max(0, reach.rows(done[index], done[index])[0])
                first[operand] = min(first[operand], begin)
    band = []
    for op, had, stop in zip(chain.operations, done, stops, strict=True):
        begin = had if op is chain.last else min(first[op.results[0]], stop)
        new = max(begin, min(had, stop))
        band.append(Band((new, max(new, stop)), (begin, max(new, stop))))
    return band


def chain_bytes(chain: Chain, bands: Sequence[Sequence[Band]]) -> int:
    """Most bytes of rows inside of the chain that live at once, without what it reads and makes."""
    values = [op.results[0] for op in chain.operations]
    readers = {o: index for index, op in enumerate(chain.operations) for o in op.operands}
    row_bytes = [bytes_of_rows(value, 1) for value in values]
    live: dict[int, int] = {}
    kept: dict[int, int] = {}
    total = most = 0
    for number, band in enumerate(bands):
        for index, own in enumerate(band):
            if not own.is_empty and index < len(values) - 1:
                rows = (own.kept[1] - own.kept[0]) * row_bytes[index]
                most = max(most, total + rows)
                total += rows - live.get(index, 0) - kept.pop(index, 0)
                live[index] = rows
            most = max(most, total)
            for place, value in enumerate(values[:-1]):
                if readers[value] != index or place not in live or number + 1 == len(bands):
                    continue
                following = bands[number + 1][place]
                if following.is_empty:
                    continue
                tail = kept_bytes(value, following.new[0] - following.kept[0], live[place])
                if tail is not None:
                    most = max(most, total + tail)
                    total += tail - live.pop(place)
                    kept[place] = tail
    return most


def kept_bytes(value: SSAValue, rows: int, held_bytes: int) -> int | None:
    """Bytes of a copy of the rows that the next band reads again, without a halo.

    None where it would save little: what is held stays instead.
    """
    layout = replace(layout_of(value), halo=(0, 0, 0, 0))
    batch, planes, _, *row = physical_shape(static_shape(value), layout)
    itemsize = numpy_dtype(element_type_of(value)).itemsize
    found = batch * planes * rows * prod(row) * itemsize
    return found if 4 * found <= 3 * held_bytes else None


def bytes_of_rows(value: SSAValue, rows: int) -> int:
    """Bytes of so many rows of a tensor, of all planes."""
    batch, planes, _, *row = physical_shape(static_shape(value), layout_of(value))
    return batch * planes * rows * prod(row) * numpy_dtype(element_type_of(value)).itemsize


def rows_read(
    op: TopOperation, operand: SSAValue, reach: AnyReach | None, rows: tuple[int, int]
) -> tuple[int, int] | None:
    """Rows [start, stop) of an operand, without padding, that rows of the result read.

    Raises NotInBands where a window lies in the padding alone.
    """
    if reach is None:
        return None
    start, stop = reach.rows(*rows)
    start, stop = max(start, 0), min(stop, static_shape(operand)[reach.axis])
    if start >= stop:
        raise NotInBands(f"a band of {identity_of(op)} reads padding only")
    return start, stop


def padding_of(operand: SSAValue, reach: AnyReach, rows: tuple[int, int]) -> tuple[int, int]:
    """Rows of padding above and below what rows of a result read."""
    start, stop = reach.rows(*rows)
    return max(0, -start), max(0, stop - static_shape(operand)[reach.axis])
