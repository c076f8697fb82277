"""Which operations run on which device and which on the host, in pieces with few transfers between.

    %c = top.conv(%x, %w)                             device
    %i = top.nonzero(%c) : tensor<4x?xi64>            host: how many it finds depends on data
    %p = top.gather(%c, %i) : tensor<?x4xf32>         sized: its sizes are known when %i is there
    %y = top.matmul(%p, %w2) : tensor<?x5xf32>        sized

An operation runs on the host where it has no compiled form. What has one runs on the device that
it was assigned to, else on the first one; where that refuses it, on the first of all that does not.
What only has an unknown size because of what it reads can be compiled once that is there: it is
`sized` where multiplying and adding is to be done, and interpreted on the host otherwise. Scalars
and the like are computed where they are read, and a view of what is on the host stays there.

Every piece takes all that is ready, devices first: of all orders that keep a piece's operations
together, none has fewer pieces in turn (list scheduling with as many slots as there is work).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Use

from explorer.ir.functions.host_functions import has_form
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.structure import DEVICE, outermost, read_values, value_name
from explorer.ir.top.data import ReturnOp, TransferOp, WeightOp
from explorer.ir.types import format_shape, is_static, shape_of, static_shape
from explorer.ir.weights import Weights
from explorer.passes.lower.compiled_form import missing_control

FIRST = "device"
"""Place of what the first device runs; others are called by their names."""
SIZED, HOST = "sized", "host"
Refuses = Callable[[TopOperation, Weights], str]
"""Why a device cannot run an operation that has a compiled form; empty where it can."""
Needs = Callable[[TopOperation, Weights], Sequence[TopOperation]]
"""The operations that a device has to run, too, where it runs this one."""


@dataclass(frozen=True)
class Other:
    """Another device than the first one, and what it refuses (None: nothing)."""

    name: str
    refuses: Refuses | None = None


MAX_SMALL_ELEMENTS = 64
"""Elements of a tensor that is not worth a transfer."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Operations that run together, in their order."""

    place: str
    """`device`, the name of another device, `sized` or `host`."""
    operations: tuple[TopOperation, ...]


@dataclass(frozen=True, eq=False)
class Partition:
    """The pieces in the order in which they run, and why operations are not on their device."""

    pieces: tuple[Piece, ...]
    reasons: Mapping[TopOperation, str]


def partition(
    block: Block,
    weights: Weights | None = None,
    refuses: Refuses | None = None,
    others: Sequence[Other] = (),
    has_host: bool = True,
) -> Partition:
    """Divides a function's operations; weights belong to whoever reads them.

    `refuses`: what the first device cannot run although it has a compiled form; `others`: further
    devices, in the order in which they take that. `has_host`: whether the host takes the rest;
    else the first device does, and lowering refuses it.
    """
    ops = [op for op in block.ops if isinstance(op, TopOperation) and not _is_data(op)]
    asked = {FIRST: refuses, **{other.name: other.refuses for other in others}}
    known: dict[str, dict[TopOperation, str]] = {place: {} for place in asked}
    formless = {op: reason for op in ops if (reason := host_reason(op))} if has_host else {}

    def refusal(place: str, op: TopOperation) -> str:
        own, answers = asked[place], known[place]
        if own is None or weights is None:
            return ""
        if op not in answers:
            answers[op] = own(op, weights)
        return answers[op]

    while True:
        found = _divided(block, ops, formless, tuple(asked), refusal,
                         is_refusing=refuses is not None)  # fmt: skip
        if weights is None or len(found.pieces) < 2 or not any(asked.values()):
            return found
        apart = False
        for place, own in asked.items():
            if own is not None:
                reasons = _refused_apart(block, found.pieces, weights, place, own)
                reasons |= _shown_only(block, found.pieces, place)
                known[place] |= reasons
                apart = apart or bool(reasons)
        if not apart:
            return found


def _divided(
    block: Block,
    ops: Sequence[TopOperation],
    formless: Mapping[TopOperation, str],
    devices: Sequence[str],
    refusal: Callable[[str, TopOperation], str],
    *,
    is_refusing: bool,
) -> Partition:
    reasons = dict(formless)
    assigned = {op: place for op in ops if (place := _assigned(op, devices))}

    def place_of(op: TopOperation) -> str:
        if op in formless:
            return SIZED if can_be_sized(op) else HOST
        wanted = assigned.get(op, FIRST)
        for device in (wanted, *devices):
            refused = refusal(device, op)
            if not refused:
                return device
            reasons.setdefault(op, refused)
        return SIZED if can_be_sized(op) else HOST

    places: dict[Operation, str] = {op: place_of(op) for op in ops}
    if not reasons and not assigned:
        return Partition((Piece(FIRST, tuple(ops)),), {})
    if not is_refusing:  # else what a device reads through would be taken from what reads it
        _keep_small(block, [op for op in ops if op not in assigned], places, reasons)
    while True:
        pieces = _in_turn(ops, places, devices)
        idle = [
            piece
            for piece in pieces
            if not _is_worth_it(piece) and not any(op in assigned for op in piece.operations)
        ]
        if not idle:
            return Partition(tuple(pieces), reasons)
        for piece in idle:
            for op in piece.operations:
                if places[op] == FIRST:
                    where = "elsewhere" if len(devices) > 1 else "on the host"
                    reasons[op] = f"nothing but views of what is {where} would be there"
                is_own = piece.place == FIRST
                places[op] = devices[1] if is_own and len(devices) > 1 else HOST


def _assigned(op: Operation, devices: Sequence[str]) -> str:
    """The place of the device that an operation was assigned to; empty: none of these."""
    attribute = op.attributes.get(DEVICE)
    if not isinstance(attribute, StringAttr):
        return ""
    return attribute.data if attribute.data in devices else FIRST


