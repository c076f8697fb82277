"""What a target is: the memories, engines, numbers and preferences that the compiler asks for.

    name = "cpu"                        Target(name="cpu", languages=("c",),
    languages = ["c"]                          data_types=("float32",), vector_floats="auto",
    data_types = ["float32"]     ->            layout=LayoutRules("vector", True),
    vector_floats = "auto"                     memories=(Memory("arena", "arena"),))
    layout = { channel_block = "vector", halo = true }
    [memories.arena]
    kind = "arena"

The annotations are the schema of the file (see `explorer.targets.reading`); a field without a
default must be given. A target with cores describes one core; memories say whether each core has
its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from explorer.ir import requantization
from explorer.results.displayed import Displayed
from explorer.results.names import suggestion
from explorer.targets.npu.problems import machine_problems
from explorer.targets.overrides import overridden
from explorer.targets.parts import (
    DERIVED,
    Bytes,
    Count,
    DataType,
    DmaEngine,
    Engine,
    Instructions,
    Language,
    Memory,
    Name,
    PerSecond,
    Queue,
    Seconds,
    find,
)
from explorer.targets.reading import FieldLocation, Pattern, Problem, Range, Value, read_record

TargetName = Annotated[
    str,
    Pattern(
        "[a-z][a-z0-9_-]{0,63}",
        "a name of at most 64 small letters, digits, hyphens and underscores",
    ),
]
ProcessorName = Annotated[
    str, Pattern("[a-z0-9][a-z0-9.+_-]{0,63}", "a name that a C compiler has for a processor")
]


@dataclass(frozen=True)
class LayoutRules:
    """How activations like to lie: channels in blocks of so many, with room around the picture."""

    channel_block: Literal["vector"] | Count = "vector"
    """vector: as many as a vector holds; 1: not blocked."""
    halo: bool = False
    """Whether padding of the next operation lies in the buffer."""


@dataclass(frozen=True)
class Requantization(requantization.Requantization):
    """The same with the bounds of a file."""

    multiplier_bits: Annotated[int, Range(2, 32)] = 32


@dataclass(frozen=True)
class Costs:
    """What placement counts beside the work itself."""

    launch_seconds: Seconds = 0.0
    transfer_seconds: Seconds = 0.0
    """Of a transfer from or to another device, however small."""
    transfer_bytes_per_second: PerSecond | None = None
    watts: float | None = None
    """While it works: what the objective `energy` counts with."""


@dataclass(frozen=True)
class Core:
    """What a core of a processor does in a cycle: the cost model of kernels counts with it."""

    arithmetic_units: Count = 2
    """Multiply-adds that begin in a cycle, of vectors of at most `unit_bytes`."""
    unit_bytes: Count = 32
    """Of a longer vector a unit takes one part after the other."""
    load_units: Count = 2
    load_bytes: Count = 32
    """That one of them loads in a cycle."""
    store_units: Count = 1
    issued_per_cycle: Count = 6
    """Instructions of all kinds."""
    multiply_add_latency_cycles: Count = 4
    """Until a sum can be added to again."""
    division_cycles: Count = 6
    """Of a vector of `unit_bytes`, between two divisions or square roots: there is one divider."""
    vector_registers: Count = 32
    fuses_products: bool = True
    """Whether a multiply-add is one instruction. Otherwise it takes a unit twice, and its product
    a register."""
    window_instructions: Count = 256
    """That it looks ahead: sums over less than that overlap with those that follow."""
    task_seconds: Seconds = 3e-8
    """For a thread to claim a task."""
    barrier_seconds: Seconds = 1e-6
    """Between two sections that several threads run."""
    wake_seconds: Seconds = 2e-5
    """From waking a thread of a driver that sleeps until it works."""


@dataclass(frozen=True)
class CoreOverrides:
    """What is said of a core in place of what its family is known for; None: as it is known."""

    family: Literal["auto"] | Name = "auto"
    """A file of `explorer/targets/cores`; auto: as the processor at hand is recognized."""
    arithmetic_units: Count | None = None
    unit_bytes: Count | None = None
    load_units: Count | None = None
    load_bytes: Count | None = None
    store_units: Count | None = None
    issued_per_cycle: Count | None = None
    multiply_add_latency_cycles: Count | None = None
    division_cycles: Count | None = None
    vector_registers: Count | None = None
    fuses_products: bool | None = None
    window_instructions: Count | None = None
    task_seconds: Seconds | None = None
    barrier_seconds: Seconds | None = None
    wake_seconds: Seconds | None = None


@dataclass(frozen=True)
class Cache:
    """A level of cache, the nearest first. A target says what differs from the core's."""

    name: Name
    bytes_per_cycle: Count | None = None
    """What a core gets from the level behind this one; None: what its family is known for."""
    size_bytes: Literal["auto"] | Bytes = "auto"
    """auto: what the processor at hand has, by the name (`l1`, `l2`, `l3`)."""
    ways: Count | None = None
    """Lines that begin at the same place of a way (`size_bytes / ways`) that it holds at once."""
    scope: Literal["core", "device"] | None = None


VECTOR_FLOATS = (1, 4, 8, 16)
"""Widths of vectors, in float32, for which C is generated; 1: no vectors, and no extension of C."""


