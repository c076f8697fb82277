"""Phases: the parallel sections of a kernel, run one after another with a barrier between.

affine.for %ot = 0 to 4 {parallel}            one phase of 4 * 56 + 4 * 7 tasks when the two
  affine.for %i = 0 to 56 {parallel} ...  ->  nests touch different elements, else two phases
affine.for %ot_tail = 0 to 4 {parallel}       of 224 and 28 tasks
  affine.for %i_tail = 0 to 7 {parallel} ...
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import affine, func
from xdsl.ir import Operation

from explorer.kernels.loops.nest import body_of, extent_of, kind_of
from explorer.kernels.steps.dependences import nests_are_independent
from explorer.kernels.steps.groups import has_items


@dataclass(frozen=True)
class PhaseNest:
    """A top-level loop nest inside a phase."""

    operation: Operation
    """The outermost loop (or a top-level operation that is no loop)."""
    parallel: tuple[affine.ForOp, ...]
    """Its leading loops that are marked parallel, the outermost first; may be empty."""
    first_task: int
    """Task number of its first iteration within the phase."""
    tasks: int
    """Product of the extents of `parallel`; 1 if there are none."""

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(extent_of(loop) for loop in self.parallel)


@dataclass(frozen=True)
class Phase:
    """Nests whose tasks may run in any order and at the same time."""

    nests: tuple[PhaseNest, ...]

    @property
    def tasks(self) -> int:
        return sum(nest.tasks for nest in self.nests)


def phases(function: func.FuncOp) -> list[Phase]:
    """The phases of a scheduled (or textbook) kernel in the order in which they run.

    Consecutive nests share a phase when none writes what another one reads or writes. One whose
    tasks are work-groups is a phase of its own: its groups have a size of their own, no other
    nest's tiles take local memory from it, and no barrier stands in a branch.
    """
    groups: list[list[Operation]] = []
    for operation in function.body.block.ops:
        if not isinstance(operation, affine.ForOp):
            continue
        neighbours = groups[-1] if groups else []
        stands_alone = any(has_items(nest) for nest in (*neighbours[:1], operation))
        if (
            neighbours
            and not stands_alone
            and all(nests_are_independent(other, operation) for other in neighbours)
        ):
            groups[-1].append(operation)
        else:
            groups.append([operation])
    return [_phase(group) for group in groups]


def leading_parallel_loops(operation: Operation) -> tuple[affine.ForOp, ...]:
    """The loops from the top inwards that are marked parallel and hold only the next one."""
    found: list[affine.ForOp] = []
    current: Operation | None = operation
    while isinstance(current, affine.ForOp) and kind_of(current) == "parallel":
        found.append(current)
        body = body_of(current)
        current = body[0] if len(body) == 1 else None
    return tuple(found)


def _phase(operations: list[Operation]) -> Phase:
    nests: list[PhaseNest] = []
    first_task = 0
    for operation in operations:
        parallel = leading_parallel_loops(operation)
        tasks = prod(extent_of(loop) for loop in parallel)
        nests.append(PhaseNest(operation, parallel, first_task, tasks))
        first_task += tasks
    return Phase(tuple(nests))
