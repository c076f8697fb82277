"""Concats and slices that copy nothing: the parts lie where the whole has them.

    %y = top.concat(%a, %b) {axis = 1}   =>   %y = top.concat(%a, %b) {axis = 1, in_place = true}
    %s = top.slice(%y) {starts = ...}    =>   %s = top.slice(%y) {starts = ..., in_place = true}

Whoever makes %a and %b writes them into the buffer of %y, and whoever reads %s reads it there. That
works where a part is one piece of the whole's bytes: along the outermost axis of more than one
element, of blocked tensors along whole blocks of channels. A chain of concats, each of the one
before and something new, is one buffer then, and nothing is copied at all.

What is a concat and what a slice, operations say (`JoinsPieces`, `TakesPiece`). A piece of a concat
that has to lie elsewhere (an input, a constant, a value that is in another
place of the same buffer already) is copied by itself, as long as most of the bytes need no copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.dialects import func
from xdsl.ir import BlockArgument, OpResult, SSAValue

from explorer.ir.interfaces import JoinsPieces, Piece, TakesPiece
from explorer.ir.operation import TopOperation
from explorer.ir.origins import origin_of, set_origins, sources_of
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.sizes.ranges import open_size
from explorer.ir.structure import own_functions, value_name
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, WeightOp
from explorer.ir.types import (
    Layout,
    element_type_of,
    is_static,
    layout_of,
    numpy_dtype,
    static_shape,
    with_layout,
)
from explorer.passes.lower.assign_layouts import reads_whole_buffer
from explorer.passes.lower.storages import Fit, Refused, Storage, Tenant
from explorer.results import Knob

IN_PLACE = "the parts are written where the whole has them: nothing is copied"
VIEW = "it is read where its input has it: nothing is copied"
OPEN = "a dimension's size is open, so that parts would lie elsewhere for each size"


@dataclass(frozen=True)
class JoinInPlace(Pass):
    """Pieces of concats are computed where the concat has them, and slices are views.

    Decisions, true or false:

    join-in-place/concat/VALUE   whether a concat is made in place
    join-in-place/slice/VALUE    whether a slice is a view
    """

    name = "join-in-place"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        for function in own_functions(rewriter.module):
            joining = _Joining(function, rewriter, events, options)
            joining.run()
            knobs += joining.knobs
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites


@dataclass
class _Joining:
    function: func.FuncOp
    rewriter: RecordedRewriter
    events: EventLog
    driver: RewriteOptions
    storages: dict[str, Storage] = field(default_factory=dict)
    """The buffer of every value, by the value's name."""
    values: dict[str, SSAValue] = field(default_factory=dict)
    knobs: list[Knob] = field(default_factory=list)

    def run(self) -> None:
        for argument in self.function.body.block.args:
            self._add(argument)
        for op in list(self.function.body.block.ops):
            if not isinstance(op, TopOperation) or isinstance(op, WeightOp | ReturnOp):
                continue
            if isinstance(op, JoinsPieces | TakesPiece):
                self._decide(op)
            elif op.is_view and value_name(op.operands[0]) in self.storages:
                self._share(op)
            else:
                for result in op.results:
                    self._add(result)

    # -- buffers -------------------------------------------------------------------------------
    def _add(self, value: SSAValue) -> None:
        """A value that is written, in a buffer of its own."""
        if is_static(value):
            self.values[value_name(value)] = value
            self._keep(Storage.of(_tenant(value), is_input=isinstance(value, BlockArgument)))

    def _keep(self, storage: Storage) -> None:
        for name in storage.tenants:
            self.storages[name] = storage

    def _share(self, op: TopOperation) -> None:
        """A view of all of a value, under another shape."""
        (result,), shown = op.results, value_name(op.operands[0])
        self.values[value_name(result)] = result
        own = replace(_tenant(result), is_fixed=True)
        self._keep(self.storages[shown].with_view(own, shown))

    # -- decisions -----------------------------------------------------------------------------
    def _decide(self, op: JoinsPieces | TakesPiece) -> None:
        rule = "concat" if isinstance(op, JoinsPieces) else "slice"
        why = IN_PLACE if isinstance(op, JoinsPieces) else VIEW
        result = value_name(op.results[0])
        try:
            self._check(op)
            storage, copies = self._plan(op)
        except Refused as error:
            self.events.decline(rule, op, str(error), why)
            self._add(op.results[0])
            return
        if copies:
            reasons = "; ".join(f"{value_name(op.operands[i])}: {copies[i]}" for i in copies)
            why = f"{why}, but for copies ({reasons})"
        address = self.events.address(rule, op)
        wanted = self.driver.decision(address) is not False
        self.knobs.append(Knob(address, wanted, (True, False), why))
        if not wanted or self.driver.fuel.is_empty:
            if not wanted:
                self.events.decline(rule, op, OVERRIDDEN, why)
            self._add(op.results[0])
            return
        with self.events.rewrite(rule, op, why):
            names = {f"{result}/{i}": self._copy(op, i, storage.layout) for i in copies}
            self.rewriter.update(op, in_place=True)
            self.values[result] = op.results[0]
            storage = storage.renamed(names) if names else storage
            self._give_layout(storage)
        self.driver.fuel.burn()
        self._keep(storage)

    def _check(self, op: JoinsPieces | TakesPiece) -> None:
        if open_size(self.function) is not None:
            raise Refused(OPEN)
        if not all(is_static(v) for v in (*op.operands, *op.results)):
            raise Refused("a size is not known")

    def _plan(self, op: JoinsPieces | TakesPiece) -> tuple[Storage, dict[int, str]]:
        """The buffer of all that belongs together then, and which operands are copied, and why.

        Refused where it is not to be.
        """
        if isinstance(op, TakesPiece):
            return self._with_slice(op), {}
        whole, fits = _tenant(op.results[0]), [_fit(piece) for piece in op.pieces()]
        storage, copies = Storage.view(whole), {}
        for fit in fits:
            fit.check(whole.layout)
        for index in range(len(fits)):
            try:
                storage = self._with_piece(storage, op, fits, index)
            except Refused as error:
                copies[index] = str(error)
        copied = sum(prod(static_shape(op.operands[index])) for index in copies)
        if 2 * copied > whole.size:
            raise Refused(f"most of it would be copied all the same: {next(iter(copies.values()))}")
        for index in copies:
            copy = Tenant(f"{whole.name}/{index}", fits[index].part, storage.layout)
            storage = storage.joined(Storage.of(copy), whole.name, copy.name, fits[index])
        return storage, copies

    def _with_slice(self, op: TakesPiece) -> Storage:
        """The buffer of a slice's input with the slice in it."""
        fit, name = _cut(op), value_name(op.operands[0])
        if name not in self.storages:
            raise Refused("what it cuts is a constant")
        whole, own = self.storages[name], _tenant(op.results[0])
        if whole.is_input and own.is_fixed:
            raise Refused("what is returned or reshaped shares no memory with an input")
        return whole.joined(Storage.view(own), name, own.name, fit)

    def _with_piece(
        self, storage: Storage, op: JoinsPieces, fits: Sequence[Fit], index: int
    ) -> Storage:
        """The concat's buffer with a piece in it."""
        name, piece = value_name(op.results[0]), value_name(op.operands[index])
        if piece not in self.storages:
            raise Refused("a constant lies in no buffer")
        own = self.storages[piece]
        if own.is_input:
            raise Refused("an input has memory of its own")
        joined = storage.joined(own, name, piece, fits[index])
        begin = joined.offsets[name]
        kept = [
            (begin + fit.begin, begin + fit.begin + prod(fit.part))
            for fit, operand in zip(fits, op.operands, strict=True)
            if joined.offsets.get(value_name(operand)) == begin + fit.begin
        ]
        end = begin + joined.tenants[name].size
        for other, (low, high) in joined.written.items():
            if low < end and begin < high and not any(a <= low and high <= b for a, b in kept):
                raise Refused(f"{other} lies beside it, where another piece belongs")
        return joined

    # -- changes -------------------------------------------------------------------------------
    def _copy(self, op: JoinsPieces | TakesPiece, index: int, layout: Layout) -> str:
        """Copies an operand; the copy's name."""
        value = op.operands[index]
        copy = ConvertLayoutOp.make([value], [with_layout(value.type, layout)])
        set_origins(copy, [origin_of(value)])
        sources = sources_of(value.op) if isinstance(value, OpResult) else (value_name(value),)
        self.rewriter.insert_before(op, copy, stem="copy", sources=sources)
        self.rewriter.set_operand(op, index, copy.output)
        self.values[value_name(copy.output)] = copy.output
        return value_name(copy.output)

    def _give_layout(self, storage: Storage) -> None:
        """All values in the buffer get the padding that one of them needs."""
        for name in storage.tenants:
            before = self.storages.get(name)
            if before is not None and before.layout == storage.layout:
                continue  # as all values of a buffer before
            value = self.values[name]
            if layout_of(value) != storage.layout:
                kind = with_layout(value.type, storage.layout)
                self.values[name] = self.rewriter.set_type(value, kind)


def _tenant(value: SSAValue) -> Tenant:
    users = [op for use in value.uses if isinstance(op := use.operation, TopOperation)]
    return Tenant(
        value_name(value),
        static_shape(value),
        layout_of(value),
        is_fixed=isinstance(value, BlockArgument) or any(map(reads_whole_buffer, users)),
        is_read=not all(isinstance(user, JoinsPieces) for user in users),
    )


def _cut(op: TakesPiece) -> Fit:
    """The part of its operand that a result is; Refused where that is not one piece."""
    try:
        return _fit(op.piece())
    except ValueError as error:
        raise Refused(str(error)) from None


def _fit(piece: Piece) -> Fit:
    itemsize = numpy_dtype(element_type_of(piece.whole)).itemsize
    whole, part = static_shape(piece.whole), static_shape(piece.part)
    return Fit(whole, part, itemsize, piece.axis, piece.start)
