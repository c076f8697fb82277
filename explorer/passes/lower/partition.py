"""Which operations run on the device and which on the host, in pieces with few transfers between.

    %c = top.conv(%x, %w)                             device
    %i = top.nonzero(%c) : tensor<4x?xi64>            host: how many it finds depends on data
    %p = top.gather(%c, %i) : tensor<?x4xf32>         sized: its sizes are known when %i is there
    %y = top.matmul(%p, %w2) : tensor<?x5xf32>        sized

An operation runs on the host where it has no compiled form. What has one, but not on this device,
goes to its companion device, where there is one. What only has an unknown size
because of what it reads can be compiled once that is there: it is `sized` where multiplying and
adding is to be done, and interpreted on the host otherwise. Scalars and the like are computed where
they are read, and a view of what is on the host stays there.

Every piece takes all that is ready, devices first: of all orders that keep a piece's operations
together, none has fewer pieces in turn (list scheduling with as many slots as there is work).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from xdsl.dialects import func
from xdsl.ir import Block, Operation, Use

from explorer.ir.functions.host_functions import has_form
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.structure import outermost, read_values, value_name
from explorer.ir.top.data import ReturnOp, TransferOp, WeightOp
from explorer.ir.types import format_shape, is_static, shape_of, static_shape
from explorer.ir.weights import Weights
from explorer.passes.lower.compiled_form import missing_control

Place = Literal["device", "companion", "sized", "host"]
PLACES: tuple[Place, ...] = ("device", "companion", "sized", "host")
"""In the order in which pieces take what is ready."""
Refuses = Callable[[TopOperation, Weights], str]
"""Why a device cannot run an operation that has a compiled form; empty where it can."""
MAX_SMALL_ELEMENTS = 64
"""Elements of a tensor that is not worth a transfer."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Operations that run together, in their order."""

    place: Place
    operations: tuple[TopOperation, ...]


@dataclass(frozen=True, eq=False)
class Partition:
    """The pieces in the order in which they run, and why operations are not on the device."""

    pieces: tuple[Piece, ...]
    reasons: Mapping[TopOperation, str]


def partition(
    block: Block,
    weights: Weights | None = None,
    refuses: Refuses | None = None,
    has_companion: bool = False,
) -> Partition:
    """Divides a function's operations; weights belong to whoever reads them.

    `refuses`: what the device cannot run although it has a compiled form. `has_companion`: whether
    another device computes that, and not the host.
    """
    ops = [op for op in block.ops if isinstance(op, TopOperation) and not _is_data(op)]
    reasons = {op: reason for op in ops if (reason := host_reason(op))}
    formless = set(reasons)
    if refuses is not None and weights is not None:
        others = [op for op in ops if op not in reasons]
        reasons |= {op: reason for op in others if (reason := refuses(op, weights))}
    while True:
        found = _divided(block, ops, reasons, formless, is_refusing=refuses is not None,
                         has_companion=has_companion)  # fmt: skip
        if refuses is None or weights is None or len(found.pieces) < 2:
            return found
        apart = _refused_apart(block, found.pieces, weights, refuses)
        if not apart:
            return found
        reasons |= apart


def _divided(
    block: Block,
    ops: Sequence[TopOperation],
    refused: Mapping[TopOperation, str],
    formless: Collection[TopOperation],
    *,
    is_refusing: bool,
    has_companion: bool,
) -> Partition:
    if not refused:
        return Partition((Piece("device", tuple(ops)),), {})
    reasons = dict(refused)

    def place(op: TopOperation) -> Place:
        if op not in reasons:
            return "device"
        if has_companion and op not in formless:
            return "companion"
        return "sized" if can_be_sized(op) else "host"

    places: dict[Operation, Place] = {op: place(op) for op in ops}
    if not is_refusing:  # else what a device reads through would be taken from what reads it
        _keep_small(block, ops, places, reasons)
    while True:
        pieces = _in_turn(ops, places)
        idle = [piece for piece in pieces if not _is_worth_it(piece)]
        if not idle:
            return Partition(tuple(pieces), reasons)
        for piece in idle:
            for op in piece.operations:
                if places[op] == "device":
                    where = "elsewhere" if has_companion else "on the host"
                    reasons[op] = f"nothing but views of what is {where} would be there"
                is_own = piece.place == "device"
                places[op] = "companion" if is_own and has_companion else "host"


def _refused_apart(
    block: Block, pieces: Sequence[Piece], weights: Weights, refuses: Refuses
) -> dict[TopOperation, str]:
    """What the device cannot run of its own pieces, and why, once transfers lie between them.

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
    own = [op for piece in pieces if piece.place == "device" for op in piece.operations]
    found = {
        op: refuses(copy, weights) for op in own if isinstance(copy := copies[op], TopOperation)
    }
    return {op: reason for op, reason in found.items() if reason}


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
    places: dict[Operation, Place],
    reasons: dict[TopOperation, str],
) -> None:
    """Moves what is not worth a transfer to the host, along what it reads and what reads it."""
    for op in ops:
        if places[op] != "device":
            continue
        read = [o.owner for o in op.operands if not isinstance(o.owner, WeightOp)]
        if not read or not all(places.get(owner) == "host" for owner in read):  # pyright: ignore
            continue
        if op.is_view or _is_small(op):
            places[op] = "host"
            reasons[op] = f"{'a view' if op.is_view else 'a few numbers'} of what is on the host"
    for op in reversed(ops):
        users = [outermost(use.operation, block) for result in op.results for use in result.uses]
        if places[op] != "device" or not users or not _is_small(op):
            continue
        if all(places.get(user) == "host" for user in users):
            places[op] = "host"
            reasons[op] = f"a few numbers that {identity_of(users[0])} reads on the host"


def _is_small(op: TopOperation) -> bool:
    values = (*op.operands, *op.results)
    return all(is_static(v) and prod(static_shape(v)) <= MAX_SMALL_ELEMENTS for v in values)


def _in_turn(ops: Sequence[TopOperation], places: Mapping[Operation, Place]) -> list[Piece]:
    """Pieces that take all that is ready, place by place."""
    inside = set(ops)
    waits_for = {
        op: {v.owner for v in read_values(op) if v.owner in inside}  # pyright: ignore
        for op in ops
    }
    pieces: list[Piece] = []
    remaining = list(ops)
    while remaining:
        for place in PLACES:
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
    if piece.place == "host":
        return True
    if piece.place in ("device", "companion"):
        return not _are_views(piece.operations)
    return any(type(op).macs is not TopOperation.macs for op in piece.operations)


def _are_views(ops: Iterable[TopOperation]) -> bool:
    return all(op.is_view for op in ops)
