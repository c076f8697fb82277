"""Constants that a layer loads before it computes: micro-operations, biases, factors, tables.

    head_of(stream, instructions, tail_cycles, stored)     their numbers, of those that may go ahead
    opened(stream)                                         with these first, and others after them

Where a DMA engine has one channel, the queue that loads would keep it for all that has room before
the queue that computes gets its first micro-operation. There, loads wait for the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from explorer.npu.program.addresses import Placed
from explorer.targets.npu.instructions import Finish, Instruction, Load, Transfer
from explorer.targets.npu.machine import Machine

COMPUTE = 1
Bytes = tuple[int, int, int]
"""A scratchpad, and the first of some of its bytes and the one after the last."""


class Written(Protocol):
    """What is asked of a stream."""

    machine: Machine
    places: Mapping[str, Placed]
    instructions: list[Instruction]
    owners: list[int]

    @property
    def constant_names(self) -> frozenset[str]: ...


def meets(one: Bytes, others: Iterable[Bytes]) -> bool:
    """Whether some bytes lie over others."""
    memory, begin, end = one
    return any(m == memory and begin < stop and start < end for m, start, stop in others)


def constants_begin(stream: Written) -> int:
    """The first byte of what never changes, which lies after all tensors."""
    names = stream.constant_names
    return min(place.offset_bytes for name, place in stream.places.items() if name in names)


def is_constant(op: Load, begin: int, machine: Machine) -> bool:
    start = op.global_address * machine.by_content[op.memory].global_bytes
    return not op.on_chip and start >= begin


def loaded_bytes(op: Load, machine: Machine) -> Bytes:
    space = machine.by_content[op.memory]
    start = op.scratchpad_address * space.element_bytes
    return space.memory, start, start + op.y_size * op.x_size * space.element_bytes


def has_tokens(op: Instruction) -> bool:
    return op.pop_before or op.pop_after or op.push_before or op.push_after


def head_of(
    stream: Written,
    instructions: Sequence[Instruction],
    tail_cycles: int,
    stored: Sequence[Bytes],
) -> list[int]:
    """Constants that the queue that computes loads before it computes: as long as the last stores
    of the layer before take, for what waits for these waits for the constants, too. One channel
    moves one thing at a time: loads of other queues would only be before them."""
    machine, found, cycles = stream.machine, list[int](), 0
    for index, op in computing_loads(stream, instructions):
        is_free = op.memory in ("micro_operations", "tables") or not meets(
            loaded_bytes(op, machine), stored
        )
        engine, mine = cost_of(op, machine)
        is_short = cycles + mine <= tail_cycles or machine.dma_engines[engine].channels == 1
        if is_free and is_short:
            cycles += mine
            found.append(index)
    return found


def computing_loads(
    stream: Written, instructions: Sequence[Instruction]
) -> Iterator[tuple[int, Load]]:
    """Constants that are loaded before anything is computed, by the queue that computes."""
    machine, begin = stream.machine, constants_begin(stream)
    for index, op in enumerate(instructions):
        if not isinstance(op, Transfer):
            if not isinstance(op, Finish):
                break
            continue
        if not isinstance(op, Load) or machine.queue_of(op.memory, True) != COMPUTE:
            continue
        if not op.x_size:
            break
        if is_constant(op, begin, machine) and not has_tokens(op):
            yield index, op


def cost_of(op: Load, machine: Machine) -> tuple[int, int]:
    """The engine that moves a constant, and its cycles."""
    space = machine.by_content[op.memory]
    route = machine.route[machine.regions[-1].name, space.memory, True]
    whole = op.y_size * op.x_size * space.global_bytes
    moved = (op.coded_bytes or whole) / route.bytes_per_cycle
    if op.coded_bytes and route.decoded_bytes_per_cycle is not None:
        moved = max(moved, whole / route.decoded_bytes_per_cycle)
    return route.engine, route.fixed_cycles + int(moved)


def opened(stream: Written) -> tuple[list[Instruction], list[int], int]:
    """The instructions with the head first where loads would keep the channel, their owners, and
    where the two are that wait for it; -1 where there are none."""
    instructions, owners = stream.instructions, stream.owners
    if all(engine.channels > 1 for engine in stream.machine.dma_engines):
        return instructions, owners, -1
    head = head_of(stream, instructions, 0, ())
    if not head:
        return instructions, owners, -1
    rest = [index for index in range(len(instructions)) if index not in set(head)]
    waits: list[Instruction] = [
        Load(memory="micro_operations", scratchpad_address=0, global_address=0, x_size=0,
             push_before=True),
        Load(memory="activations", scratchpad_address=0, global_address=0, x_size=0,
             pop_after=True),
    ]  # fmt: skip
    found = [*(instructions[i] for i in head), *waits, *(instructions[i] for i in rest)]
    kept = [*(owners[i] for i in head), -1, -1, *(owners[i] for i in rest)]
    return found, kept, len(head)
