"""The block of memory that the simulator's native code works on, and the names of its entries.

    header | config | instructions | plans | orders | tokens | ports | scratchpads | image | ...

Everything is i64 but scratchpads, image and taps, which are bytes. The same lists of names make the
C enumerations and the places where Python writes, so that both sides cannot differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from explorer.targets.npu.coding import ESCAPE, HEADER_BITS
from explorer.targets.npu.encoding import COLUMNS
from explorer.targets.npu.instructions import EXPONENTIALS, SOFTMAX_BITS
from explorer.targets.npu.machine import (
    CONTENTS,
    MAX_CHANNELS,
    MAX_DMA_ENGINES,
    MAX_QUEUES,
    MAX_SCRATCHPADS,
    Machine,
)

SECTIONS = (
    "config", "table", "plans", "orders", "pushes", "pops", "ports", "channels", "counters",
    "events", "taps", "pattern", "scratchpads", "image", "tapped",
)  # fmt: skip
HEADER = (
    *SECTIONS, "instructions", "image_bytes", "tap_count", "work", "max_work", "progress", "done",
    "fault", "fault_instruction", "fault_content", "fault_value", "fault_limit",
)  # fmt: skip
SPACE = ("start", "element_bytes", "global_bytes", "depth", "memory")
PLAN = ("queue", "cycles", "dma", "arrival", "tap")
TAP = ("instruction", "from", "bytes", "to", "on_chip")
WAITS = ("fetch", "token", "room", "channel", "bank")
EVENT = ("start", "end", "waits")
EVENT_FIELDS = 2 + len(WAITS)
COUNTER_FIELDS = 2 + 3 * len(CONTENTS)
CONFIG_SIZES = {
    "rows": 1, "columns": 1, "rows_per_element": 1, "input_bits": 1, "weight_bits": 1,
    "accumulator_bits": 1, "table_entries": 1, "table_bits": 1, "scheme": 1, "rounding": 1,
    "fetch_cycles": 1, "queues": 1, "scratchpads": 1,
    "spaces": len(SPACE) * len(CONTENTS), "micro": 8,
    "banks": MAX_SCRATCHPADS, "bank_bytes": MAX_SCRATCHPADS, "ports": MAX_SCRATCHPADS,
    "first_port": MAX_SCRATCHPADS, "channels": MAX_DMA_ENGINES,
    "queue_entries": MAX_QUEUES, "queue_tokens": MAX_QUEUES,
    "queue_starts": MAX_QUEUES, "queue_lengths": MAX_QUEUES,
}  # fmt: skip
CONFIG = dict(zip(CONFIG_SIZES, np.cumsum([0, *CONFIG_SIZES.values()]).tolist(), strict=False))
ALIGNMENT_BYTES = 64


def source() -> str:
    """The C program: enumerations out of the lists above, then the two files."""
    folder = resources.files("explorer.runtime.npu")
    parts = [
        _enumeration("H", HEADER),
        _enumeration("I", COLUMNS),
        _enumeration("S", SPACE),
        _enumeration("P", PLAN),
        _enumeration("T", TAP),
        _enumeration("E", EVENT),
        _numbered("C", CONFIG),
        _numbered(
            "K",
            {
                "macs": 0,
                "vector": 1,
                "loaded": 2,
                "stored": 2 + len(CONTENTS),
                "moved": 2 + 2 * len(CONTENTS),
            },
        ),
        f"enum {{ COLUMNS = {len(COLUMNS)}, SPACE_FIELDS = {len(SPACE)}, "
        f"PLAN_FIELDS = {len(PLAN)}, TAP_FIELDS = {len(TAP)}, EVENT_FIELDS = {EVENT_FIELDS}, "
        f"MAX_CHANNELS = {MAX_CHANNELS}, EXPONENTIALS = {EXPONENTIALS}, "
        f"SOFTMAX_BITS = {SOFTMAX_BITS}, ESCAPE = {ESCAPE}, HEADER_BITS = {HEADER_BITS} }};",
    ]
    files = [folder.joinpath(name).read_text("utf-8") for name in ("simulator.c", "events.c")]
    return "\n".join([*parts, *files])


def _enumeration(prefix: str, names: Sequence[str]) -> str:
    return _numbered(prefix, {name: index for index, name in enumerate(names)})


def _numbered(prefix: str, names: dict[str, int]) -> str:
    entries = ", ".join(f"{prefix}_{name.upper()} = {index}" for name, index in names.items())
    return f"enum {{ {entries} }};"


@dataclass(frozen=True)
class Block:
    """Where sections lie, and views of them once there is memory."""

    offsets: dict[str, int]
    sizes: dict[str, int]
    size_bytes: int

    def view(self, memory: np.ndarray, section: str) -> np.ndarray:
        """The bytes of a section."""
        start = self.offsets[section]
        return memory[start : start + self.sizes[section]]

    def numbers(self, memory: np.ndarray, section: str) -> np.ndarray:
        """A section of i64."""
        return self.view(memory, section).view(np.int64)

    def header(self, memory: np.ndarray) -> np.ndarray:
        return memory[: 8 * len(HEADER)].view(np.int64)


def plan_block(machine: Machine, instructions: int, image_bytes: int, taps: np.ndarray) -> Block:
    """The sizes and offsets of all sections."""
    lanes = 2 * max(1, len(machine.queues) - 1)
    largest = max(space.element_bytes for space in machine.spaces)
    sizes = {
        "config": 8 * sum(CONFIG_SIZES.values()),
        "table": 8 * len(COLUMNS) * instructions,
        "plans": 8 * len(PLAN) * instructions,
        "orders": 8 * instructions,
        "pushes": 8 * lanes * instructions,
        "pops": 8 * lanes * instructions,
        "ports": 8 * sum(memory.banks * memory.ports for memory in machine.scratchpads),
        "channels": 8 * MAX_DMA_ENGINES * MAX_CHANNELS,
        "counters": 8 * COUNTER_FIELDS,
        "events": 8 * EVENT_FIELDS * instructions,
        "taps": 8 * len(TAP) * len(taps),
        "pattern": largest,
        "scratchpads": sum(_rounded(m.size_bytes or 0) for m in machine.scratchpads),
        "image": image_bytes,
        "tapped": int(taps[:, TAP.index("bytes")].sum()),
    }
    offsets: dict[str, int] = {}
    end = _rounded(8 * len(HEADER))
    for section in SECTIONS:
        offsets[section] = end
        end += _rounded(sizes[section])
    return Block(offsets, sizes, end)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def scratchpad_starts(machine: Machine) -> list[int]:
    """Where each scratchpad begins in its section."""
    sizes = [_rounded(memory.size_bytes or 0) for memory in machine.scratchpads]
    return np.cumsum([0, *sizes])[:-1].tolist()
