"""Chains of spatial operations run band by band, so that no large tensor between them is whole.

    %a = top.conv(%x) {pads = [1, 1, 1, 1]}      64 rows, read by the depthwise conv alone
    %y = top.conv(%a) {pads = [1, 1, 1, 1]}
 => %x0 = top.slice(%x) rows 0 to 34       %a0 = top.conv(%x0) {pads = [1, 1, 0, 1]}
    %y0 = top.conv(%a0) {pads = [1, 1, 0, 1]}
    %k0 = the last two rows of %a0         %x1, %a1 ... %a0' = %k0 and %a1 ... %y1
    %y = top.concat(%y0, %y1) {axis = 2, in_place = true}

Slices and the concat copy nothing: bands are rows in the buffer of the whole, which is what the
pitch of a layout says. What windows of the next band read again is kept (`roll`: a copy of few
rows) or computed again (`recompute`). Every element is computed by the operation that computed it
before, so that integers stay what they are to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.errors import InputError
from explorer.ir.layout import ROWS, physical_shape
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.parts import band_layout
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.sizes.ranges import open_size
from explorer.ir.structure import own_functions
from explorer.ir.top.data import ConvertLayoutOp, WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.types import (
    Layout,
    element_type_of,
    layout_of,
    numpy_dtype,
    static_shape,
    tensor_type,
)
from explorer.passes.lower.bands import (
    HALOS,
    Band,
    Chain,
    Halo,
    NotInBands,
    Tables,
    bands_of,
    chain_of,
    kept_bytes,
    padding_of,
    reaches_of,
    rows_read,
    takes_rows,
)
from explorer.results import Knob

CHAIN = "chain"
BANDS = "bands"
WHY = "the chain runs band by band: of the tensors inside of it a few rows live at once"
WHOLE = "every operation computes its whole result; a budget asks for bands where memory is short"
FORM = "FIRST:BANDS:roll or FIRST:BANDS:recompute, FIRST being the chain's first operation"


@dataclass(frozen=True)
class StreamRows(Pass):
    """Chains of spatial operations run band by band, so that large tensors are never whole.

    The decision stream-rows/chain/LAST names the first operation, the number of bands, and whether
    rows that two bands read are kept or computed again: `conv_4:8:roll`. Without it nothing
    changes.

    alignment_bytes: bands begin at multiples of it.
    """

    alignment_bytes: int = 1

    name = "stream-rows"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        for function in own_functions(rewriter.module):
            self._run_function(function, rewriter, options, events, knobs)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites

    def _run_function(
        self,
        function: func.FuncOp,
        rewriter: RecordedRewriter,
        options: RewriteOptions,
        events: EventLog,
        knobs: list[Knob],
    ) -> None:
        is_open = open_size(function) is not None
        for op in spatial_operations(function):
            address = events.address(CHAIN, op)
            asked = options.decision(address)
            if not is_open and ends_chain(op, rewriter.weights):
                value = asked if isinstance(asked, str) else ""
                knobs.append(Knob(address, value, (), WHY if value else WHOLE))
            if not asked:
                continue
            if is_open:
                raise InputError(f"{address} cannot be decided: a dimension's size is open")
            self._stream(function, op, address, asked, rewriter, events)

    def _stream(
        self,
        function: func.FuncOp,
        last: TopOperation,
        address: str,
        asked: object,
        rewriter: RecordedRewriter,
        events: EventLog,
    ) -> None:
        first, count, halo = parse_choice(address, asked)
        try:
            chain = chain_between(function, first, last, rewriter.weights)
            bands = bands_of(chain, count, halo)
            _check_alignment(chain, self.alignment_bytes)
        except NotInBands as error:
            hint = f"another chain or number of bands; the value is {FORM}"
            raise InputError(f"{address} cannot be {asked!r}: {error}", hint=hint) from error
        with events.rewrite(BANDS, last, f"{WHY} ({count} bands)"):
            _Streaming(rewriter, chain, bands).run()


def parse_choice(address: str, asked: object) -> tuple[str, int, Halo]:
    """First operation, number of bands, what becomes of shared rows. Raises InputError."""
    first, *rest = asked.split(":") if isinstance(asked, str) else ("",)
    halo: Halo | None = next((h for h in HALOS if rest[1:] == [h]), None)
    if not first or halo is None or not rest[0].isdecimal():
        raise InputError(f"{address} cannot be {asked!r}", hint=FORM)
    return first, int(rest[0]), halo


def spatial_operations(function: func.FuncOp) -> list[TopOperation]:
    """The operations of a function in order, without weights."""
    block = function.body.block
    return [o for o in block.ops if isinstance(o, TopOperation) and not isinstance(o, WeightOp)]


def chain_between(function: func.FuncOp, first: str, last: TopOperation, weights: Tables) -> Chain:
    """The chain from the operation of that name to the last one. Raises NotInBands."""
    operations = spatial_operations(function)
    names = [identity_of(op) for op in operations]
    end = operations.index(last)
    if first not in names[:end]:
        raise NotInBands(f"{first} is no operation before {identity_of(last)}")
    return chain_of(operations[names.index(first) : end + 1], weights)


def ends_chain(op: TopOperation, weights: Tables) -> bool:
    """Whether an operation and one that it reads can run in bands together."""
    try:
        reaches = reaches_of(op, weights)
    except NotInBands:
        return False
    for operand, reach in zip(op.operands, reaches, strict=True):
        owner = operand.owner
        if reach is not None and isinstance(owner, TopOperation) and operand.has_one_use():
            try:
                reaches_of(owner, weights)
            except NotInBands:
                continue
            return True
    return False


def _check_alignment(chain: Chain, alignment_bytes: int) -> None:
    values = dict.fromkeys([*(v for op in chain.operations for v in (*op.operands, *op.results))])
    for value in values:
        if isinstance(value.owner, WeightOp) or len(static_shape(value)) != 4:
            continue
        row = physical_shape(static_shape(value), layout_of(value))[ROWS + 1 :]
        size = numpy_dtype(element_type_of(value)).itemsize
        for extent in row:
            size *= extent
        if size % alignment_bytes:
            raise NotInBands(f"a row of {size} bytes is no multiple of {alignment_bytes}")


@dataclass
class _Streaming:
    """One chain, band after band."""

    rewriter: RecordedRewriter
    chain: Chain
    bands: Sequence[Sequence[Band]]
    held: dict[SSAValue, tuple[SSAValue, int]] = field(default_factory=dict)
    """By value of the chain: the rows of it that are there, and the number of the first."""
    kept: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Copies of rows that the next band reads again."""
    readers: dict[SSAValue, TopOperation] = field(default_factory=dict)
    """By value of the chain: its last reader."""

    def run(self) -> None:
        inside = {op.results[0] for op in self.chain.operations}
        for op in self.chain.operations:
            for operand in op.operands:
                if operand in inside:
                    self.readers[operand] = op
        pieces: list[SSAValue] = []
        for number, band in enumerate(self.bands):
            for index, (op, own) in enumerate(zip(self.chain.operations, band, strict=True)):
                if not own.is_empty:
                    pieces += self._compute(op, own, index)
                for value in dict.fromkeys(op.operands):
                    if self.readers.get(value) is op:
                        self._keep(value, number)
        self._finish(pieces)

    # -- one band of one operation -------------------------------------------------------------
    def _compute(self, op: TopOperation, band: Band, index: int) -> list[SSAValue]:
        """The new rows of a result; returned if they are rows of the chain's own result."""
        result = op.results[0]
        is_last = op is self.chain.last
        whole = static_shape(result)
        if is_last:
            layout = band_layout(whole, layout_of(result), *band.new)
            return [self._insert(self._banded(op, band, index), op, layout)]
        shape = _rows_of(whole, band.kept)
        own = _own_layout(whole, layout_of(result), *band.kept)
        offset = band.new[0] - band.kept[0]
        if not offset:
            held = self._insert(self._banded(op, band, index), op, own)
        else:
            tail = self._tail(result, band, shape, own)
            layout = band_layout(shape, own, offset, shape[ROWS])
            piece = self._insert(self._banded(op, band, index), op, layout)
            kind = tensor_type(element_type_of(result), shape, own)
            joined = ConcatOp.make([[tail, piece]], [kind], axis=ROWS, in_place=True)
            held = self.rewriter.insert_before(self.chain.last, joined, like=op).results[0]
        self.held[result] = held, band.kept[0]
        return []

    def _banded(self, op: TopOperation, band: Band, index: int) -> TopOperation:
        """The operation on the rows that a band reads."""
        operands: list[SSAValue] = []
        changes: dict[str, list[int]] = {}
        for place, (operand, reach) in enumerate(
            zip(op.operands, self.chain.reaches[index], strict=True)
        ):
            rows = rows_read(op, operand, reach, band.new)
            if rows is None or reach is None:
                operands.append(operand)
            elif reach.axis == ROWS:
                operands.append(self._rows(operand, rows, op))
            else:
                operands.append(self._cut(operand, rows, reach.axis, op))
            if reach is not None and place == 0 and isinstance(op, ConvOp | PoolOp):
                pads = list(op.get("pads"))
                pads[0], pads[len(pads) // 2] = padding_of(operand, reach, band.new)
                changes["pads"] = pads
        if isinstance(op, ConvertLayoutOp):
            return ConvertLayoutOp.make(operands)
        if takes_rows(op):
            rows = rows_read(op, op.operands[0], self.chain.reaches[index][0], band.new)
            assert rows is not None
            operands[1:] = self._tables(op, band.new, rows[0])
        return op.with_operands(operands, **changes)

    def _tables(self, op: TopOperation, rows: tuple[int, int], first: int) -> list[SSAValue]:
        """The tables of some rows of a result, which count rows of its operand from the first."""
        found: list[SSAValue] = []
        for place, table in enumerate(op.operands[1:]):
            assert isinstance(table.owner, WeightOp)
            stored = self.rewriter.weights[table.owner.get("weight")]
            part = stored[rows[0] : rows[1]]
            if not place:
                height = static_shape(op.operands[0])[ROWS]
                part = np.where(part < 0, part + height, part) - first
            name = f"{identity_of(op)}.rows"
            part = np.ascontiguousarray(part, stored.dtype)
            found.append(self.rewriter.add_weight(self.chain.last, name, part, like=op))
        return found

    def _insert(self, new: TopOperation, like: TopOperation, layout: Layout) -> SSAValue:
        """The result of a new operation in a layout."""
        self.rewriter.insert_before(self.chain.last, new, stem=_stem(like), like=like)
        result = new.results[0]
        kind = tensor_type(element_type_of(result), static_shape(result), layout)
        return self.rewriter.set_type(result, kind)

    def _rows(self, value: SSAValue, rows: tuple[int, int], reader: TopOperation) -> SSAValue:
        """Rows of a value where it has them."""
        held, first = self.held.get(value, (value, 0))
        start, stop = rows[0] - first, rows[1] - first
        shape = static_shape(held)
        if (start, stop) == (0, shape[ROWS]):
            return held
        layout = band_layout(shape, layout_of(held), start, stop)
        kind = tensor_type(element_type_of(held), _rows_of(shape, (start, stop)), layout)
        op = SliceOp.make(
            [held],
            [kind],
            starts=[0, 0, start, 0],
            stops=[shape[0], shape[1], stop, shape[3]],
            steps=[1, 1, 1, 1],
            in_place=True,
        )
        return self.rewriter.insert_before(self.chain.last, op, stem="rows", like=reader).results[0]

    def _cut(
        self, value: SSAValue, rows: tuple[int, int], axis: int, reader: TopOperation
    ) -> SSAValue:
        """What a transpose makes rows of: a copy of it, or a view where it is one piece."""
        shape = static_shape(value)
        if rows == (0, shape[axis]):
            return value
        starts, stops = [0] * len(shape), [*shape]
        starts[axis], stops[axis] = rows
        op = SliceOp.make([value], starts=starts, stops=stops, steps=[1] * len(shape))
        try:
            in_place = op.piece().offset_bytes >= 0
        except ValueError:
            in_place = False
        self.rewriter.insert_before(self.chain.last, op, stem="rows", like=reader)
        if in_place:
            self.rewriter.update(op, in_place=True)
        return op.results[0]

    # -- rows that the next band reads again ---------------------------------------------------
    def _keep(self, value: SSAValue, number: int) -> None:
        """Copies what the next band reads again, so that the rest of this one is free."""
        self.kept.pop(value, None)
        if number + 1 == len(self.bands):
            return
        index = next(i for i, op in enumerate(self.chain.operations) if op.results[0] is value)
        following = self.bands[number + 1][index]
        begin, end = following.kept[0], following.new[0]
        count = end - begin
        if value not in self.held or count <= 0 or following.is_empty:
            return
        held, _ = self.held[value]
        if kept_bytes(value, count, buffer_size(held)) is None:
            return
        rows = self._rows(value, (begin, end), self.readers[value])
        layout = replace(layout_of(value), halo=(0, 0, 0, 0))
        copy = ConvertLayoutOp.make([rows])
        self.kept[value] = self._insert(copy, self.readers[value], layout)

    def _tail(
        self, value: SSAValue, band: Band, shape: tuple[int, ...], layout: Layout
    ) -> SSAValue:
        """Rows of earlier bands, copied to where this band has them."""
        rows = (band.kept[0], band.new[0])
        source = self.kept.pop(value, None)
        if source is None:
            source = self._rows(value, rows, self.readers[value])
        copy = ConvertLayoutOp.make([source])
        own = band_layout(shape, layout, 0, rows[1] - rows[0])
        return self._insert(copy, self.readers[value], own)

    # -- the end -------------------------------------------------------------------------------
    def _finish(self, pieces: Sequence[SSAValue]) -> None:
        """The chain's own result, of which every band made some rows."""
        last = self.chain.last
        joined = ConcatOp.make([list(pieces)], [last.results[0].type], axis=ROWS, in_place=True)
        others = [op for op in self.chain.operations if op is not last]
        self.rewriter.replace(last, joined, absorbs=list(reversed(others)), stem=_stem(last))


def buffer_size(value: SSAValue) -> int:
    """Bytes of a value in a buffer of its own."""
    size = prod(physical_shape(static_shape(value), layout_of(value)))
    return size * numpy_dtype(element_type_of(value)).itemsize


def _rows_of(shape: tuple[int, ...], rows: tuple[int, int]) -> tuple[int, ...]:
    return (*shape[:ROWS], rows[1] - rows[0], *shape[ROWS + 1 :])


def _own_layout(whole: tuple[int, ...], layout: Layout, start: int, stop: int) -> Layout:
    """Of rows in a buffer of their own: with the halo that they have in the whole."""
    return replace(band_layout(whole, layout, start, stop), pitch=0)


def _stem(op: TopOperation) -> str:
    return identity_of(op).rstrip("0123456789") or "band"