def _refused_apart(
    block: Block, pieces: Sequence[Piece], weights: Weights, place: str, refuses: Refuses
) -> dict[TopOperation, str]:
    """What a device cannot run of its own pieces, and why, once transfers lie between them.

    What reads through operations elsewhere reads what these have made then, and what nobody needed
    as it is may be needed by another piece.
    """
    function = block.parent_op()
    assert isinstance(function, func.FuncOp)
    copied = function.clone().body.block
    copies = dict(zip(block.ops, copied.ops, strict=True))
    inside = {op: piece for piece in pieces for op in piece.operations}
    inside_copies = {copies[op]: piece for op, piece in inside.items()}
    for op, piece in inside_copies.items():
        for result in op.results:
            away = [
                u for u in list(result.uses) if _piece_of(u, copied, inside_copies) is not piece
            ]
            if away:
                sent = TransferOp.make([result], to=piece.place)
                copied.insert_op_after(sent, op)
                for use in away:
                    use.operation.operands[use.index] = sent.output
    own = [op for piece in pieces if piece.place == place for op in piece.operations]
    found = {
        op: refuses(copy, weights) for op in own if isinstance(copy := copies[op], TopOperation)
    }
    return {op: reason for op, reason in found.items() if reason}


def _shown_only(block: Block, pieces: Sequence[Piece], place: str) -> dict[TopOperation, str]:
    """Views of what comes from elsewhere, which a device would give back as it is: a copy."""
    found: dict[TopOperation, str] = {}
    for piece in pieces:
        inside = set(piece.operations)
        for op in piece.operations if piece.place == place else ():
            base: Operation = op
            while base in inside and isinstance(base, TopOperation) and base.is_view:
                owner = base.operands[0].owner
                base = owner if isinstance(owner, Operation) else block.parent_op() or base
            users = [outermost(use.operation, block) for r in op.results for use in r.uses]
            if base not in inside and any(user not in inside for user in users):
                found[op] = "it shows what another device made, and is read elsewhere"
    return found


def _piece_of(use: Use, block: Block, pieces: Mapping[Operation, Piece]) -> Piece | None:
    return pieces.get(outermost(use.operation, block))


def host_reason(op: TopOperation) -> str:
    """Why an operation cannot be compiled now; empty where it can."""
    if op.regions:
        return missing_control(op)[0]
    for result in op.results:
        if not is_static(result) and op.is_sized_by_contents:
            size = format_shape(shape_of(result))
            return f"what it reads decides how large its result is ({size})"
    for operand in op.operands:
        if not is_static(operand):
            size = format_shape(shape_of(operand))
            return f"it reads {value_name(operand)}, whose size only a run tells ({size})"
    if not all(is_static(result) for result in op.results):
        return f"only a run tells how large its result is ({format_shape(shape_of(op.results[0]))})"
    return op.missing_form()


def can_be_sized(op: TopOperation) -> bool:
    """Whether nothing but the sizes of its operands is missing."""
    is_open = not all(is_static(value) for value in (*op.operands, *op.results))
    return is_open and has_form(op)


def _is_data(op: Operation) -> bool:
    return isinstance(op, WeightOp | ReturnOp)


def _keep_small(
    block: Block,
    ops: Sequence[TopOperation],
    places: dict[Operation, str],
    reasons: dict[TopOperation, str],
) -> None:
    """Moves what is not worth a transfer to the host, along what it reads and what reads it."""
    for op in ops:
        if places[op] in (SIZED, HOST):
            continue
        read = [o.owner for o in op.operands if not isinstance(o.owner, WeightOp)]
        if not read or not all(places.get(owner) == HOST for owner in read):  # pyright: ignore
            continue
        if op.is_view or _is_small(op):
            places[op] = HOST
            reasons[op] = f"{'a view' if op.is_view else 'a few numbers'} of what is on the host"
    for op in reversed(ops):
        users = [outermost(use.operation, block) for result in op.results for use in result.uses]
        if places[op] in (SIZED, HOST) or not users or not _is_small(op):
            continue
        if all(places.get(user) == HOST for user in users):
            places[op] = HOST
            reasons[op] = f"a few numbers that {identity_of(users[0])} reads on the host"


def _is_small(op: TopOperation) -> bool:
    values = (*op.operands, *op.results)
    return all(is_static(v) and prod(static_shape(v)) <= MAX_SMALL_ELEMENTS for v in values)


def _in_turn(
    ops: Sequence[TopOperation], places: Mapping[Operation, str], devices: Sequence[str]
) -> list[Piece]:
    """Pieces that take all that is ready, place by place, devices first."""
    inside = set(ops)
    waits_for = {
        op: {v.owner for v in read_values(op) if v.owner in inside}  # pyright: ignore
        for op in ops
    }
    pieces: list[Piece] = []
    remaining = list(ops)
    while remaining:
        for place in (*devices, SIZED, HOST):
            taken: list[TopOperation] = []
            waiting = set(remaining)
            rest: list[TopOperation] = []
            for op in remaining:
                if places[op] == place and not (waits_for[op] & waiting):
                    taken.append(op)
                    waiting.discard(op)
                else:
                    rest.append(op)
            remaining = rest
            if taken:
                pieces.append(Piece(place, tuple(taken)))
    return pieces


def _is_worth_it(piece: Piece) -> bool:
    """Whether a piece does something that the host would be slow at."""
    if piece.place == HOST:
        return True
    if piece.place != SIZED:
        return not _are_views(piece.operations)
    return any(type(op).macs is not TopOperation.macs for op in piece.operations)


def _are_views(ops: Iterable[TopOperation]) -> bool:
    return all(op.is_view for op in ops)
