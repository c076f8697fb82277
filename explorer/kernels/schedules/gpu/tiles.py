"""What schedules of groups with tiles in local memory have in common.

cut_pieces         whole tiles, and what they leave, as nests of their own
choose_pipeline    whether the next tiles are loaded early
finish_groups      copies divided among items, vectors, registers, groups
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from explorer.kernels.loops.nest import extent_of, name_of, perfect_chain
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.plain import contract_scratch, finish_statements
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.steps.groups import (
    LOCAL_BYTES,
    group,
    item_chain,
    items,
    local_bytes,
)
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.narrow import narrow
from explorer.kernels.steps.pipeline import MIN_ITERATIONS, pipeline
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.tensor_cores import tensor_cores
from explorer.kernels.steps.vectorize import vectorize

LANES = 4
"""Floats per access: 16 bytes, the widest that a work-item reads at once."""

LARGEST_GROUP = 256
WHY_GROUP = "work-items that share a tile in local memory"
WHY_MICRO = "sums in registers of a work-item: each value from local memory is used so often"
WHY_DEPTH = "what is summed between two barriers: its tiles fit into local memory"
WHY_PRECISION = "mixed: weights are stored in halves, products and sums are float32"
WHY_PIPELINE = "the next tiles are loaded into registers while the present ones are used"

WORTH_PIPELINING = 4
"""Tiles that a group takes one after another: of fewer, most are the first or the last one."""

MAX_PREFETCHED = 32
"""Floats of the next tiles in an item's registers, beside its sums; more would spill."""


@dataclass(frozen=True)
class TiledLoops:
    """The loops of a kernel whose groups work on tiles, by what becomes of them."""

    copies: Sequence[str]
    """Names of the nests that copy operands into local memory (`stage`)."""
    leading: Sequence[str]
    """Loops over groups."""
    over_items: Sequence[str]
    lanes: Sequence[str]
    """Loops that become vectors."""
    written_out: Sequence[str]
    pipelined: Sequence[str] = ()
    """Loops whose next tiles are loaded early."""
    matrices: Sequence[str] = ()
    """Loops over tiles that matrix instructions compute."""
    matrices_by: str = ""
    """How these are computed, as `tensor_cores` takes it."""


def finish_groups(schedule: Schedule, machine: Machine, loops: TiledLoops) -> None:
    """Vectors, items, groups, pipelines; then what is left: halos, separate epilogues."""
    nest = schedule.nest
    for name in loops.copies:
        _divide_copy(schedule, name)
    for name in loops.lanes:
        schedule.apply(vectorize, loop=name)
    schedule.apply(unroll, loops=" ".join(loops.written_out))
    schedule.apply(items, loops=" ".join(loops.over_items))
    schedule.apply(parallel, loops=" ".join(loops.leading))
    chains = [item_chain(loop) for name in loops.over_items for loop in nest.loops(name)]
    schedule.apply(group, items=max(prod(map(extent_of, chain)) for chain in chains))
    for name in loops.matrices:
        schedule.apply(tensor_cores, loop=name, by=loops.matrices_by)
    for name in loops.pipelined:
        schedule.attempt(pipeline, at=name)  # refused where no operand was worth a tile
    finish_statements(schedule, machine)
    contract_scratch(schedule)
    taken = local_bytes(nest)
    if taken > LOCAL_BYTES:
        raise nest.error("stage", f"tiles of {taken} bytes; local memory has {LOCAL_BYTES}")


def _divide_copy(schedule: Schedule, name: str) -> None:
    """A copy into local memory: all items together, by vectors where both sides are contiguous."""
    nest = schedule.nest
    chain = perfect_chain(nest.loop(f"{name}_0"))
    kept = [name_of(loop) for loop in chain]
    last, extent = kept[-1], extent_of(chain[-1])
    if extent % LANES == 0 and (extent > LANES or len(chain) > 1):
        if extent > LANES:
            into = f"{last}_step {last}_lane"
            schedule.apply(split, loop=last, into=into, factors=(LANES,))
            kept[-1:] = [f"{last}_step", f"{last}_lane"]
        if not schedule.attempt(vectorize, loop=kept[-1]):
            kept.pop()
    schedule.apply(items, loops=" ".join(kept))


def narrow_weight(
    schedule: Schedule, machine: Machine, buffer: str, choices: Choices, legal: Sequence[str]
) -> None:
    """Stores a weight in halves where mixed precision is chosen; `legal` are the precisions."""
    if schedule.nest.roles[buffer] != "weight":
        return
    own = machine.precision if machine.precision in legal else legal[0]
    if choices.word("precision", own, legal, WHY_PRECISION) == "mixed":
        schedule.apply(narrow, buffer=buffer)


def choose_pipeline(choices: Choices, tiles: int, kept: int) -> bool:
    """Whether the next tiles are loaded early: of so many, with so many floats of each item."""
    is_worth = tiles >= WORTH_PIPELINING and kept <= MAX_PREFETCHED
    legal = ("none", "registers") if tiles >= MIN_ITERATIONS else ("none",)
    why = f"{WHY_PIPELINE}: {kept} floats of every item"
    return choices.word("pipeline", "registers" if is_worth else "none", legal, why) == "registers"


def cut_pieces(
    schedule: Schedule, loop: str, others: str, suffix: str, sizes: Sequence[int], tail: str
) -> list[str]:
    """Cuts a nest into multiples of each size: what one leaves goes to the next, the last is 1.

    Returns the suffixes of the names of its parts.
    """
    parts: list[str] = []
    for size in sizes:
        extent = extent_of(schedule.nest.loop(loop + suffix))
        end = extent - extent % size
        if not end:
            continue
        parts.append(suffix)
        if end == extent:
            break
        schedule.apply(reorder, order=suffixed(f"{loop} {others}", suffix))
        schedule.apply(cut, loop=loop + suffix, at=end, suffix=tail)
        suffix += tail
    return parts


def small_divisors(number: int, limit: int) -> list[int]:
    return [d for d in divisors(max(number, 1)) if d <= limit]


def best_divisor(number: int, limit: int) -> int:
    return max(small_divisors(number, limit))


def suffixed(names: str, suffix: str) -> str:
    return " ".join(name + suffix for name in names.split())
