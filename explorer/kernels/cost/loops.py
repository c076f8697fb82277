"""What the cost model says of single loops: cycles of one iteration, and how often there is one.

    for c: for p: for q:                     LoopCost(names=("c", "p", "q"), iterations=9,
      for j (unrolled): for ov (unrolled):     cycles=8.4, bound="arithmetic", multiply_adds=16)
        acc[j][ov] += x[..] * w[..]      ->

Loops stand in the order in which they are printed, so that the n-th one of a kernel is the n-th
`for` of its source that is not unrolled. The loop over a section's tasks is the first of a section.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import affine, arith, func, math

from explorer.ir.loop_dialect import DotOp, DotPairsOp, DotUnsignedOp, DualProductsOp
from explorer.ir.structure import walk_inside
from explorer.kernels.cost.counting import (
    OVERLAPPING,
    Counts,
    count_bodies,
    extent_or_guess,
    flattened,
    is_fused,
    repeats_of,
)
from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.loops.nest import enclosing_loops, kind_of, name_of
from explorer.kernels.sections.phases import Phase, PhaseNest, phases

TASK = "task"
DUAL_INSTRUCTIONS = 2
"""Of four products of bytes (`loop.dual_products`)."""
"""What the loop over a section's tasks is called."""


@dataclass(frozen=True)
class LoopCost:
    """A loop that is not unrolled; figures are of one iteration with the loops inside of it."""

    names: tuple[str, ...]
    """Of the loops around it, the outermost first, and its own; unrolled ones are left out."""
    iterations: int
    """Of all tasks of a launch together."""
    cycles: float
    bound: str
    """What takes longest in its own body: arithmetic, loads, stores, issue, latency or spills."""
    multiply_adds: float
    """Instructions that multiply and add."""
    arithmetic: float
    """All that compute, those among them."""
    stores: float
    has_branches: bool = False
    """Whether one iteration does other things than another: tasks of several nests."""


def loop_costs(function: func.FuncOp, machine: CostMachine) -> tuple[LoopCost, ...]:
    """Every loop of a scheduled kernel in the order of its source."""
    return tuple(cost for phase in phases(function) for cost in _phase_costs(phase, machine))


def _phase_costs(phase: Phase, machine: CostMachine) -> list[LoopCost]:
    inside: list[LoopCost] = []
    tasks: list[LoopCost] = []
    has_tasks = phase.tasks != 1 or bool(phase.nests[0].parallel)
    for nest in phase.nests:
        reader = _Reader(nest, machine, (TASK,) if has_tasks else ())
        if nest.parallel:
            tasks.append(reader.cost(nest.parallel[-1]))
        inside += reader.printed_loops()
    if not has_tasks:
        return inside
    both = [cost.iterations * cost.cycles for cost in tasks]
    if not both:  # a nest that is a task as a whole
        task = LoopCost(
            names=(TASK,),
            iterations=1,
            cycles=0.0,
            bound="arithmetic",
            multiply_adds=0,
            arithmetic=0,
            stores=0,
            has_branches=True,
        )
        return [task, *inside]
    first = tasks[both.index(max(both))]
    several = len(phase.nests) > 1
    return [LoopCost(**{**vars(first), "has_branches": several}), *inside]


class _Reader:
    """Costs of the loops of one nest."""

    def __init__(self, nest: PhaseNest, machine: CostMachine, prefix: tuple[str, ...]):
        self.nest = nest
        self.prefix = prefix
        self.tasks = set(nest.parallel)
        self.bodies = count_bodies(nest.operation, machine)

    def printed_loops(self) -> list[LoopCost]:
        loops = [op for op in walk_inside(self.nest.operation) if isinstance(op, affine.ForOp)]
        return [self.cost(op) for op in loops if op in self.bodies and op not in self.tasks]

    def cost(self, loop: affine.ForOp) -> LoopCost:
        own = _iterations(loop)
        inside = [op for op in walk_inside(loop) if isinstance(op, affine.ForOp)]
        bodies = [
            (self.bodies[op], _iterations(op) / own, op) for op in inside if op in self.bodies
        ]
        around = [*enclosing_loops(loop), loop]
        shown = [other for other in around if other not in self.tasks]
        return LoopCost(
            names=(*self.prefix, *(name_of(op) for op in shown if kind_of(op) != "unroll")),
            iterations=own,
            cycles=sum(counts.busy * times for counts, times, _ in bodies),
            bound=_bound(self.bodies[loop]),
            multiply_adds=sum(_multiply_adds(op) * times for _, times, op in bodies),
            arithmetic=sum(c.instructions["arithmetic"] * times for c, times, _ in bodies),
            stores=sum(c.instructions["stores"] * times for c, times, _ in bodies),
        )


def _iterations(loop: affine.ForOp) -> int:
    return prod(extent_or_guess(other) for other in (*enclosing_loops(loop), loop))


def _bound(counts: Counts) -> str:
    longest = max(OVERLAPPING, key=lambda name: counts.cycles[name])
    return "spills" if counts.cycles["spills"] > counts.cycles[longest] else longest


def _multiply_adds(loop: affine.ForOp) -> int:
    """Of the loop's own body."""
    total = 0
    for op, inside in flattened(list(loop.body.block.ops), []):
        if isinstance(op, arith.MulfOp) and is_fused(op):
            (use,) = op.result.uses
            total += repeats_of(use.operation, inside)
        elif isinstance(op, DotOp | DotPairsOp | DotUnsignedOp | math.FmaOp):
            total += repeats_of(op, inside)
        elif isinstance(op, DualProductsOp):
            total += DUAL_INSTRUCTIONS * repeats_of(op, inside)
    return total
