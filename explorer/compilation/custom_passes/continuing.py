"""Text edited by hand: a compilation goes on from a program that a person wrote.

    import, fold-constants, ..., fuse-activation (as edited), legalize, ...

What led to the edit stays as it was; forks change what comes after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.accuracy.execution import execute_compiled
from explorer.errors import InputError
from explorer.importers import read_meanings
from explorer.ir.functions.calls import device_functions
from explorer.ir.inspection.printing import parse
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.passes import Pass, PassResult
from explorer.memory.planning import MEMORY, PLANS, PlanMemory, plan_as_written, plans_of
from explorer.memory.sharing import share_arena


@dataclass(frozen=True, eq=False)
class HandEdit:
    """The results up to and with the edited one, and what made them."""

    results: tuple[PassResult, ...]
    """The import first; the last one holds the edited program."""
    pipeline: tuple[Pass, ...]
    """The passes of these results, without the import."""
    decisions: Mapping[str, object]
    """Overrides of these passes."""

    @property
    def after(self) -> str:
        return self.results[-1].name

    def require_kept(self, pipeline: Sequence[Pass], decisions: Mapping[str, object]) -> None:
        """InputError where settings ask for something else before the edit."""
        count = len(self.pipeline)
        for mine, theirs in zip(self.pipeline, pipeline[:count], strict=False):
            if mine != theirs:
                raise self._too_late(f"{mine.name} would change")
        if len(pipeline) < count:
            raise self._too_late("passes would be missing")
        names = {p.name for p in self.pipeline}
        for address in dict.fromkeys([*decisions, *self.decisions]):
            is_before = address.split("/", 1)[0] in names
            if is_before and decisions.get(address) != self.decisions.get(address):
                raise self._too_late(f"{address} would change")

    def _too_late(self, what: str) -> InputError:
        return InputError(
            f"the program after {self.after} was edited by hand, so that what comes before it "
            f"stays as it is: {what}",
            hint="fork the compilation as it was before the edit, and edit that",
        )


def edit_by_hand(
    results: Sequence[PassResult],
    pipeline: Sequence[Pass],
    decisions: Mapping[str, object],
    result: PassResult,
    text: str,
) -> HandEdit:
    """The text in the place of what a pass made. ModelError where it is no IR.

    What the pass made besides the IR stays as it was; addresses are those in the text.
    """
    index = next((i for i, other in enumerate(results) if other is result), None)
    if index is None:
        raise InputError(
            f"this result of {result.name} belongs to another compilation",
            hint="name the pass: continue_from('" + result.name + "', text)",
        )
    module = parse(text)
    read_meanings(module)
    execute = result.after.execute_compiled or execute_compiled
    edited = Snapshot(module, result.after.weights, result.after.level, execute)
    artifacts = dict(result.artifacts)
    if MEMORY in artifacts and edited.level == PlanMemory.level:
        plans = plans_of(artifacts, result.after.program)
        written = {f.sym_name.data: f for f in device_functions(module)}
        if missing := [name for name in plans if name not in written]:
            raise InputError(
                f"the edited text has no function {missing[0]}",
                hint=f"functions on devices keep their names: {', '.join(plans)}",
            )
        again = {
            name: plan_as_written(written[name], edited.kernels, plan)
            for name, plan in plans.items()
        }
        artifacts[MEMORY], artifacts[PLANS] = share_arena(again), again
    last = PassResult(
        name=result.name,
        description=f"{result.description} (edited by hand)",
        before=result.before,
        after=edited,
        rewrites=(),
        seconds=0.0,
        recording_seconds=0.0,
        names=result.names.including(module),
        artifacts=artifacts,
    )
    before = tuple(pipeline[:index])
    names = {p.name for p in before}
    kept = {a: v for a, v in decisions.items() if a.split("/", 1)[0] in names}
    return HandEdit((*results[:index], last), before, kept)
