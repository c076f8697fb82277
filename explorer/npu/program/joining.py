"""Layers as one program: what the next layer loads before the one before it has ended.

    ahead     weights of the first chunks                              queue that loads
    head      micro-operations, biases, factors, tables                queue that computes
    barrier   all that the layer before made is stored
    rest      everything else

Constants do not depend on the layer before. They are loaded while it ends, where they lie next to
what it still uses: the queue that computes has nothing before them but its own instructions, and
only stores still read sums; the queue that loads runs ahead of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.npu.program.compiling import LOAD, Tiled
from explorer.npu.program.heads import (
    Bytes,
    constants_begin,
    cost_of,
    has_tokens,
    head_of,
    is_constant,
    loaded_bytes,
    meets,
)
from explorer.npu.program.partition import TiledPieces
from explorer.npu.program.stream import Stream, barrier
from explorer.npu.tiling.scratchpads import Region
from explorer.targets.npu.instructions import Finish, Instruction, Load
from explorer.targets.npu.machine import Machine

STORED = ("sums", "results")
"""Regions that stores read."""


@dataclass(frozen=True, kw_only=True)
class Before:
    """What of the scratchpads the layer before uses while it ends."""

    touched: tuple[Bytes, ...]
    stored: tuple[Bytes, ...]
    idle_cycles: int
    """How much longer another queue works than the one that loads."""
    tail_cycles: int
    """How long its last stores take, while nothing else is left to do."""


def used_by(
    tiled: Tiled, idle_cycles: int = 0, tail_cycles: int = 0, kept: Sequence[Bytes] = ()
) -> Before:
    """What a layer in such tiles uses; `kept`: its tensors on the chip."""
    machine = tiled.machine
    parts = tiled.tiled if isinstance(tiled, TiledPieces) else (tiled,)
    touched, stored = list(kept), list[Bytes]()
    for part in parts:
        for name, regions in part.regions:
            mine = [_bytes_of(region, machine) for region in regions]
            touched += mine
            stored += mine if name in STORED else []
    return Before(touched=tuple(touched), stored=tuple(stored), idle_cycles=idle_cycles,
                  tail_cycles=tail_cycles)  # fmt: skip


def _bytes_of(region: Region, machine: Machine) -> Bytes:
    space = machine.by_content[region.content]
    begin = region.address * space.element_bytes
    return space.memory, begin, begin + region.elements * space.element_bytes


def joined(
    stream: Stream, before: Before | None, is_last: bool
) -> tuple[list[Instruction], list[int]]:
    """The instructions of a written layer in a program of several, and the owner of each;
    `before`: None of the first layer. Only the last one ends the program."""
    instructions, owners = list(stream.instructions), list(stream.owners)
    if before is not None and stream.opening >= 0:  # the barrier takes its place
        del instructions[stream.opening : stream.opening + 2]
        del owners[stream.opening : stream.opening + 2]
    if not is_last:
        assert isinstance(instructions.pop(), Finish)
        owners.pop()
    if before is None:
        return instructions, owners
    early = [
        *_ahead(stream, instructions, before),
        *head_of(stream, instructions, before.tail_cycles, before.stored),
    ]
    chosen = set(early)
    order = [*early, -1, *(i for i in range(len(instructions)) if i not in chosen)]
    found: list[Instruction] = []
    kept: list[int] = []
    for index in order:
        mine = barrier() if index < 0 else [instructions[index]]
        found += mine
        kept += [-1 if index < 0 else owners[index]] * len(mine)
    return found, kept


def _ahead(stream: Stream, instructions: Sequence[Instruction], before: Before) -> list[int]:
    """Weights that are loaded before anything is waited for: the first ones in any case, others as
    long as the layer before computes longer than it loads."""
    machine, begin, found = stream.machine, constants_begin(stream), list[int]()
    cycles = 0
    for index, op in enumerate(instructions):
        if not isinstance(op, Load) or machine.queue_of(op.memory, True) != LOAD:
            continue
        if op.pop_before or op.pop_after or not op.x_size:
            break
        if not is_constant(op, begin, machine) or has_tokens(op):
            continue
        cycles += cost_of(op, machine)[1]
        is_late = bool(found) and cycles > before.idle_cycles
        if is_late or meets(loaded_bytes(op, machine), before.touched):
            break
        found.append(index)
    return found
