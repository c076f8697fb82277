"""Operations that only move numbers, as layers: read off where each number comes from.

A chain of them (concat, reshape, transpose, slice, pad, gather) is run on the numbers of the places
instead of the numbers themselves. Where each channel of the result is one channel of an operand, or
padding, and rows and columns are taken at even steps, it is a convolution of 1 x 1 whose weights
are 0 and 1. Where that holds of every second row and column, or of a part of the picture, it is
several such, each of which writes its own positions. Where channels come from positions so and so
far apart (heads that are joined), it is a convolution whose window reaches over these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.top.data import WeightOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import is_static, static_shape
from explorer.npu.layers.convolution import Convolution, Placement
from explorer.npu.layers.layer import LayerError, Rescaling
from explorer.npu.layers.value_layout import PICTURE_RANK, Stored, channel_axis, stored_form

MOVES = (ConcatOp, ExpandOp, GatherOp, PadOp, ReshapeOp, SliceOp, TransposeOp)
MAX_PHASES = 8
"""Of rows, and of columns, that are looked at apart."""
MAX_PARTS = 64
"""Of rows, and of columns, in which channels come from the same distances; or positions that are
looked at one by one."""
MAX_TAPS = 64
"""Of a window that reaches over these."""
PADDING = -1
MoveLayer = tuple[Convolution, tuple[SSAValue, ...]]
"""And what it reads."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Where the numbers of a value come from."""

    roots: tuple[SSAValue, ...]
    """Values that are computed."""
    places: np.ndarray
    """i64 of the value's shape: numbers of elements of all roots one behind the other, or
    `PADDING`."""
    padding: int = 0
    """The stored number that padding is."""


def origin(value: SSAValue, weights: Mapping[str, np.ndarray]) -> Moved:
    """Through all operations that only move numbers. LayerError where one is not understood."""
    op = value.owner
    if not isinstance(op, MOVES):
        if isinstance(op, WeightOp):
            raise LayerError("it joins a constant to what is computed")
        return _itself(value)
    moved = _moved_operands(op)
    others = [_constant(operand, weights) for operand in list(op.operands)[len(moved) :]]
    found = [
        _itself(operand) if is_joined_as_it_is(op, operand) else origin(operand, weights)
        for operand in moved
    ]
    roots: list[SSAValue] = []
    arrays, padding = [], 0
    for one in found:
        start = sum(prod(static_shape(root)) for root in roots)
        arrays.append(np.where(one.places == PADDING, PADDING, one.places + start))
        roots += one.roots
        padding = one.padding if np.any(one.places == PADDING) else padding
    if isinstance(op, PadOp):
        return _padded(op, roots, arrays[0], others, padding)
    (places,) = op.evaluate(*arrays, *others)
    return Moved(roots=tuple(roots), places=np.asarray(places, np.int64), padding=padding)


def _itself(value: SSAValue) -> Moved:
    shape = static_shape(value)
    return Moved(roots=(value,), places=np.arange(prod(shape)).reshape(shape))


def _moved_operands(op: Operation) -> list[SSAValue]:
    return list(op.operands) if isinstance(op, ConcatOp) else list(op.operands)[:1]


def is_joined_as_it_is(op: Operation, value: SSAValue) -> bool:
    """Whether a concat of channels reads an operand as it was moved, and not what that is made of:
    where parts come from pictures of several sizes, each is made in the size of the result."""
    return isinstance(op, ConcatOp) and value in _joined_as_they_are(op)


def _joined_as_they_are(op: ConcatOp) -> set[SSAValue]:
    is_of_channels = op.get("axis") == channel_axis(PICTURE_RANK)
    if (
        not is_of_channels
        or not is_static(op.output)
        or len(static_shape(op.output)) != PICTURE_RANK
    ):
        return set()
    sizes = {operand: _sizes(operand) for operand in op.operands}
    if len(set().union(*sizes.values())) < 2:
        return set()
    moved = [operand for operand in op.operands if isinstance(operand.owner, MOVES)]
    return {operand for operand in moved if sizes[operand] != _size(op.output)}


def _sizes(value: SSAValue) -> set[tuple[int, int]]:
    """Heights and widths of the pictures that a value is made of by moves."""
    op = value.owner
    if not isinstance(op, MOVES):
        return _size(value)
    whole = _joined_as_they_are(op) if isinstance(op, ConcatOp) else set()
    found = (_size(v) if v in whole else _sizes(v) for v in _moved_operands(op))
    return set().union(*found)


def _size(value: SSAValue) -> set[tuple[int, int]]:
    """None of what lies in no layer's memory: floats, constants."""
    if isinstance(value.owner, WeightOp):
        return set()
    try:
        _, height, width = stored_form(value).shape
    except LayerError:
        return set()
    return {(height, width)}


