"""Where the buffers of a layer's tiles lie in the scratchpads, as `explorer.memory` plans them.

    placed = place_buffers([Buffer(name="sums", content="accumulators", elements=98, group=1)],
                           machine)
    dict(placed)["sums"][0].address

A plan for each scratchpad, whose steps are the phases of a tile. While one tile is computed, the
next one is loaded and the one before is stored: so every buffer lives in every step, and the plan
decides where each begins, not what may lie over what.

Banks: a buffer that begins with a bank of its own is never waited for. Where there is no room for
that, those do that different queues touch at one time, and where not even that fits, buffers lie
side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.memory.planners import GreedyPlanner, Planner
from explorer.results.memory import BufferLifetime
from explorer.targets.npu.machine import Machine

PHASES = ("load", "compute", "store")
PLANNER = GreedyPlanner()


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """What is asked for."""

    name: str
    """Several may have one."""
    content: str
    elements: int
    group: int
    """Buffers of one group are touched by one queue at a time."""


@dataclass(frozen=True, kw_only=True)
class Region:
    """Room for a buffer in a scratchpad, in elements of its content."""

    content: str
    address: int
    elements: int


Regions = tuple[tuple[str, tuple[Region, ...]], ...]
"""By the name of their buffers, in the order in which these were asked for."""


def bytes_taken(buffers: Sequence[Buffer], machine: Machine) -> list[int]:
    """Of each scratchpad, at least: elements begin at multiples of their size."""
    found = [0] * len(machine.scratchpads)
    for buffer in buffers:
        space = machine.by_content[buffer.content]
        found[space.memory] += buffer.elements * space.element_bytes
    return found


def could_fit(buffers: Sequence[Buffer], machine: Machine) -> bool:
    """Whether there is a plan as far as sums of bytes tell."""
    taken = bytes_taken(buffers, machine)
    return all(n <= (m.size_bytes or 0) for n, m in zip(taken, machine.scratchpads, strict=True))


def place_buffers(
    buffers: Sequence[Buffer], machine: Machine, planner: Planner = PLANNER
) -> Regions | None:
    """None where they do not fit."""
    if not could_fit(buffers, machine):
        return None
    alone = list(range(len(buffers)))
    for groups in (alone, [buffer.group for buffer in buffers], None):
        addresses: dict[int, int] = {}
        for memory in range(len(machine.scratchpads)):
            found = _planned(buffers, machine, memory, groups, planner)
            if found is None:
                break
            addresses |= found
        else:
            return _regions(buffers, addresses)
    return None


def mirrored(regions: Regions, machine: Machine) -> Regions | None:
    """The same from the other end of every scratchpad, where elements end with it; banks that
    buffers do not share they do not share then, either."""
    found = []
    for name, mine in regions:
        moved = []
        for region in mine:
            space = machine.by_content[region.content]
            size = machine.scratchpads[space.memory].size_bytes or 0
            if size % space.element_bytes:
                return None
            address = size // space.element_bytes - region.address - region.elements
            moved.append(replace(region, address=address))
        found.append((name, tuple(moved)))
    return tuple(found)


def moved_to(regions: Regions, addresses: Mapping[str, Sequence[int]]) -> Regions:
    """The same buffers at other places, by their names."""
    return tuple(
        (
            name,
            tuple(
                replace(region, address=address)
                for region, address in zip(mine, addresses[name], strict=True)
            ),
        )
        for name, mine in regions
    )


def _regions(buffers: Sequence[Buffer], addresses: dict[int, int]) -> Regions:
    found: dict[str, list[Region]] = {}
    for index, buffer in enumerate(buffers):
        region = Region(content=buffer.content, address=addresses[index], elements=buffer.elements)
        found.setdefault(buffer.name, []).append(region)
    return tuple((name, tuple(regions)) for name, regions in found.items())


def _planned(
    buffers: Sequence[Buffer], machine: Machine, memory: int, groups: list[int] | None,
    planner: Planner,
) -> dict[int, int] | None:  # fmt: skip
    """Addresses in one scratchpad by number of the buffer; `groups`: which ones begin a bank
    together, None where none has to."""
    mine = [
        index
        for index, buffer in enumerate(buffers)
        if machine.by_content[buffer.content].memory == memory
    ]
    if not mine:
        return {}
    scratchpad = machine.scratchpads[memory]
    if scratchpad.banks < 2 or groups is None:
        together, bank_bytes = [[index] for index in mine], 0
    else:
        numbers = dict.fromkeys(groups[index] for index in mine)
        together = [[index for index in mine if groups[index] == number] for number in numbers]
        bank_bytes = (scratchpad.size_bytes or 0) // scratchpad.banks  # of all lanes
    lifetimes = [_lifetime(members, buffers, machine, bank_bytes) for members in together]
    plan = planner(lifetimes, PHASES)
    starts = {placed.buffer.id: placed.offset_bytes for placed in plan.placements}
    addresses: dict[int, int] = {}
    for members, lifetime in zip(together, lifetimes, strict=True):
        end = starts[lifetime.id]
        for index in members:
            each = machine.by_content[buffers[index].content].element_bytes
            addresses[index] = -(-end // each)
            end = (addresses[index] + buffers[index].elements) * each
            if end > (scratchpad.size_bytes or 0):
                return None
    return addresses


def _lifetime(
    members: Sequence[int], buffers: Sequence[Buffer], machine: Machine, bank_bytes: int
) -> BufferLifetime:
    """Of buffers that lie one behind the other. At a bank's beginning each may begin a little
    later, with its next whole element."""
    size, alignment = 0, bank_bytes
    for index in members:
        each = machine.by_content[buffers[index].content].element_bytes
        alignment = alignment or each
        room = each - 1 if alignment % each or size % each else 0
        size += room + buffers[index].elements * each
    names = tuple(f"{buffers[index].name} {index}" for index in members)
    return BufferLifetime(
        id=names[0], values=names, size_bytes=size, first=0, last=len(PHASES),
        alignment_bytes=alignment,
    )  # fmt: skip
