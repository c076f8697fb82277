"""Steps that register-tiled schedules have in common: splitting off a tile, and fusing around it.

for j: acc += ..       ->  for jt: for jp: acc += ..        14 of 56 pixels in registers
for ..: y = bias           the bias starts the sums, the activation is applied to them before
for ..: y += x * w         they are stored
for ..: y = max(y, 0)
"""

from __future__ import annotations

from explorer.kernels.cost.counting import is_function
from explorer.kernels.cost.rules import should_hold
from explorer.kernels.loops.lowering import innermost_operations
from explorer.kernels.printing.languages import language_named
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.plain import contract_scratch
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.steps.fuse import fuse_consumer, fuse_producer
from explorer.kernels.steps.registers import hold
from explorer.kernels.steps.restructure import split
from explorer.kernels.steps.settle import settle
from explorer.kernels.steps.vectorize import can_vectorize

SUMS = "acc"
"""What `accumulate` calls the registers of a tile."""
MAX_UPDATES = 256
"""Multiply-adds that are written out in one body; more only makes the program large."""


def split_or_keep(
    schedule: Schedule, loop: str, extent: int, factor: int, outer: str, inner: str
) -> tuple[list[str], list[str]]:
    """(loops over tiles, loops inside a tile); one tile needs no loop over tiles."""
    if factor == extent:
        return [], [loop]
    if factor == 1:
        return [loop], []
    schedule.apply(split, loop=loop, into=f"{outer} {inner}", factors=(factor,))
    return [outer], [inner]


def hold_vectors(
    schedule: Schedule, machine: Machine, at: str, buffer: str, points: int, vectors: int
) -> None:
    """Keeps the vectors of a tile in registers where compilers would load them at each use.

    `at`: the innermost loop of the reduction.
    """
    holds = language_named(machine.language).holds_vectors
    if holds and should_hold(points, vectors, machine.costs):
        schedule.apply(hold, at=at, buffer=buffer)


def fuse_around(
    schedule: Schedule, result: str, choices: Choices, machine: Machine | None = None
) -> None:
    """Bias into the initial tile, residual and activation into the final one.

    `machine`: where sums are in registers, for functions of them to be kept apart from them.
    """
    nest = schedule.nest
    if nest.statements("init"):
        schedule.apply(fuse_producer, statement="init", buffer=result)
    epilogues = nest.statements("epilogue")
    if not epilogues:
        return
    if all(can_vectorize(op) for op in innermost_operations(epilogues[0])):
        legal, why = ("fused", "separate"), "what follows the sums is applied in registers"
    else:
        legal, why = ("separate",), "it has no vector form, and would make the tile scalar"
    crowds = any(map(is_function, innermost_operations(epilogues[0])))
    if choices.word("epilogue", legal[0], legal, why) == "fused":
        schedule.apply(fuse_consumer, statement="epilogue", buffer=result)
        if crowds and machine and language_named(machine.language).holds_vectors:
            schedule.attempt(settle, buffer=SUMS)
    contract_scratch(schedule)
