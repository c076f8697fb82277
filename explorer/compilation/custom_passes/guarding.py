"""What an inserted pass may not leave behind: invalid IR, or what nobody can follow any more.

    guard = Guard.of(rewriter)
    ... the pass ...
    guard.check("merge-relus", rewriter, rewrites)      PassError names the operation

Rules that come from outside of the package can do anything. Besides being valid, the program must
be what the recorded rewrites say (whoever changes it without the rewriter changes it unseen), its
operations must know what they come from, and what it returns must have kept its origin, without
which it could not be compared with the source model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation
from xdsl.utils.exceptions import VerifyException

from explorer.errors import PassError
from explorer.ir.operation import IDENTITY, TopOperation, identity_of
from explorer.ir.origins import origin_of, sources_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, replay
from explorer.ir.structure import OperationRecord, functions, index_operations, operations
from explorer.ir.top.data import ReturnOp


@dataclass(frozen=True)
class Guard:
    """The program before a pass."""

    index: Mapping[str, OperationRecord]
    nameless: frozenset[Operation]
    """Operations that have no identity, or no sources, and never had."""
    returned: tuple[bool, ...]
    """For everything that functions return, in order: whether it has an origin."""

    @staticmethod
    def of(rewriter: RecordedRewriter) -> Guard:
        module = rewriter.module
        nameless = frozenset(op for op in operations(module) if _why_untraced(op))
        return Guard(index_operations(module), nameless, tuple(h for _, h in _returned(module)))

    def check(
        self,
        name: str,
        rewriter: RecordedRewriter,
        rewrites: Sequence[Rewrite],
        is_recorded: bool = True,
    ) -> None:
        """PassError for the first operation that is not as it must be after pass `name`.

        is_recorded: whether `rewrites` are all that was done; a whole pass may leave some out.
        """
        module = rewriter.module
        require_valid(name, module, rewrites)
        for op in operations(module):
            reason = "" if op in self.nameless else _why_untraced(op)
            if reason:
                raise PassError(
                    f"{op.name} {reason}: it was not made through the rewriter",
                    pass_name=name,
                    operation=identity_of(op),
                    hint="rewriter.insert_before or rewriter.replace puts operations in",
                )
        if is_recorded:
            self._require_recorded(name, module, rewrites)
        returned = _returned(module)
        if len(returned) != len(self.returned):
            return
        for (value, has_origin), had_origin in zip(returned, self.returned, strict=True):
            if had_origin and not has_origin:
                after = _last_rewrite(rewrites, value)
                raise PassError(
                    f"{value}, which the program returns, has lost its origin{after}: it cannot "
                    "be compared with the source model any more",
                    pass_name=name,
                    operation=value,
                    hint="rewriter.replace keeps origins unless it is given others",
                )

    def _require_recorded(self, name: str, module: ModuleOp, rewrites: Sequence[Rewrite]) -> None:
        """The program must be the one before with the recorded rewrites."""
        expected = dict(self.index)
        for rewrite in rewrites:
            if rewrite.applied:
                expected = replay(expected, rewrite)
        present = index_operations(module)
        for identity in dict.fromkeys([*present, *expected]):
            if present.get(identity) == expected.get(identity):
                continue
            what = "was removed" if identity not in present else "was changed"
            raise PassError(
                f"{identity} {what} without the rewriter",
                pass_name=name,
                operation=identity,
                hint="rewriter.update, set_operand, replace and erase record what they do",
            )


def _why_untraced(op: Operation) -> str:
    if not op.results:
        return ""
    if IDENTITY not in op.attributes:
        return "has no identity"
    return "" if sources_of(op) else "has no source nodes"


def _returned(module: ModuleOp) -> list[tuple[str, bool]]:
    """(name of the maker, whether it has an origin) of all that functions return."""
    return [
        (identity_of(operand.owner), origin_of(operand) is not None)
        for function in functions(module)
        for op in function.body.block.ops
        if isinstance(op, ReturnOp)
        for operand in op.operands
        if isinstance(operand.owner, Operation)
    ]


def _last_rewrite(rewrites: Sequence[Rewrite], identity: str) -> str:
    """` after rule X at Y`, of the last one that made or changed the operation."""
    guilty = next((r for r in reversed(rewrites) if identity in (r.site, *r.produced)), None)
    return f" after rule {guilty.rule} at {guilty.site}" if guilty else ""


def require_valid(pass_name: str, module: ModuleOp, rewrites: Sequence[Rewrite]) -> None:
    """PassError for the first operation that is not valid, with the rule that touched it last."""
    for op in module.walk():
        reason = why_invalid(op) or _why_misplaced(op)
        if not reason:
            continue
        identity = identity_of(op)
        after = _last_rewrite(rewrites, identity)
        raise PassError(
            f"the program is not valid{after}: {reason}",
            pass_name=pass_name,
            operation=identity,
            hint="look at what the rule replaces, and where it inserts",
        )


def why_invalid(op: Operation) -> str:
    """What the operation's own verifier says against it; empty if nothing."""
    try:
        op.verify(verify_nested_ops=False)
    except (VerifyException, ValueError) as error:
        return str(error).splitlines()[0]
    return ""


def _why_misplaced(op: Operation) -> str:
    """Empty unless it reads what is made later, or returns what its function does not promise."""
    for operand in op.operands:
        maker = operand.owner
        if isinstance(operand, BlockArgument) or isinstance(maker, Block):
            continue
        reader = _ancestor_in(op, maker.parent)
        if reader is None or not maker.is_before_in_block(reader):
            return f"{_name(op)} reads {identity_of(maker)}, which is made later or elsewhere"
    function = op.parent_op()
    if isinstance(op, ReturnOp) and isinstance(function, func.FuncOp):
        promised = list(function.function_type.outputs.data)
        returned = [o.type for o in op.operands]
        if returned != promised:
            return (
                f"{function.sym_name.data} returns {', '.join(map(str, returned))}, but promises "
                f"{', '.join(map(str, promised))}"
            )
    return ""


def _ancestor_in(op: Operation, block: Block | None) -> Operation | None:
    """The operation itself, or the one around it, that stands in the block."""
    found: Operation | None = op
    while found is not None and found.parent is not block:
        found = found.parent_op()
    return found


def _name(op: Operation) -> str:
    return f"{op.name} {identity_of(op)}" if isinstance(op, TopOperation) else op.name