def _padded(
    op: PadOp, roots: list[SSAValue], places: np.ndarray, others: list[np.ndarray], padding: int
) -> Moved:
    value = int(op.get("value"))
    if np.any(places == PADDING) and padding != value:
        raise LayerError(f"it pads with {value} what was padded with {padding}")
    (is_inside,) = op.evaluate(np.full_like(places, value + 1), *others)
    (moved,) = op.evaluate(places, *others)
    kept = np.where(is_inside == value + 1, moved, PADDING)
    return Moved(roots=tuple(roots), places=kept, padding=value)


def flattened_picture(
    value: SSAValue, weights: Mapping[str, np.ndarray]
) -> tuple[SSAValue, np.ndarray] | None:
    """The pictures of which each row has all numbers of one, each once, and where in it they
    lie."""
    shape = static_shape(value)
    if len(shape) != 2:
        return None
    try:
        moved = origin(value, weights)
    except LayerError:
        return None
    count, size = shape
    places, *others = moved.places - size * np.arange(count)[:, None]
    is_whole = np.array_equal(np.sort(places), np.arange(size))
    if len(moved.roots) != 1 or not is_whole or any(np.any(one != places) for one in others):
        return None
    (root,) = moved.roots
    picture = static_shape(root)
    is_picture = len(picture) == 4 and picture[0] == count and picture[2] * picture[3] > 1
    return (root, places) if is_picture else None


def is_unmoved(value: SSAValue) -> bool:
    """Whether a chain of moves makes it that ends where it began: its bytes are those of what it is
    made of."""
    if not isinstance(value.owner, MOVES):
        return False
    try:
        moved, form = origin(value, {}), stored_form(value)
        (source,) = map(stored_form, moved.roots)
    except (LayerError, ValueError):  # constants would be needed, or there are several
        return False
    count = prod(source.logical_shape)
    if count != moved.places.size or form.shape[0] != source.shape[0]:
        return False
    places = source.arranged(np.arange(count).reshape(source.logical_shape))
    return np.array_equal(form.arranged(moved.places).reshape(-1), places.reshape(-1))


