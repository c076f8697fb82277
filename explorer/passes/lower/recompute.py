"""Cheap operations are computed again where they are read late, instead of living until then.

    %a = top.unary(%x) {kind = "exp"}            %a = top.unary(%x) {kind = "exp"}
    %b = top.conv(%a) ...                        %b = top.conv(%a) ...
    ...                                     =>   ...
    %y = top.binary(%a, %z)                      %a1 = top.unary(%x) {kind = "exp"}
                                                 %y = top.binary(%a1, %z)

%a takes no memory between its readers then; what it is made of has to live instead, which pays
where that is smaller, or lives all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.errors import InputError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origins_of, set_origins
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import own_functions
from explorer.ir.top.data import ReturnOp, TransferOp, WeightOp
from explorer.results import Knob

AGAIN = "again"
ONCE = "each value is computed once; a budget asks for more where memory is short"
WHY = "computed again before each later reader, so that it takes no memory in between"


@dataclass(frozen=True)
class Recompute(Pass):
    """Cheap operations are computed again for late readers, so that their results live shortly.

    The decision recompute/again/VALUE, true or false, is whether a value is. Without it nothing
    changes.
    """

    name = "recompute"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        for function in own_functions(rewriter.module):
            for op in list(function.body.block.ops):
                if not isinstance(op, TopOperation):
                    continue
                address = events.address(AGAIN, op)
                asked = options.decision(address)
                reason = why_not_again(op)
                if asked is True and reason:
                    raise InputError(f"{address} cannot be true: {reason}")
                if reason:
                    continue
                knobs.append(Knob(address, asked is True, (True, False), WHY if asked else ONCE))
                if asked is True:
                    with events.rewrite(AGAIN, op, WHY):
                        _compute_again(op, rewriter)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites


def why_not_again(op: TopOperation) -> str:
    """Why an operation is not computed again; empty where it may be."""
    if isinstance(op, WeightOp | ReturnOp | TransferOp) or op.parts() or op.regions:
        return f"{identity_of(op)} is no operation that a kernel runs"
    if len(op.results) != 1:
        return f"{identity_of(op)} has several results"
    if op.macs():
        return f"{identity_of(op)} multiplies: it is not cheap"
    readers = _readers_of(op)
    if len(readers) < 2:
        return f"only one operation reads {identity_of(op)}"
    if any(isinstance(reader, ReturnOp) or reader.parts() for reader in readers):
        return f"{identity_of(op)} is returned, or read as a part of a buffer"
    return ""


def _readers_of(op: TopOperation) -> set[TopOperation]:
    """The operations of its block that read its result. Asks no other operation of the block."""
    users = (use.operation for use in op.results[0].uses)
    return {user for user in users if isinstance(user, TopOperation) and user.parent is op.parent}


def _compute_again(op: TopOperation, rewriter: RecordedRewriter) -> None:
    block, readers = op.parent, _readers_of(op)
    assert block is not None
    for reader in [o for o in block.ops if o in readers][1:]:
        again = op.with_operands(op.operands)
        set_origins(again, origins_of(op))
        rewriter.insert_before(reader, again, stem=identity_of(op).rstrip("0123456789"), like=op)
        result = rewriter.set_type(again.results[0], op.results[0].type)
        for index, operand in enumerate(reader.operands):
            if operand is op.results[0]:
                rewriter.set_operand(reader, index, result)