@dataclass(frozen=True)
class PackageRules:
    """How packages for the target are compiled, and what runs them where it is not at hand."""

    flags: tuple[str, ...] = ()
    """Of the C compiler, in the place of `-march=PROCESSOR`."""
    triple: str = ""
    """The machine as zig calls it (`aarch64-linux-musl`); empty: the one at hand."""
    compiler: str = ""
    """A cross compiler that goes before zig (`arm-none-eabi-gcc`)."""
    link_flags: tuple[str, ...] = ()
    """Of the self-test's program alone."""
    board: str = ""
    """Files of `explorer/packaging/boards` that start a program where no system does."""
    runner: tuple[str, ...] = ()
    """The command that runs a program of the target (`qemu-aarch64`); empty: it runs by itself."""
    flash_bytes: Bytes | None = None
    """Room for code and weights."""
    threads: bool = True
    """Whether its system has threads of POSIX."""


@dataclass(frozen=True, repr=False)
class Target(Displayed):
    """A device that code is made for."""

    name: TargetName
    languages: tuple[Language, ...]
    """What code is printed for it, the preferred one first."""
    data_types: tuple[DataType, ...]
    memories: tuple[Memory, ...]
    description: str = ""
    backend: Name | None = None
    """Who makes its code and runs it (`explorer.backends`); by default that of its language."""
    processor: ProcessorName = "native"
    """For which one C is compiled, as its compiler calls it (`x86-64-v3`, `haswell`); native: the
    one at hand. It runs here all the same."""
    vector_floats: Literal["auto"] | Count = "auto"
    """float32 per vector register; auto: what the processor has that code is made for."""
    schedules: Literal["auto", "cpu", "gpu"] = "auto"
    """For which kind of OpenCL device kernels are scheduled; auto: for the one at hand."""
    precision: Literal["float32", "mixed"] = "float32"
    """mixed: kernels for GPUs may round factors to halves where they add in float32."""
    tensor_cores: Literal["auto", "none", "emulated"] = "auto"
    """Matrix instructions in mixed precision; auto: those of the device at hand, if they give the
    right numbers; emulated: the same in OpenCL C, for devices without."""
    dual_products: bool = False
    """Whether an instruction adds the products of two halves of a word to a sum (Arm's `smlad`)."""
    cores: Count = 1
    clock_hz: PerSecond | None = None
    engines: tuple[Engine, ...] = ()
    queues: tuple[Queue, ...] = ()
    """Of a device that is driven by instructions, in the order in which they exchange tokens."""
    instructions: Instructions = DERIVED
    layout: LayoutRules = LayoutRules()
    requantization: Requantization | None = None
    arithmetic: Literal["float", "integer"] = "float"
    """integer: quantized programs compute without floats from input to output; the scheme of
    requantization `float` counts as doubling_high_multiply then."""
    costs: Costs = Costs()
    core: CoreOverrides = CoreOverrides()
    caches: tuple[Cache, ...] = ()
    optimize: Literal["speed", "size"] = "speed"
    """size: schedules that make small code, for memories that are small."""
    package: PackageRules = PackageRules()

    def memory(self, name: str) -> Memory:
        """The memory of that name, or an `InputError` with those that there are."""
        return find(self.memories, name, f"target {self.name} has no memory")

    @property
    def arenas(self) -> tuple[Memory, ...]:
        """The memories of kind arena that may hold activations."""
        return tuple(
            memory
            for memory in self.memories
            if memory.kind == "arena" and (not memory.holds or "activations" in memory.holds)
        )

    @property
    def weights_bytes(self) -> int | None:
        """Room in the memories of kind arena that hold weights and no activations; None where
        there is none, or no limit."""
        own = [m for m in self.memories if m.kind == "arena" and m not in self.arenas]
        sizes = [m.size_bytes for m in own if "weights" in m.holds]
        known = [size for size in sizes if size is not None]
        return sum(known) if known and len(known) == len(sizes) else None

    def engine(self, name: str) -> Engine:
        """The engine of that name, or an `InputError` with those that there are."""
        return find(self.engines, name, f"target {self.name} has no engine")

    def with_(self, **overrides: Value) -> Target:
        """This target with other values, checked like a file; None restores a default.

        A field inside goes by its dotted path: `with_(**{"memories.arena.size_bytes": 65536})`.
        """
        place = FieldLocation(f"{self.name} with overrides")
        return read_record(Target, overridden(self, overrides, place), place)

    def problems(self) -> Iterator[Problem]:
        for name in ("languages", "data_types", "memories"):
            if not getattr(self, name):
                yield Problem(name, "is empty, expected at least one")
        legal = ("auto", *VECTOR_FLOATS)
        is_vectorized = bool({"c", "opencl"} & set(self.languages))
        if is_vectorized and self.vector_floats not in legal:
            expected = '"auto" or one of ' + ", ".join(map(str, VECTOR_FLOATS))
            yield Problem("vector_floats", f"is {self.vector_floats}, expected {expected}")
        memories = [memory.name for memory in self.memories]
        for engine in self.engines:
            connects = engine.connects if isinstance(engine, DmaEngine) else ()
            for name in connects:
                if name not in memories:
                    yield Problem(
                        f"engines.{engine.name}.connects",
                        f"names {name!r}, which is no memory{suggestion(name, memories)}",
                    )
        yield from machine_problems(self)