def _constant(value: SSAValue, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    if not isinstance(value.owner, WeightOp) or value.owner.weight.data not in weights:
        raise LayerError("where it moves numbers is computed")
    return np.asarray(weights[value.owner.weight.data])


@dataclass(frozen=True)
class _Source:
    """Of every number of the result, in its form: root, channel, row and column."""

    root: np.ndarray
    channel: np.ndarray
    row: np.ndarray
    column: np.ndarray

    def part(self, rows: slice, columns: slice) -> _Source:
        return _Source(*(array[:, rows, columns] for array in vars(self).values()))


def move_layers(op: TopOperation, name: str, weights: Mapping[str, np.ndarray]) -> list[MoveLayer]:
    """The layers that make the operation's result, each with what it reads.

    Where rows and columns are no help, all of a picture's positions are columns of one row, which
    are the same bytes: heads of a detector of which every position has several results.
    """
    moved, result = origin(op.results[0], weights), stored_form(op.results[0])
    forms = [stored_form(root) for root in moved.roots]
    flat = [_in_one_row(form) for form in (*forms, result)]
    ways = [(forms, result)]
    if flat != [*forms, result]:
        ways.append((flat[:-1], flat[-1]))
    found: list[list[MoveLayer]] = []
    problem = None
    for tried, made in ways:
        try:
            found.append(list(_layers(moved, name, tried, made)))
        except LayerError as error:
            problem = problem or error
        if found and len(found[-1]) <= MAX_PHASES:
            break
    if not found:
        assert problem is not None
        raise problem
    return min(found, key=len)


def _in_one_row(form: Stored) -> Stored:
    channels, height, width = form.shape
    return replace(form, shape=(channels, 1, height * width))


def _layers(moved: Moved, name: str, forms: list[Stored], result: Stored) -> Iterator[MoveLayer]:
    source = _source(moved, forms, result)
    _, height, width = result.shape
    pieces = list(_pieces(source, height, width))
    for rows, columns in pieces:
        part = source.part(rows, columns)
        _, tall, wide = part.root.shape
        placement = None
        if len(pieces) > 1:
            placement = Placement(size=(height, width), offset=(rows.start, columns.start),
                                  steps=(rows.step or 1, columns.step or 1))  # fmt: skip
        # Where all is padding, any root is read, with weights of 0.
        used = [int(root) for root in np.unique(part.root) if root != PADDING] or [0]
        make = _selection if _is_even(part) else _window
        yield (
            make(name, part, used, [forms[i] for i in used], (tall, wide),
                 moved.padding - result.offset, placement),
            tuple(moved.roots[i] for i in used),
        )  # fmt: skip


def _source(moved: Moved, forms: list[Stored], result: Stored) -> _Source:
    """The places in the form in which the result lies, looked up in the forms of the roots."""
    places = result.arranged(moved.places)
    tables = []
    for number, form in enumerate(forms):
        count = int(np.prod(form.logical_shape))
        numbers = form.arranged(np.arange(count).reshape(form.logical_shape)).reshape(-1)
        table = np.empty((4, count), np.int64)
        table[:, numbers] = [np.full(count, number), *np.unravel_index(range(count), form.shape)]
        tables.append(table)
    whole = np.concatenate([*tables, np.full((4, 1), PADDING)], axis=1)
    return _Source(*whole[:, places])


def _pieces(source: _Source, height: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Rectangles that have one set of roots, and of them every so many rows and columns."""
    for rows in _runs(source.root, 1):
        for columns in _runs(source.root, 2):
            inside = source.part(rows, columns)
            _, tall, wide = inside.root.shape
            options = itertools.product(range(1, MAX_PHASES + 1), repeat=2)
            for down, right in sorted(options, key=lambda pair: (pair[0] * pair[1], pair)):
                phases = [
                    (slice(y, None, down), slice(x, None, right))
                    for y in range(min(down, tall))
                    for x in range(min(right, wide))
                ]
                if all(_is_even(inside.part(*phase)) for phase in phases):
                    for y, x in phases:
                        yield (slice(rows.start + y.start, rows.stop, down),
                               slice(columns.start + x.start, columns.stop, right))  # fmt: skip
                    break
            else:
                for y, x in _parts(inside):
                    yield (slice(rows.start + y.start, rows.start + y.stop),
                           slice(columns.start + x.start, columns.start + x.stop))  # fmt: skip


def _parts(source: _Source) -> list[tuple[slice, slice]]:
    """Rectangles in which each channel comes from the same distance; positions one by one, where
    these are few and all channels of one come from one position. LayerError where neither is so."""
    rows, columns = _alike(source, 1), _alike(source, 2)
    if rows is not None and columns is not None:
        return list(itertools.product(rows, columns))
    _, height, width = source.root.shape
    if height * width <= MAX_PARTS:
        single = [(slice(y, y + 1), slice(x, x + 1)) for y in range(height) for x in range(width)]
        if all(_is_even(source.part(*one)) for one in single):
            return single
    raise LayerError("it moves numbers between channels and positions")


def _alike(source: _Source, axis: int) -> list[slice] | None:
    """Rows or columns one behind the other of which each channel comes from one channel, from the
    same distance; None where there are too many, or some are padding."""
    along = np.arange(source.root.shape[axis]).reshape((1, -1, 1) if axis == 1 else (1, 1, -1))
    moved = source.row if axis == 1 else source.column
    still = source.column if axis == 1 else source.row
    keys = np.stack([source.root, source.channel, moved - along, still])
    lines = np.moveaxis(keys, 1 + axis, 0).reshape(keys.shape[1 + axis], -1)
    starts = [0, *(np.flatnonzero(np.any(lines[1:] != lines[:-1], axis=1)) + 1).tolist()]
    if len(starts) > MAX_PARTS or np.any(source.root == PADDING):
        return None
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _window(
    name: str, source: _Source, used: list[int], forms: list[Stored], size: tuple[int, int],
    padding: int, placement: Placement | None,
) -> Convolution:  # fmt: skip
    """The convolution whose window has a tap where each channel comes from."""
    if len(forms) > 1:
        raise LayerError("it moves numbers of several tensors between channels and positions")
    ((inputs, height, width),) = (form.shape for form in forms)
    tops, lefts = source.row[:, 0, 0], source.column[:, 0, 0]
    taps, dilations, firsts = [], [], []
    for places in (tops, lefts):
        apart = places - places.min()
        dilations.append(int(np.gcd.reduce(apart)) or 1)
        taps.append(apart // dilations[-1])
        firsts.append(int(places.min()))
    kernel = tuple(int(one.max()) + 1 for one in taps)
    if kernel[0] * kernel[1] > MAX_TAPS:
        raise LayerError("it moves numbers between channels and positions")
    outputs = len(tops)
    chosen = np.zeros((outputs, inputs, *kernel), np.int64)
    chosen[np.arange(outputs), source.channel[:, 0, 0], taps[0], taps[1]] = 1
    (top, left), (tall, wide) = firsts, size
    reach = [(count - 1) * step for count, step in zip(kernel, dilations, strict=True)]
    ones = np.ones(outputs, np.int64)
    return Convolution(
        name=name, input_shape=(inputs, height, width), weights=chosen,
        bias=0 * ones, dilations=(dilations[0], dilations[1]),
        pads=(-top, -left, top + tall + reach[0] - height, left + wide + reach[1] - width),
        rescaling=Rescaling(how=None, multipliers=ones, shifts=0 * ones), placement=placement,
    )  # fmt: skip


def _runs(root: np.ndarray, axis: int) -> list[slice]:
    """Rows or columns one behind the other that come from the same roots, padding aside."""
    keys = [frozenset(np.unique(part)) - {PADDING} for part in np.moveaxis(root, axis, 0)]
    starts = [0]
    for index in range(1, len(keys)):
        before, here = keys[starts[-1]], keys[index]
        if before and here and before != here:
            starts.append(index)
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], len(keys)], strict=True)]


def _is_even(source: _Source) -> bool:
    """Whether channels are whole, and rows and columns follow each other at one step."""
    is_inside = source.root != PADDING
    channels = np.where(is_inside, source.root << 32 | source.channel, PADDING)
    most = channels.max(axis=(1, 2), keepdims=True)
    if np.any(is_inside & (channels != most)):
        return False
    whole = (most != PADDING) & np.any(is_inside, axis=0, keepdims=True)
    if np.any(whole & ~is_inside):  # padded in some channels only
        return False
    rows, columns = (_steps(a, axis) for a, axis in ((source.row, 1), (source.column, 2)))
    if rows is None or columns is None:
        return False
    inside = np.outer(rows[2], columns[2])
    return bool(np.all(~is_inside | inside))


def _steps(places: np.ndarray, axis: int) -> tuple[int, int, np.ndarray] | None:
    """First place and step along an axis, of the first row that is not all padding, and which
    rows are inside; None where places differ otherwise, or steps do."""
    by_row = np.moveaxis(places, axis, 0).reshape(places.shape[axis], -1)
    greatest = by_row.max(axis=1)
    if np.any((by_row != PADDING) & (by_row != greatest[:, None])):
        return None
    inside = np.flatnonzero(greatest != PADDING)
    if not len(inside):
        return 0, 1, greatest != PADDING
    found = greatest[inside]
    step = int(found[1] - found[0]) if len(inside) > 1 else 1
    expected = found[0] + step * np.arange(len(inside))
    is_dense = inside[-1] - inside[0] == len(inside) - 1
    if step < 1 or not is_dense or np.any(found != expected):
        return None
    return int(found[0]) - step * int(inside[0]), step, greatest != PADDING


def _selection(
    name: str, source: _Source, used: list[int], forms: list[Stored], size: tuple[int, int],
    padding: int, placement: Placement | None,
) -> Convolution:  # fmt: skip
    """The convolution of 1 x 1 that picks channels, rows and columns."""
    shapes = {form.shape[1:] for form in forms}
    if len(shapes) > 1:
        raise LayerError("it joins channels of pictures of different sizes")
    ((height, width),) = shapes
    rows, columns = _steps(source.row, 1), _steps(source.column, 2)
    assert rows is not None and columns is not None
    starts = dict(zip(used, np.cumsum([0, *(f.shape[0] for f in forms)]).tolist(), strict=False))
    inputs = sum(form.shape[0] for form in forms)
    outputs = source.root.shape[0]
    chosen = np.zeros((outputs, inputs, 1, 1), np.int64)
    for output in range(outputs):
        inside = np.argwhere(source.root[output] != PADDING)
        if len(inside):
            y, x = inside[0]
            channel = starts[int(source.root[output, y, x])] + source.channel[output, y, x]
            chosen[output, channel] = 1
    (top, down, _), (left, right, _) = rows, columns
    pads = (-top, -left, (size[0] - 1) * down + 1 + top - height,
            (size[1] - 1) * right + 1 + left - width)  # fmt: skip
    is_padded = bool(np.any(source.root == PADDING))
    ones = np.ones(outputs, np.int64)
    return Convolution(
        name=name, input_shape=(inputs, height, width), weights=chosen,
        bias=np.zeros(outputs, np.int64), strides=(down, right), pads=pads,
        rescaling=Rescaling(how=None, multipliers=ones, shifts=0 * ones,
                            zero_point=padding if is_padded else 0),
        input_zero_point=padding if is_padded else 0,
        parts=tuple(form.shape[0] for form in forms) if len(forms) > 1 else (),
        placement=placement,
    )  # fmt: skip


__all__ = [
    "MOVES", "Moved", "flattened_picture", "is_joined_as_it_is", "is_unmoved", "move_layers",
    "origin",
]  # fmt: skip
