"""Which elements of scratchpads and which bytes of global memory an instruction reads and writes.

An index of a loop is micro-operation + i * outer + j * inner, all of them positive; so its greatest
value says whether it stays inside, and the set of all follows in two sums of sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.targets.npu.instructions import (
    Instruction,
    Load,
    Loop,
    MicroOperation,
    Multiply,
    Requantize,
    RowLoop,
    Store,
    Table,
    Transfer,
    Vector,
)
from explorer.targets.npu.machine import Machine

MAX_SUMS = 1 << 26
"""Of sets; larger ones count as everything between their ends, which may find races that are none:
only damaged programs have them."""
CHUNK = 1 << 20


@dataclass(frozen=True)
class Access:
    """Elements of one content that are read, written, or both."""

    content: str
    elements: np.ndarray
    """i64, ascending, each once."""
    reads: bool
    writes: bool
    is_tensor: bool = False
    """Kept there from layer to layer: as in global memory, channels that its last block has too
    many are read and hold anything."""


@dataclass(frozen=True)
class Outside:
    """An access beyond the end of a memory."""

    text: str


def transfer_elements(op: Transfer) -> int:
    """Elements of the scratchpad that a load or store covers."""
    if not op.x_size:
        return 0
    width = op.x_pad_before + op.x_size + op.x_pad_after
    return width * (op.y_pad_before + op.y_size + op.y_pad_after)


def scratchpad_accesses(
    op: Instruction, micro: Sequence[MicroOperation], machine: Machine
) -> list[Access] | Outside:
    """`micro`: the micro-operations of a loop, in order."""
    if isinstance(op, Transfer):
        count = transfer_elements(op)
        ends = {op.memory: op.scratchpad_address + count - 1}
        if count and (outside := _beyond(ends, machine)):
            return outside
        elements = np.arange(op.scratchpad_address, op.scratchpad_address + count)
        is_load = isinstance(op, Load)
        found = [Access(op.memory, elements, not is_load, is_load)]
        rows = rows_of(op, machine) if op.on_chip else NO_ROWS
        if not len(rows):
            return found
        each = machine.by_content["activations"].element_bytes
        if outside := _beyond({"activations": (int(rows[:, 1].max()) - 1) // each}, machine):
            return outside
        touched = [np.arange(first // each, -(-end // each)) for first, end in rows.tolist()]
        elements = np.unique(np.concatenate(touched))
        other = Access("activations", elements, is_load, not is_load, is_tensor=True)
        return [*found, other]
    if not isinstance(op, Loop) or not micro or not op.outer or not op.inner:
        return []
    if (isinstance(op, Multiply) and not op.batch) or (isinstance(op, RowLoop) and not op.count):
        return []
    return _loop_accesses(op, micro, machine)


def _loop_accesses(
    op: Loop, micro: Sequence[MicroOperation], machine: Machine
) -> list[Access] | Outside:
    destinations = _Indices([m.destination for m in micro])
    destinations.step(op.outer, op.destination_outer).step(op.inner, op.destination_inner)
    sources = _Indices([m.source for m in micro])
    sources.step(op.outer, op.source_outer).step(op.inner, op.source_inner)
    found: list[tuple[str, _Indices, bool, bool]] = []
    if isinstance(op, Multiply):
        destinations.step(op.batch, op.destination_step)
        sources.step(op.batch, op.source_step)
        found.append(("accumulators", destinations, False, True))
        replaced = {m.destination for m in micro if op.replace and m.first}
        if kept := [m.destination for m in micro if m.destination not in replaced]:
            sums = _Indices(kept)
            sums.step(op.outer, op.destination_outer).step(op.inner, op.destination_inner)
            sums.step(op.batch, op.destination_step)
            found.insert(0, ("accumulators", sums, not op.reset, True))
        if not op.reset:
            weights = _Indices([m.weight for m in micro])
            weights.step(op.outer, op.weight_outer).step(op.inner, op.weight_inner)
            found += [("activations", sources, True, False), ("weights", weights, True, False)]
    else:
        if isinstance(op, Requantize):
            sources.step(2 + op.biased, 1)  # multipliers, shifts, and biases
        if isinstance(op, RowLoop):
            destinations.step(op.count, op.step)
            sources.step(machine.row_constants(op.kind, op.count), 1)
        found.append(("accumulators", destinations, not isinstance(op, Table), True))
        if not (isinstance(op, Vector) and op.use_immediate):
            found.append(("accumulators", sources, True, False))
        if isinstance(op, Table):
            found.append(("tables", _Indices([op.table]), True, False))
    for content, indices, _, _ in found:
        if outside := _beyond({content: indices.last}, machine):
            return outside
    return [
        Access("micro_operations", np.arange(op.micro_begin, op.micro_end), True, False),
        *(Access(c, indices.elements(), reads, writes) for c, indices, reads, writes in found),
    ]


class _Indices:
    """A set of sums: any of the first plus a multiple of each step."""

    def __init__(self, first: Sequence[int]) -> None:
        self.first = np.unique(np.asarray(first, np.int64))
        self.steps: list[tuple[int, int]] = []
        self.last = int(self.first[-1])

    def step(self, count: int, size: int) -> _Indices:
        self.steps.append((count, size))
        self.last += (count - 1) * size
        return self

    def elements(self) -> np.ndarray:
        found = self.first
        for count, size in self.steps:
            if count == 1 or size == 0:
                continue
            if len(found) * count > MAX_SUMS:
                return np.arange(self.first[0], self.last + 1)
            offsets = np.arange(count) * size
            each = max(1, CHUNK // len(found))
            parts = [
                np.unique(np.add.outer(offsets[i : i + each], found).reshape(-1))
                for i in range(0, count, each)
            ]
            found = np.unique(np.concatenate(parts))
        return found


def _beyond(ends: dict[str, int], machine: Machine) -> Outside | None:
    for content, last in ends.items():
        if last >= machine.depth(content):
            return Outside(
                f"{content.replace('_', ' ')} have {machine.depth(content)} elements, "
                f"and it touches element {last}"
            )
    return None


NO_ROWS = np.zeros((0, 2), np.int64)


def global_rows(op: Instruction, machine: Machine) -> np.ndarray:
    """First and last byte + 1 of every row in global memory: i64 of [rows, 2]."""
    is_inside = isinstance(op, Transfer) and op.on_chip
    return NO_ROWS if is_inside else rows_of(op, machine)


def rows_of(op: Instruction, machine: Machine) -> np.ndarray:
    """The same of the other end of any transfer."""
    if not isinstance(op, Load | Store) or not op.x_size or not op.y_size:
        return NO_ROWS
    size = machine.by_content[op.memory].global_bytes
    if isinstance(op, Load) and op.coded_bytes:
        start = op.global_address * size
        return np.array([[start, start + op.coded_bytes]], np.int64)
    if op.x_step != 1:  # every element for itself
        rows = np.arange(op.y_size, dtype=np.int64) * op.x_stride
        starts = np.add.outer(rows, np.arange(op.x_size) * op.x_step).reshape(-1)
        starts = (op.global_address + starts) * size
        return np.stack([starts, starts + size], axis=-1)
    if op.x_stride == op.x_size:  # rows without gaps are one
        rows, width = np.zeros(1, np.int64), op.y_size * op.x_size
    else:
        rows, width = np.arange(op.y_size, dtype=np.int64), op.x_size
    starts = (op.global_address + rows * op.x_stride) * size
    return np.stack([starts, starts + width * size], axis=-1)


def global_problem(rows: np.ndarray, image_bytes: int, machine: Machine) -> str:
    """Why rows do not lie in global memory; empty where they do."""
    if not len(rows):
        return ""
    first, end = int(rows[:, 0].min()), int(rows[:, 1].max())
    if end > image_bytes:
        return f"global memory has {image_bytes} bytes, and it touches byte {end - 1}"
    for region in machine.regions:
        if region.start_bytes <= first and region.size_bytes is not None:
            last = region.start_bytes + region.size_bytes
            if first < last < end:
                return f"it crosses the end of memory {region.name} at byte {last}"
    return ""
