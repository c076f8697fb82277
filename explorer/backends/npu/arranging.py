"""Arguments and results that a program only moves: the host writes and reads them as they lie.

    %1 = top.transpose(%x) {permutation = [0, 3, 1, 2]}
    %conv1 = top.conv(%1, ...)
 => %1 = npu.permute(%x) {permutation = [0, 3, 1, 2]}         a view: these are the bytes

The host copies an argument into global memory number by number in any case, and a result out of it:
what is transposed last is read so. Views may lie between the two, and reshapes next to them are
views, too. An argument that other operations read keeps its layers, and so does a result that
layers read as it is, and what layers read through where these take fewer cycles so. A result that
layers read through, as a product reads a picture flattened, is transposed for them apart:

    %2 = top.transpose(%conv1) {permutation = [0, 2, 3, 1]}
    top.matmul(top.reshape(%2), ...), top.return(%2)
 => %2.read = top.transpose(%conv1) ...       the product takes the numbers from where they lie
    top.matmul(top.reshape(%2.read), ...), top.return(npu.permute(%conv1) ...)

`arrange-inputs/permute/transpose1` is "host" or "none".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from explorer.backends.npu.lowered import LoweredLayers
from explorer.errors import InputError
from explorer.ir.dialects.npu import PermuteOp
from explorer.ir.dialects.npu_arranged import readers_through_views
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import TopOperation, identity_of, set_identity
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import value_name
from explorer.ir.top.data import ReturnOp, TransferOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.weights import Weights
from explorer.npu.layers.arrangement import is_view_by_host, is_written_by_host
from explorer.npu.layers.computed_matrices import is_read_as_matrix
from explorer.npu.layers.fusion import is_read_through, needs_moved, readers_of, stays
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.value_layout import width_problem
from explorer.npu.program.addresses import ANYWHERE
from explorer.results import Knob
from explorer.results.decisions import ARRANGED
from explorer.targets.npu.machine import Machine

RULE, BY_HOST, NONE = "permute", "host", "none"
EXPLANATION = "layer(transpose(x))   =>   layer(x): the host writes x with its axes in that order"
EXPLANATION_OF_RESULT = (
    "transpose(layer(x))   =>   layer(x): the host reads the result with its axes in that order"
)


@dataclass(frozen=True)
class ArrangeInputs(Pass):
    """Transpositions of arguments and of results become views: the host writes or reads the
    numbers in that order."""

    machine: Machine
    lowered: LoweredLayers = field(compare=False, repr=False)

    name = ARRANGED

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        for function in functions_on(rewriter.module, self.machine.name):
            for op in _candidates(function):
                explanation = EXPLANATION if moves_argument(op) else EXPLANATION_OF_RESULT
                address = events.address(RULE, op)
                reason = self._reason(op, function, rewriter, options.decision(address), address)
                choices = (NONE,) if _problem_of_place(op) else (NONE, BY_HOST)
                chosen = NONE if reason else BY_HOST
                knobs.append(Knob(address, chosen, choices, reason or explanation))
                if reason:
                    events.decline(RULE, op, reason, explanation)
                    continue
                with events.rewrite(RULE, op, explanation):
                    permute(op, rewriter)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites

    def _reason(
        self, op: TransposeOp, function: func.FuncOp, rewriter: RecordedRewriter, asked: object,
        address: str,
    ) -> str:  # fmt: skip
        """Why it stays as it is."""
        reason = _problem_of_place(op) or width_problem(op.input, self.machine)
        if asked in (False, NONE):
            reason = reason or OVERRIDDEN
            if reason is OVERRIDDEN and (problem := self._problem(op, rewriter.weights)):
                raise InputError(
                    f"{address} cannot be {asked!r}: {self.machine.name} has no layers for "
                    f"{identity_of(op)} ({problem})"
                )
            return reason
        if asked in (True, BY_HOST):
            if reason:
                raise InputError(f"{address} cannot be {asked!r}: {reason}")
            return ""
        if asked is not None:
            raise InputError(f"{address} cannot be {asked!r}", hint=f"legal are {NONE}, {BY_HOST}")
        return reason or self._more(op, function, rewriter)

    def _problem(self, op: TransposeOp, weights: Weights) -> str:
        """Why the machine has no layers for it; empty where it has, or others read through it."""
        if is_read_through(op):
            return ""
        try:
            return next((one.problem for one in self.lowered.of(op, weights) if one.problem), "")
        except LayerError as error:
            return error.message

    def _more(self, op: TransposeOp, function: func.FuncOp, rewriter: RecordedRewriter) -> str:
        """How many cycles more all layers take by themselves without it, and without those that
        move the same numbers further; empty where they do not. None are compared where it has a
        layer of its own, which is saved."""
        maker = op.input.owner
        is_through = isinstance(maker, TopOperation) and is_read_through(maker)
        if not is_read_through(op) and not is_through:
            return ""
        try:
            before = self._cycles(function, rewriter.weights)
        except LayerError:
            return ""
        trial = copy_operation(function)
        tried = RecordedRewriter(ModuleOp([trial]), rewriter.weights, rewriter.names.copy())
        same = next(one for one in trial.body.block.ops if identity_of(one) == identity_of(op))
        assert isinstance(same, TransposeOp)
        for one in [same, *_next_in_row(same)]:
            permute(one, tried)
        try:
            after = self._cycles(trial, rewriter.weights)
        except LayerError as error:
            return f"what reads it has no layers then: {error.message}"
        more = after - before
        return f"layers that read through it would take {more:,} cycles more" if more > 0 else ""

    def _cycles(self, function: func.FuncOp, weights: Weights) -> int:
        total = 0
        for op in function.body.block.ops:
            if not isinstance(op, TopOperation) or stays(op) or is_read_through(op):
                continue
            for one in self.lowered.of(op, weights):
                if one.found is None:
                    raise LayerError(one.problem)
                total += self.lowered.streams.cycles(one.found.tiled, ANYWHERE)
        return total


def _candidates(function: func.FuncOp) -> Iterator[TransposeOp]:
    """Those of arguments from the first one on, then those of results from the last one on: each is
    a view by the time that the next one is looked at."""
    ops = [op for op in function.body.block.ops if isinstance(op, TransposeOp)]
    rest = dict.fromkeys(ops)
    for op in ops:
        if moves_argument(op):
            del rest[op]
            if not stays(op):
                yield op
    for op in reversed(rest):
        if not stays(op) and is_returned(op):
            yield op


def _next_in_row(op: TransposeOp) -> list[TransposeOp]:
    """The transpositions that only views lie between: after it where it moves an argument, else
    before it."""
    found: list[TransposeOp] = []
    one: Operation = op
    is_forward = moves_argument(op)
    while True:
        value = one.results[0] if is_forward else one.operands[0]
        if not value.has_one_use():
            return found
        after = next(use.operation for use in value.uses) if is_forward else value.owner
        is_moved = isinstance(after, TransposeOp) or (
            isinstance(after, Operation) and is_view_by_host(after)
        )
        if not is_moved:
            return found
        assert isinstance(after, Operation)
        one = after
        if isinstance(one, TransposeOp):
            found.append(one)


def permute(op: TransposeOp, rewriter: RecordedRewriter) -> None:
    if apart := [] if moves_argument(op) else _users_through(op):
        copy = TransposeOp.make([op.input], permutation=op.get("permutation"))
        rewriter.insert_before(op, copy, stem=f"{identity_of(op)}.read", like=op)
        for use in [use for use in op.output.uses if use.operation in apart]:
            rewriter.set_operand(use.operation, use.index, copy.output)
    made = PermuteOp.make([op.input], permutation=op.get("permutation"))
    set_identity(made, identity_of(op))
    rewriter.replace(op, made)


def moves_argument(op: TransposeOp) -> bool:
    """Whether an argument of its function is transposed, perhaps after views."""
    value = op.input
    while isinstance(value.owner, Operation) and is_view_by_host(value.owner):
        value = value.owner.operands[0]
    return not isinstance(value.owner, Operation)


def is_returned(op: Operation) -> bool:
    """Whether it, or what is moved of it, is a result of the function."""
    users = [use.operation for result in op.results for use in result.uses]
    return any(
        isinstance(user, ReturnOp)
        or ((isinstance(user, TransposeOp) or is_view_by_host(user)) and is_returned(user))
        for user in users
    )


def _problem_of_place(op: TransposeOp) -> str:
    """Why the host neither writes nor reads what is transposed in that order."""
    if moves_argument(op):
        return problem_of_argument(op)
    through = _users_through(op)
    users = [use.operation for use in op.output.uses if use.operation not in through]
    others = dict.fromkeys(identity_of(one) for user in users for one in _readers(user))
    return f"its result is read as it is by {', '.join(others)}" if others else ""


def _users_through(op: TransposeOp) -> list[Operation]:
    """What reads a result, and becomes part of layers that read what is transposed."""
    users = dict.fromkeys(use.operation for use in op.output.uses)
    return [
        user
        for user in users
        if _readers(user) and not is_returned(user) and not needs_moved(user, op)
    ]


def _readers(user: Operation) -> list[Operation]:
    """An operation, or what reads it where it is a view; none where that is returned alone."""
    if isinstance(user, TopOperation) and user.is_view:
        return readers_through_views(user)
    return [] if isinstance(user, ReturnOp) else [user]


def problem_of_argument(
    op: TransposeOp,
    is_given: Callable[[TransposeOp], bool] = lambda op: is_written_by_host(op.input),
) -> str:
    """Why the host cannot write what is transposed in that order; empty where it can.

    is_given: whether the host writes what it reads, or what that is a view of, for it alone.
    """
    if is_read_as_matrix(op):
        return "products take the matrix as it was"
    readers = [use.operation for use in op.output.uses]
    if not any(_computes(reader) for reader in readers):
        return "no layer reads it"
    if is_given(op):
        return ""
    value: SSAValue = op.input
    while value.has_one_use() and isinstance(value.owner, Operation):
        value = value.owner.operands[0]
    others = [name for name in _reader_names(value) if name != identity_of(op)]
    return f"{value_name(value)} is read by {', '.join(others)}, too, and written once"


def _computes(op: Operation) -> bool:
    """Whether it, or what reads it through views, is more than a view of its operand."""
    if isinstance(op, ReturnOp | TransferOp):
        return False
    if isinstance(op, TransposeOp) or is_view_by_host(op):
        return any(_computes(use.operation) for r in op.results for use in r.uses)
    return True


def _reader_names(value: SSAValue) -> tuple[str, ...]:
    owner = value.owner
    if isinstance(owner, TopOperation):
        return readers_of(owner)
    return tuple(dict.fromkeys(identity_of(use.operation) for use in value.uses))


__all__ = ["ArrangeInputs", "moves_argument", "problem_of_argument"]
