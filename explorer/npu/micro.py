"""Micro-operations of a program, and what of them lies in their scratchpad at a time.

A sequence that is asked for again is loaded again only if it has been pushed out. The scratchpad is
filled from its beginning; when the next sequence has no room, it begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.targets.npu.instructions import Load, MicroOperation

Sequences = tuple[MicroOperation, ...]


class MicroProgram:
    """Places for sequences: in global memory for good, in the scratchpad for a while."""

    def __init__(self, depth: int, global_address: int) -> None:
        self._depth = depth
        self._start = global_address
        self._held: dict[Sequences, int] = {}
        self._end = 0
        self._addresses: dict[Sequences, int] = {}
        self.operations: list[MicroOperation] = []
        """All of them, from the global address on."""
        self.loaded = 0
        """How many were loaded so far, with repetitions."""

    def place(self, operations: Sequence[MicroOperation]) -> tuple[int, list[Load]]:
        """Where in the scratchpad a sequence begins, and the load that it takes, if any."""
        sequence = tuple(operations)
        if sequence in self._held:
            return self._held[sequence], []
        if sequence not in self._addresses:
            self._addresses[sequence] = self._start + len(self.operations)
            self.operations += sequence
        if self._end + len(sequence) > self._depth:
            self._held.clear()
            self._end = 0
        begin = self._held[sequence] = self._end
        self._end += len(sequence)
        self.loaded += len(sequence)
        load = Load(
            memory="micro_operations",
            scratchpad_address=begin,
            global_address=self._addresses[sequence],
            x_size=len(sequence),
        )
        return begin, [load]
