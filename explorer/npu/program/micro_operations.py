"""Micro-operations of a program, and what of them lies in their scratchpad at a time.

A sequence that is asked for again is loaded again only if it has been pushed out. The scratchpad is
filled from its beginning; when the next sequence has no room, it begins anew. Sequences that lie
one after the other in both memories are one load, before the first of them is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

from explorer.targets.npu.instructions import Instruction, Load, Loop, MicroOperation

MICRO = "micro_operations"
Sequences = tuple[MicroOperation, ...]


class MicroScratchpad:
    """Which sequences lie in the scratchpad, and where: the policy, whatever names a sequence."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._held: dict[Hashable, int] = {}
        self._end = 0
        self.loaded = 0
        """How many operations were loaded so far, with repetitions."""

    def place(self, sequence: Hashable, length: int) -> tuple[int, bool]:
        """Where it begins, and whether it has to be loaded for that."""
        if sequence in self._held:
            return self._held[sequence], False
        if self._end + length > self._depth:
            self._held.clear()
            self._end = 0
        begin = self._held[sequence] = self._end
        self._end += length
        self.loaded += length
        return begin, True


class MicroProgram:
    """Places for sequences: in global memory for good, in the scratchpad for a while."""

    def __init__(self, depth: int, global_address: int) -> None:
        self._scratchpad = MicroScratchpad(depth)
        self.global_address = global_address
        self._addresses: dict[Sequences, int] = {}
        self.operations: list[MicroOperation] = []
        """All of them, from the global address on."""

    @property
    def loaded(self) -> int:
        """How many were loaded so far, with repetitions."""
        return self._scratchpad.loaded

    def place(self, operations: Sequence[MicroOperation]) -> tuple[int, list[Load]]:
        """Where in the scratchpad a sequence begins, and the load that it takes, if any."""
        sequence = tuple(operations)
        begin, is_new = self._scratchpad.place(sequence, len(sequence))
        if not is_new:
            return begin, []
        if sequence not in self._addresses:
            self._addresses[sequence] = self.global_address + len(self.operations)
            self.operations += sequence
        load = Load(
            memory=MICRO,
            scratchpad_address=begin,
            global_address=self._addresses[sequence],
            x_size=len(sequence),
        )
        return begin, [load]


def join_micro_loads(
    instructions: Sequence[Instruction], owners: Sequence[int]
) -> tuple[list[Instruction], list[int]]:
    """The same with fewer loads of micro-operations, each as early as the first that it holds.

    Loads and what uses them are in one queue. Between two loads that are joined nothing reads what
    lay in the place of the second one: a scratchpad that begins anew begins at 0, which continues
    no load. What the second one waits for, the instruction after it waits for.
    """
    found: list[Instruction] = []
    kept: list[int] = []
    last = -1  # where the load is that the next one may continue
    waits: dict[str, bool] = {}
    for op, owner in zip(instructions, owners, strict=True):
        if isinstance(op, Load) and op.memory == MICRO and op.x_size:
            before = found[last] if last >= 0 else None
            if isinstance(before, Load) and _continues(before, op):
                found[last] = dataclasses.replace(before, x_size=before.x_size + op.x_size)
                waits = {name: True for name in ("pop_before", "pop_after") if getattr(op, name)}
                continue
            last = len(found)
        elif waits:
            op, waits = dataclasses.replace(op, **waits), {}
        found.append(op)
        kept.append(owner)
    return found, kept


def moved_micro_operations(instructions: Sequence[Instruction], by: int) -> list[Instruction]:
    """The same with all micro-operations so many elements later in their scratchpad."""
    if not by:
        return list(instructions)
    found: list[Instruction] = []
    for op in instructions:
        if isinstance(op, Load) and op.memory == MICRO and op.x_size:
            op = dataclasses.replace(op, scratchpad_address=op.scratchpad_address + by)
        elif isinstance(op, Loop):
            begin, end = op.micro_begin + by, op.micro_end + by
            op = dataclasses.replace(op, micro_begin=begin, micro_end=end)
        found.append(op)
    return found


def _continues(first: Load, second: Load) -> bool:
    gives = second.push_before or second.push_after
    return (
        not gives
        and second.scratchpad_address == first.scratchpad_address + first.x_size
        and second.global_address == first.global_address + first.x_size
    )
