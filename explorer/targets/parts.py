"""What a device is made of: its memories, its engines, and how instructions reach them.

The records of `explorer.targets.schema` below the target itself: what stands under the headings
`[memories.NAME]`, `[engines.NAME]`, `[queues.NAME]` and `[instructions]` of its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from explorer.errors import InputError
from explorer.results.names import suggestion
from explorer.targets.reading import Pattern, Problem, Range

Name = Annotated[
    str,
    Pattern("[a-z][a-z0-9_]{0,63}", "a name of at most 64 small letters, digits and underscores"),
]
Count = Annotated[int, Range(1, 2**20)]
Bits = Annotated[int, Range(1, 64)]
Bytes = Annotated[int, Range(1, 2**50)]
Cycles = Annotated[int, Range(0, 2**40)]
Seconds = Annotated[float, Range(0, 1e6)]
PerSecond = Annotated[float, Range(1, 1e18)]
Rate = Annotated[float, Range(0.001, 2**20)]
Picojoules = Annotated[float, Range(0, 1e9)]

DataType = Literal[
    "float64", "float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2",
    "int64", "int32", "int16", "int8", "int4", "uint64", "uint32", "uint16", "uint8", "uint4",
    "bool",
]  # fmt: skip
Language = Literal["c", "opencl", "instructions"]
Content = Literal[
    "activations", "weights", "accumulators", "instructions", "micro_operations", "tables"
]
VectorOperation = Literal[
    "minimum",
    "maximum",
    "add",
    "shift_right",
    "multiply",
    "normalize",
    "requantize",
    "softmax",
    "table",
]
WidthName = Literal[
    "scratchpad_address",
    "global_address",
    "size",
    "stride",
    "step",
    "pad",
    "iterations",
    "immediate",
]


@dataclass(frozen=True)
class Memory:
    """A place for tensors: an arena that is planned, an on-chip scratchpad, or DRAM behind it."""

    name: Name
    kind: Literal["arena", "scratchpad", "dram"]
    size_bytes: Bytes | None = None
    """All of it (of one core's, if each has its own), over all lanes; None: no limit."""
    alignment_bytes: Count = 64
    scope: Literal["core", "device"] = "device"
    """core: each core has its own; device: all cores share it."""
    lanes: Count = 1
    """Equal parts that are accessed at once, each beside its own processing element."""
    banks: Count = 1
    """Equal parts of a lane; two accesses to one bank wait for each other."""
    lane_bytes_per_cycle: Count | None = None
    bytes_per_second: PerSecond | None = None
    """Bandwidth from one core; None where it is not known."""
    holds: tuple[Content, ...] = ()
    """What alone may lie in it; empty: anything."""
    ports: Annotated[int, Range(1, 8)] = 1
    """Accesses to one bank at once; one more waits."""
    latency_cycles: Cycles = 0
    """From a request to its first byte."""
    burst_bytes: Count | None = None
    """Of dram: what it gives or takes at once, from a multiple of that on; None: any bytes."""
    row_bytes: Count | None = None
    """Of dram: what lies in an open row; None: it has no rows."""
    row_cycles: Cycles = 0
    """From closing a row to the first byte of another one; within a row nothing is waited for."""
    energy_picojoules_per_byte: Picojoules | None = None
    """Read or written; None: estimated from its size (`explorer.targets.npu.energy`)."""
    energy_source: str = ""
    """Who says so."""

    @property
    def lane_bytes(self) -> int | None:
        return None if self.size_bytes is None else self.size_bytes // self.lanes

    @property
    def bank_bytes(self) -> int | None:
        """Of one lane: addresses run through all lanes, so that a bank is `lanes` times as many."""
        return None if self.lane_bytes is None else self.lane_bytes // self.banks

    def problems(self) -> Iterator[Problem]:
        for name in ("burst_bytes", "row_bytes"):
            if self.kind != "dram" and getattr(self, name) is not None:
                yield Problem(name, f'is given, and kind is "{self.kind}", expected "dram"')
        if self.row_bytes and self.row_bytes % (self.burst_bytes or 1):
            text = f"is {self.row_bytes}, expected a multiple of burst_bytes {self.burst_bytes}"
            yield Problem("row_bytes", text)
        if self.row_cycles and self.row_bytes is None:
            yield Problem("row_cycles", f"is {self.row_cycles}, and row_bytes is missing")
        parts = self.lanes * self.banks
        if self.size_bytes is not None and self.size_bytes % parts:
            yield Problem(
                "size_bytes",
                f"is {self.size_bytes}, expected a multiple of {parts} "
                f"(lanes {self.lanes} times banks {self.banks})",
            )


@dataclass(frozen=True)
class MatrixEngine:
    """Multiplies `batch` x `rows` inputs with `rows` x `columns` weights in one step."""

    name: Name
    kind: Literal["matrix"]
    rows: Count
    """Inputs that are summed: the reduction."""
    columns: Count
    """Outputs made side by side."""
    batch: Count = 1
    input_bits: Bits = 8
    weight_bits: Bits = 8
    accumulator_bits: Bits = 32
    ops_per_cycle: tuple[tuple[DataType, Count], ...] = ()
    """By data type; a multiply-accumulate is two. Empty: 2 * batch * rows * columns."""
    start_cycles: Cycles = 0
    """From the instruction to the first step."""
    latency_cycles: Cycles = 0
    """From the last step to its result."""
    energy_picojoules_per_operation: Picojoules | None = None
    """Of one multiply-accumulate; None: estimated from its widths."""
    energy_source: str = ""


@dataclass(frozen=True)
class VectorEngine:
    """Works on `lanes` elements at once, one operation per element."""

    name: Name
    kind: Literal["vector"]
    lanes: Count
    lane_bytes_per_cycle: Count | None = None
    ops_per_cycle: tuple[tuple[DataType, Count], ...] = ()
    start_cycles: Cycles = 0
    latency_cycles: Cycles = 0
    operations: tuple[VectorOperation, ...] = ()
    """What it can do, where it is driven by instructions."""
    table_entries: Annotated[int, Range(2, 2**16)] | None = None
    """Of a table that maps numbers of as many different values, a power of two."""
    table_bits: Literal["as_inputs"] | Bits = "as_inputs"
    """Of an entry."""
    division_cycles: Cycles | None = None
    """Of a division of 60 bits by as many, of which a softmax has one a row, and a normalization
    one and a root, which takes as long."""
    energy_picojoules_per_operation: Picojoules | None = None
    """Of one operation on one number; None: estimated from the width of accumulators."""
    energy_source: str = ""


@dataclass(frozen=True)
class ScalarEngine:
    """Works on one element after the other."""

    name: Name
    kind: Literal["scalar"]
    ops_per_cycle: tuple[tuple[DataType, Count], ...] = ()
    start_cycles: Cycles = 0


@dataclass(frozen=True)
class Transfer:
    """What a DMA engine does between two of its memories, where that differs from the rest."""

    name: Name
    source: Name
    destination: Name
    bytes_per_cycle: Rate
    latency_cycles: Cycles = 0
    """In place of the engine's."""


@dataclass(frozen=True)
class DmaEngine:
    """Moves tensors between memories while the other engines work."""

    name: Name
    kind: Literal["dma"]
    connects: tuple[Name, ...]
    """The memories between which it moves."""
    channels: Count = 1
    """Transfers at once."""
    bytes_per_cycle: Rate | None = None
    start_cycles: Cycles = 0
    latency_cycles: Cycles = 0
    """From the request to the first byte, on top of the memory's own."""
    decoder: Literal["none", "rice"] = "none"
    """What it decodes weights of while it loads them (`explorer.targets.npu.coding`)."""
    decoded_bytes_per_cycle: Rate | None = None
    """How fast, in bytes of weights as they lie in their scratchpad's elements."""
    transfers: tuple[Transfer, ...] = ()
    """Pairs of memories with a rate of their own."""

    def transfer(self, source: str, destination: str) -> Transfer | None:
        """The pair's own entry, if there is one."""
        for transfer in self.transfers:
            if (transfer.source, transfer.destination) == (source, destination):
                return transfer
        return None

    def problems(self) -> Iterator[Problem]:
        if self.decoder != "none" and self.decoded_bytes_per_cycle is None:
            text = f'is missing, expected a number (decoder = "{self.decoder}")'
            yield Problem("decoded_bytes_per_cycle", text)
        for transfer in self.transfers:
            for field in ("source", "destination"):
                if (name := getattr(transfer, field)) not in self.connects:
                    yield Problem(
                        f"transfers.{transfer.name}.{field}",
                        f"names {name!r}, which the engine does not connect"
                        f"{suggestion(name, self.connects)}",
                    )


Engine = MatrixEngine | VectorEngine | ScalarEngine | DmaEngine


@dataclass(frozen=True)
class Queue:
    """Instructions that are executed one after the other, beside those of the other queues.

    The queues of a file are a chain: each exchanges tokens with the one before and the one behind.
    """

    name: Name
    loads: tuple[Content, ...] = ()
    """What its loads bring into scratchpads."""
    stores: tuple[Content, ...] = ()
    engines: tuple[Name, ...] = ()
    """Whose instructions it takes."""
    entries: Annotated[int, Range(1, 2**16)] = 512
    """Instructions that wait in it; the fetch of all instructions waits where it is full."""
    tokens: Annotated[int, Range(1, 2**16)] = 256
    """That a neighbour's instructions can give it before they have to wait."""


@dataclass(frozen=True)
class Instructions:
    """How instructions are encoded: docs/npu-instructions.md lists formats and fields."""

    set: Annotated[str, Pattern("[a-z][a-z0-9_-]{0,63}", "the name of a set")] = "full"
    """vta: exactly the instructions of Apache VTA; full: those and more fields and operations; or
    that of a package of one's own (`explorer.targets.npu.instruction_sets`)."""
    bits: Annotated[int, Range(64, 1024)] | None = None
    """Of an instruction, a multiple of 64; None: as many as the longest format needs."""
    widths: tuple[tuple[WidthName, Bits], ...] = ()
    """Of fields, in bits; those left out follow from the sizes of the memories."""
    fetch_cycles: Cycles = 1
    """Between two instructions that are handed to queues."""

    def problems(self) -> Iterator[Problem]:
        if self.bits is not None and self.bits % 64:
            yield Problem("bits", f"is {self.bits}, expected a multiple of 64")


DERIVED = Instructions()
"""All widths as the memories' sizes ask for."""

Part = TypeVar("Part", Memory, Engine)


def find(parts: Sequence[Part], name: str, problem: str) -> Part:
    for part in parts:
        if part.name == name:
            return part
    raise InputError(f"{problem} {name!r}{suggestion(name, [part.name for part in parts])}")
