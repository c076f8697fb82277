"""Placement: functions of devices with explicit transfers, even when there is one device.

   func @main(%x) { ... return %y }
=> func @main(%x) {device = "host"} {
       %t = top.transfer(%x) {to = "cpu"}
       %r = func.call @main_cpu(%t)
       %y = top.transfer(%r) {to = "host"}
       return %y
   }
   func @main_cpu(%x) {device = "cpu"} { ... }

Operations without a compiled form go into functions of the host, `main_host`, each with its
reason; then there are as many functions as the order asks for (`partition.py`). What is assigned to
another device, or what only this device cannot run, goes into functions of other devices:
`main_opencl`, `main_cpu`. A value is sent once to a device, however many functions read it there.

What the device returns is always written by it: an output that is an input, or a view of one, is
copied, so that inputs and outputs never share memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation, set_identity
from explorer.ir.origins import location_of, origin_of, set_origins, sources_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.ranges import RANGE, OpenSize, RangeAttr, open_size, rows_of_values
from explorer.ir.structure import (
    COMPANION,
    DEVICE,
    HOST,
    HOST_REASON,
    SIZED,
    blocks_around,
    outermost,
    read_values,
    value_name,
)
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, TransferOp, WeightOp
from explorer.ir.weights import Weights
from explorer.passes.lower.partition import (
    FIRST,
    Other,
    Partition,
    Piece,
    Refuses,
    partition,
)
from explorer.passes.lower.partition import (
    SIZED as IS_SIZED,
)


@dataclass(frozen=True)
class PlaceOnDevice(Pass):
    """Operations go to the device, or to the host where they have no compiled form; transfers
    bring what they read there."""

    device: str
    has_host_parts: bool = False
    """False: all go to the device, and lowering refuses what has no compiled form."""
    refuses: Refuses | None = None
    """What the device cannot run although it has a compiled form; its companion does."""
    others: tuple[Other, ...] = ()
    """Other devices, which run what is assigned to them, and in this order what is refused."""
    missing: str = ""
    """Why the host has to, where there are none."""

    name = "place-on-device"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        main = entry_function(rewriter.module)
        events = EventLog(self.name, rewriter)
        last = main.body.block.last_op
        assert isinstance(last, ReturnOp)
        block, weights = main.body.block, rewriter.weights
        for index, output in enumerate(last.operands):
            if is_argument(output):
                with events.rewrite("copy-input", last, COPY_REASON):
                    copy_output(last, index, rewriter)
        found = Partition((), {})
        if self.has_host_parts or any(DEVICE in op.attributes for op in block.ops):
            found = self._partition(block, weights)
        if not found.reasons and all(piece.place == FIRST for piece in found.pieces):
            with events.rewrite("outline", last, f"the whole program runs on {self.device}"):
                self._outline(main, last, rewriter)
            return events.rewrites
        for index, output in enumerate(last.operands):
            if isinstance(output.owner, WeightOp):
                with events.rewrite("copy-weight", last, "an output that is constant is written"):
                    copy_output(last, index, rewriter)
        found = self._partition(block, weights)  # with the copies
        for op, reason in found.reasons.items():
            with events.rewrite("host", op, reason):
                rewriter.set_attribute(op, HOST_REASON, StringAttr(reason))
        others = tuple(_identifier(other.name) for other in self.others)
        size = open_size(main)
        outlining = _Outlining(main, self.device, others, rewriter, size)
        for piece in found.pieces:
            with events.rewrite("outline", piece.operations[0], outlining.explain(piece)):
                outlining.outline(piece)
        for transfer in outlining.received:
            if not transfer.output.uses:
                with events.rewrite("keep-there", transfer, "only functions of its device read it"):
                    rewriter.erase(transfer)
        main.attributes[DEVICE] = StringAttr(HOST)
        return events.rewrites

    def _partition(self, block: Block, weights: Weights) -> Partition:
        found = partition(block, weights, self.refuses, self.others, self.has_host_parts)
        if not self.missing or self.refuses is None:
            return found
        reasons = {
            op: f"{reason}; {self.missing}" if self.refuses(op, weights) else reason
            for op, reason in found.reasons.items()
        }
        return Partition(found.pieces, reasons)

    def _outline(self, main: func.FuncOp, returned: ReturnOp, rewriter: RecordedRewriter) -> None:
        body = main.body
        inputs = [a.type for a in body.block.args]
        names = [value_name(a) for a in body.block.args]
        outputs = [o.type for o in returned.operands]
        origins = [origin_of(o) for o in returned.operands]
        output_sources = [value_name(o) for o in returned.operands]

        main.detach_region(body)
        device_name = f"main_{_identifier(self.device)}"
        outlined = func.FuncOp(device_name, (inputs, outputs), body)
        outlined.attributes[DEVICE] = StringAttr(self.device)
        block = Block(arg_types=inputs)
        transfers = []
        for argument, inner, name in zip(block.args, body.block.args, names, strict=True):
            argument.name_hint = name
            inner.name_hint = f"{name}.device"
            transfer = TransferOp.make([argument], to=self.device)
            set_identity(transfer, rewriter.names.fresh("send"))
            transfer.location = location_of([name])
            transfers.append(transfer)
        call = func.CallOp(device_name, [t.output for t in transfers], outputs)
        back = []
        for result, origin, source in zip(call.results, origins, output_sources, strict=True):
            transfer = TransferOp.make([result], to="host")
            set_identity(transfer, rewriter.names.fresh("receive"))
            set_origins(transfer, [origin])
            back.append(transfer)
            result.name_hint = f"{source}.device"
        block.add_ops([*transfers, call, *back, ReturnOp.make([[t.output for t in back]])])
        main.add_region(Region(block))
        main.attributes[DEVICE] = StringAttr("host")
        rewriter.module.body.block.add_op(outlined)
        for transfer in (*transfers, *back):
            rewriter.log.added[transfer] = None
        rewriter.has_changed = True


@dataclass
class _Outlining:
    """Pieces of the entry function become functions of their own, called in its end."""

    main: func.FuncOp
    device: str
    others: tuple[str, ...]
    """Identifiers of the other devices."""
    rewriter: RecordedRewriter
    size: OpenSize | None
    """The dimension that the program leaves open."""
    rows: dict[SSAValue, int] = field(init=False)
    """Of values that grow with it, those that are sent and received among them."""
    calls: dict[str, int] = field(default_factory=dict)
    """How many functions there are by the names that they begin with."""
    names: set[str] = field(default_factory=set)
    """Of the functions' arguments and results: each is there once."""
    there: dict[tuple[SSAValue, str], SSAValue] = field(default_factory=dict)
    """By a value of the entry function and a device: the value on that device."""
    received: list[TransferOp] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {} if self.size is None else rows_of_values(self.main, self.size)

    def explain(self, piece: Piece) -> str:
        count = len(piece.operations)
        what = f"{count} operation{'s' * (count > 1)}"
        if piece.place == IS_SIZED:
            return f"{what} whose sizes a run tells: compiled for them when they come again"
        if piece.place == HOST:
            return f"{what} without a compiled form, or next to such"
        if piece.place == FIRST:
            return f"{what} that {self.device} runs"
        if any(HOST_REASON in op.attributes for op in piece.operations):
            return f"{what} that {self.device} cannot run, and {piece.place} can"
        return f"{what} that {piece.place} runs"

    def outline(self, piece: Piece) -> None:
        last = self.main.body.block.last_op
        assert isinstance(last, ReturnOp)
        inside = set(piece.operations)
        made = [result for op in piece.operations for result in op.results]
        returned = [value for value in made if any(self._outside(value, inside))]
        read = dict.fromkeys(value for op in piece.operations for value in read_values(op))
        given = [v for v in read if v.owner not in inside and not isinstance(v.owner, WeightOp)]

        block = Block(arg_types=[value.type for value in given])
        device = self._device(piece)
        function = self._function(piece, block, returned)
        self._leave_open(function, given, returned)
        is_away = device != HOST
        sent = [self._send(value, device, last) if is_away else value for value in given]
        call = func.CallOp(function.sym_name.data, sent, [value.type for value in returned])
        self.main.body.block.insert_op_before(call, last)
        suffix = "device" if piece.place == FIRST else _identifier(device)
        for value, result in zip(returned, call.results, strict=True):
            result.name_hint = self._name(value, suffix)
            outer = self._receive(value, result, last) if is_away else result
            if value in self.rows:
                self.rows[outer] = self.rows[value]
            self.there[outer, device] = result
            for operation, index in list(self._outside(value, inside)):
                operation.operands[index] = outer
        for op in piece.operations:
            op.detach()
            self._take_weights(op, block)
            block.add_op(op)
        for value, argument in zip(given, block.args, strict=True):
            argument.name_hint = self._name(value, suffix)
            value.replace_uses_with_if(argument, lambda use: block in blocks_around(use.operation))
        block.add_op(ReturnOp.make([returned]))
        self.rewriter.has_changed = True
        if is_away:
            end = block.last_op
            assert isinstance(end, ReturnOp)
            for index, value in enumerate(end.operands):
                if is_argument(value):
                    copy_output(end, index, self.rewriter)

    def _leave_open(
        self, function: func.FuncOp, given: Sequence[SSAValue], returned: Sequence[SSAValue]
    ) -> None:
        """Notes the open dimension with the rows of what the function is given and returns.

        UnsupportedError where a value cannot be cut to a smaller size.
        """
        if self.size is None:
            return
        for value in (*given, *returned):
            if self.rows.get(value) == 0:
                raise UnsupportedError(
                    f"{value_name(value)} goes from one device to another, and has no whole number "
                    f"of rows for each unit of {self.size.range.name!r}",
                    node=", ".join(sources_of(value.owner))
                    if isinstance(value.owner, Operation)
                    else "",
                    hint="give one size, or keep its reader on the same device: --cluster",
                )
        inputs, outputs = (tuple(self.rows.get(v, 0) for v in side) for side in (given, returned))
        found = OpenSize(self.size.range, inputs, outputs)
        function.attributes[RANGE] = RangeAttr.get(found)

    def _device(self, piece: Piece) -> str:
        return {FIRST: self.device, IS_SIZED: HOST}.get(piece.place, piece.place)

    def _function(self, piece: Piece, block: Block, returned: Sequence[SSAValue]) -> func.FuncOp:
        device = self.device if piece.place == IS_SIZED else self._device(piece)
        stem = f"main_{_identifier(device)}"
        stem += "_sized" if piece.place == IS_SIZED else ""
        self.calls[stem] = number = self.calls.get(stem, 0) + 1
        types = [a.type for a in block.args], [value.type for value in returned]
        function = func.FuncOp(stem if number == 1 else f"{stem}_{number}", types, Region(block))
        own = self._device(piece)
        function.attributes[DEVICE] = StringAttr(own)
        if own not in (HOST, self.device):
            function.attributes[COMPANION] = UnitAttr()
        if piece.place == IS_SIZED:
            function.attributes[SIZED] = StringAttr(self.device)
        self.rewriter.module.body.block.add_op(function)
        return function

    def _outside(
        self, value: SSAValue, inside: Collection[Operation]
    ) -> Iterator[tuple[Operation, int]]:
        """Uses of a value beyond a piece, as (operation, operand)."""
        for use in list(value.uses):
            if outermost(use.operation, self.main.body.block) not in inside:
                yield use.operation, use.index

    def _send(self, value: SSAValue, device: str, anchor: Operation) -> SSAValue:
        if (value, device) not in self.there:
            transfer = TransferOp.make([value], to=device)
            self._add(transfer, "send", anchor, (value_name(value),))
            self.there[value, device] = transfer.output
        return self.there[value, device]

    def _receive(self, value: SSAValue, result: SSAValue, anchor: Operation) -> SSAValue:
        transfer = TransferOp.make([result], to=HOST)
        self._add(transfer, "receive", anchor, ())
        set_origins(transfer, [origin_of(value)])
        self.received.append(transfer)
        return transfer.output

    def _add(
        self, transfer: TransferOp, stem: str, anchor: Operation, sources: tuple[str, ...]
    ) -> None:
        set_identity(transfer, self.rewriter.names.fresh(stem))
        if sources:
            transfer.location = location_of(sources)
        self.main.body.block.insert_op_before(transfer, anchor)
        self.rewriter.log.added[transfer] = None

    def _name(self, value: SSAValue, suffix: str) -> str:
        """What a value is called where it comes into a function, or out of it."""
        stem = value_name(value)
        for device in (HOST, "device", *self.others):
            stem = stem.removesuffix(f".{device}")
        number, name = 1, f"{stem}.{suffix}"
        while name in self.names:
            number += 1
            name = f"{stem}.{suffix}{number}"
        self.names.add(name)
        return name

    def _take_weights(self, op: Operation, block: Block) -> None:
        """The weights that an operation reads come along; copies, where other functions read
        them, too."""
        for inner in op.walk():
            for index, operand in enumerate(inner.operands):
                weight = operand.owner
                if not isinstance(weight, WeightOp) or weight.parent is block:
                    continue
                if weight.parent is self.main.body.block:
                    weight.detach()
                    block.add_op(weight)
                elif isinstance(weight.parent_op(), func.FuncOp):
                    inner.operands[index] = self._copy(weight, block).output

    def _copy(self, weight: WeightOp, block: Block) -> WeightOp:
        for op in block.ops:
            if isinstance(op, WeightOp) and op.weight == weight.weight:
                return op
        copy = weight.clone()
        set_identity(copy, self.rewriter.names.fresh("w"))
        block.add_op(copy)
        self.rewriter.log.added[copy] = None
        return copy


COPY_REASON = "an output that is an input gets memory of its own"


def is_argument(value: SSAValue) -> bool:
    """Whether a value is an argument of its function, or a view of one."""
    while isinstance(value.owner, TopOperation) and value.owner.is_view:
        value = value.owner.operands[0]
    return isinstance(value, BlockArgument)


def copy_output(returned: ReturnOp, index: int, rewriter: RecordedRewriter) -> None:
    """Returns a copy of an output in place of the value itself."""
    value = returned.operands[index]
    copy = ConvertLayoutOp.make([value], [value.type])
    set_origins(copy, [origin_of(value)])
    rewriter.insert_before(returned, copy, stem="copy", sources=_sources(value))
    rewriter.set_operand(returned, index, copy.output)


def _sources(value: SSAValue) -> tuple[str, ...]:
    if isinstance(value, BlockArgument):
        return (value_name(value),)
    assert isinstance(value.owner, TopOperation)
    return sources_of(value.owner)


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)
