"""Layers as one program: what the next layer loads before the one before it has ended.

    ahead     weights of the first chunks; micro-operations, biases,   queue that loads
              factors and tables that are prefetched
    head      of these, what is not                                    queue that computes
    barrier   all that the layer before made is stored
    rest      everything else

Constants do not depend on the layer before. They are loaded while it ends, where they lie next to
what it still uses: the queue that loads runs ahead of all; the queue that computes has nothing
before them but its own instructions, and only stores still read sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from explorer.npu.program.compiling import LOAD, Tiled
from explorer.npu.program.heads import (
    Bytes,
    computing_loads,
    constants_begin,
    cost_of,
    has_tokens,
    head_of,
    is_constant,
    loaded_bytes,
    meets,
)
from explorer.npu.program.micro_operations import MICRO, moved_micro_operations
from explorer.npu.program.partition import TiledPieces
from explorer.npu.program.stream import Stream, barrier
from explorer.npu.tiling.scratchpads import Region
from explorer.targets.npu.formats import prefetches
from explorer.targets.npu.instructions import Finish, Instruction, Load
from explorer.targets.npu.machine import Machine

MAX_SHARED = 6
"""Constants of which every part is tried; a layer has three or four."""
STORED = ("sums", "results")
"""Regions that stores read."""


@dataclass(frozen=True, kw_only=True)
class Before:
    """What of the scratchpads the layer before uses while it ends."""

    touched: tuple[Bytes, ...]
    stored: tuple[Bytes, ...]
    idle_cycles: int
    """How long it still runs when its last load has ended."""
    spare_cycles: int = 0
    """How much longer another queue works than the one that loads."""
    tail_cycles: int
    """How long its last stores take, while nothing else is left to do."""
    is_prefetched: bool = True
    """Whether the queue that loads may take loads from the one that computes."""

    @property
    def plain(self) -> Self:
        """The same where it may not."""
        return replace(self, idle_cycles=self.spare_cycles, is_prefetched=False)


def used_by(tiled: Tiled, others: Sequence[Bytes] = ()) -> Before:
    """What a layer in such tiles uses; `others`: of these, what is no buffer of a tile."""
    machine = tiled.machine
    parts = tiled.tiled if isinstance(tiled, TiledPieces) else (tiled,)
    touched, stored = list(others), list[Bytes]()
    for part in parts:
        for name, regions in part.regions:
            mine = [_bytes_of(region, machine) for region in regions]
            touched += mine
            stored += mine if name in STORED else []
    return Before(
        touched=tuple(touched), stored=tuple(stored), idle_cycles=0, tail_cycles=0
    )  # fmt: skip


def _bytes_of(region: Region, machine: Machine) -> Bytes:
    space = machine.by_content[region.content]
    begin = region.address * space.element_bytes
    return space.memory, begin, begin + region.elements * space.element_bytes


def joined(
    stream: Stream, before: Before | None, is_last: bool, has_plain: bool = False
) -> list[tuple[list[Instruction], list[int]]]:
    """The instructions of a written layer in a program of several, and the owner of each;
    `before`: None of the first layer. Only the last one ends the program. `has_plain`: also without
    prefetched constants, where that is another program; what both have are the same objects."""
    instructions, owners = list(stream.instructions), list(stream.owners)
    if before is not None and stream.opening >= 0:  # the barrier takes its place
        del instructions[stream.opening : stream.opening + 2]
        del owners[stream.opening : stream.opening + 2]
    if not is_last:
        assert isinstance(instructions.pop(), Finish)
        owners.pop()
    if before is None:
        return [(instructions, owners)]
    instructions = moved_micro_operations(instructions, _micro_begin(stream, instructions, before))
    found = [_with_head(stream, instructions, owners, before)]
    if has_plain:
        plain = _with_head(stream, instructions, owners, before.plain)
        found += [plain] if plain[0] != found[0][0] else []
    return found


def _with_head(
    stream: Stream, instructions: Sequence[Instruction], owners: Sequence[int], before: Before
) -> tuple[list[Instruction], list[int]]:
    """In the order of a program in which a layer is before."""
    instructions = list(instructions)
    ahead, fetched = _ahead(stream, instructions, before)
    head = head_of(stream, instructions, before.tail_cycles, before.stored)
    early = [*ahead, *(index for index in head if index not in fetched)]
    for index in fetched:
        op = instructions[index]
        assert isinstance(op, Load)
        is_last_one = index == fetched[-1]
        instructions[index] = replace(op, prefetch=True, push_after=is_last_one)
    chosen = set(early)
    order = [*early, -1, *(i for i in range(len(instructions)) if i not in chosen)]
    found: list[Instruction] = []
    kept: list[int] = []
    for index in order:
        mine = barrier(bool(fetched)) if index < 0 else [instructions[index]]
        found += mine
        kept += [-1 if index < 0 else owners[index]] * len(mine)
    return found, kept


def _micro_begin(stream: Stream, instructions: Sequence[Instruction], before: Before) -> int:
    """Where micro-operations begin in their scratchpad, so that they lie next to what the layer
    before uses; 0 where they have no such place, or begin anew."""
    loads = [op for op in instructions if isinstance(op, Load) and op.memory == MICRO and op.x_size]
    if sum(not op.scratchpad_address for op in loads) != 1:
        return 0
    space = stream.machine.by_content[MICRO]
    each, size = space.element_bytes, max(op.scratchpad_address + op.x_size for op in loads)
    ends = [-(-end // each) for memory, _, end in before.touched if memory == space.memory]
    for begin in (0, *sorted(ends)):
        mine = space.memory, begin * each, (begin + size) * each
        if begin + size <= stream.micro_depth and not meets(mine, before.touched):
            return begin
    return 0


def _ahead(
    stream: Stream, instructions: Sequence[Instruction], before: Before
) -> tuple[list[int], list[int]]:
    """What the queue that loads brings before anything is waited for, and what of it is
    prefetched: the first weights in any case, then what the queue that computes would load, then
    other weights, as long as the layer before runs."""
    machine = stream.machine
    weights = _weights_ahead(stream, instructions, before)
    first = sum(cost_of(op, machine)[1] for _, op in weights[:1])
    fetched = _prefetched(stream, instructions, before, first)
    cycles = first + sum(cost for _, cost in fetched)
    others: list[int] = []
    for index, op in weights[1:]:
        cycles += cost_of(op, machine)[1]
        if cycles > before.idle_cycles:
            break
        others.append(index)
    mine = [index for index, _ in fetched]
    return [*(index for index, _ in weights[:1]), *mine, *others], mine


def _prefetched(
    stream: Stream, instructions: Sequence[Instruction], before: Before, first: int
) -> list[tuple[int, int]]:
    """Constants, with their cycles, that the queue that loads brings for the one that computes,
    after weights that take `first` cycles. Where another channel is free, the two queues share
    them so that the later one has them early; else one takes the channel from the other."""
    machine = stream.machine
    if not prefetches(machine) or not before.is_prefetched:
        return []
    found: list[tuple[int, int]] = []
    left, is_alone = 0, True
    for index, op in computing_loads(stream, instructions):
        engine, cycles = cost_of(op, machine)
        is_alone = is_alone and machine.dma_engines[engine].channels == 1
        if meets(loaded_bytes(op, machine), before.touched):
            left += cycles
        else:
            found.append((index, cycles))
    if is_alone:
        return found

    def late(chosen: Sequence[tuple[int, int]]) -> int:
        mine = sum(cycles for _, cycles in chosen)
        others = left + sum(cycles for _, cycles in found) - mine
        return max(0, first + mine - before.idle_cycles, others - before.tail_cycles)

    tried = [
        chosen
        for size in range(len(found), -1, -1)
        for chosen in itertools.combinations(found[:MAX_SHARED], size)
    ]
    return list(min(tried, key=late))


def _weights_ahead(
    stream: Stream, instructions: Sequence[Instruction], before: Before
) -> list[tuple[int, Load]]:
    """Constants that the queue that loads may bring ahead: until something waits or lies where the
    layer before uses the scratchpad."""
    machine, begin = stream.machine, constants_begin(stream)
    found: list[tuple[int, Load]] = []
    for index, op in enumerate(instructions):
        if not isinstance(op, Load) or machine.queue_of(op.memory, True) != LOAD:
            continue
        if op.pop_before or op.pop_after or not op.x_size:
            break
        if not is_constant(op, begin, machine) or has_tokens(op):
            continue
        if meets(loaded_bytes(op, machine), before.touched):
            break
        found.append((index, op))
    return found
