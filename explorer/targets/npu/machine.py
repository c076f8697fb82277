"""What a target file comes to: which elements lie where, who moves them, and how fast.

    [engines.matrix]      rows = 16, columns = 16, weight_bits = 8
    [memories.weights]    size_bytes = 262144                      ->  1024 weights of 256 bytes

A matrix engine adds, in a cycle, `batch` x `rows` numbers times `rows` x `columns` weights to
`batch` x `columns` accumulators. Scratchpads are counted in elements: a weight is one such matrix;
an activation is a row of `rows` numbers and an accumulator one of `columns`, or `batch` such rows
with the instructions of VTA. Where one scratchpad holds several contents, each counts from its
first byte in elements of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, NoReturn, Protocol

from explorer.ir.requantization import Rounding, Scheme
from explorer.results.names import suggestion
from explorer.targets.npu.instruction_sets import (
    SHIPPED,
    InstructionSet,
    instruction_set,
    instruction_set_names,
)
from explorer.targets.npu.instructions import EXPONENTIALS
from explorer.targets.parts import (
    DmaEngine,
    Engine,
    Instructions,
    MatrixEngine,
    Memory,
    Queue,
    VectorEngine,
)
from explorer.targets.reading import Problem

WEIGHT_WIDTHS = (4, 8, 16)
ACCUMULATOR_WIDTHS = (16, 32)
MAX_QUEUES = 8
MAX_SCRATCHPADS = 16
MAX_DMA_ENGINES = 8
MAX_CHANNELS = 64

CONTENTS = (
    "micro_operations", "weights", "activations", "accumulators", "outputs", "widened", "tables",
    "gathered", "diagonals",
)  # fmt: skip
"""By their number in instructions, VTA's first. `outputs` are accumulators that a store makes
narrow, `widened` are narrow numbers that a load makes accumulators, `gathered` are activations that
a load makes weights: each is those of one column. `diagonals` are weights of a depthwise
convolution, a number for each column, that a load makes weights with zeros around a diagonal."""

KEPT_AS = {
    "outputs": "accumulators", "widened": "accumulators", "gathered": "weights",
    "diagonals": "weights",
}  # fmt: skip
"""What lies in the scratchpad, of contents that are another one there."""


class Scaling(Protocol):
    """What is asked of a target's requantization."""

    @property
    def scheme(self) -> Scheme: ...
    @property
    def rounding(self) -> Rounding: ...


class Described(Protocol):
    """What is asked of a target here."""

    @property
    def name(self) -> str: ...
    @property
    def clock_hz(self) -> float | None: ...
    @property
    def memories(self) -> tuple[Memory, ...]: ...
    @property
    def engines(self) -> tuple[Engine, ...]: ...
    @property
    def queues(self) -> tuple[Queue, ...]: ...
    @property
    def instructions(self) -> Instructions: ...
    @property
    def requantization(self) -> Scaling | None: ...


class Contradiction(Exception):
    """Fields of a target that do not fit together; `explorer.targets` names the file, too."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field} {text}")
        self.problem = Problem(field, text)


@dataclass(frozen=True)
class Space:
    """One kind of content: where it lies, and how large its elements are."""

    content: str
    memory: int
    """Index of the scratchpad."""
    depth: int
    """Elements that it has room for."""
    element_bytes: int
    """In the scratchpad."""
    global_bytes: int
    """In global memory: that of outputs and widened numbers is narrower."""


@dataclass(frozen=True)
class Region:
    """A memory behind the scratchpads: a part of the one global address space."""

    name: str
    start_bytes: int
    size_bytes: int | None
    latency_cycles: int
    energy_picojoules_per_byte: float | None = None
    energy_source: str = ""
    burst_bytes: int | None = None
    row_bytes: int | None = None
    row_cycles: int = 0


@dataclass(frozen=True)
class Route:
    """How fast a DMA engine moves between a region and a scratchpad."""

    engine: int
    """Index among the DMA engines, whose channels it shares."""
    bytes_per_cycle: Fraction
    fixed_cycles: int
    """Start and latencies: whatever the size."""
    decoded_bytes_per_cycle: Fraction | None = None
    """Of loads of coded weights, once they are decoded; None: there is no decoder."""


@dataclass(frozen=True)
class Machine:
    """A target as instructions see it."""

    name: str
    batch: int
    rows: int
    columns: int
    input_bits: int
    weight_bits: int
    accumulator_bits: int
    set: str
    """Name of that of its instructions; `instruction_set` answers for it."""
    instructions: Instructions
    scratchpads: tuple[Memory, ...]
    regions: tuple[Region, ...]
    spaces: tuple[Space, ...]
    queues: tuple[Queue, ...]
    matrix: MatrixEngine
    vector: VectorEngine | None
    dma_engines: tuple[DmaEngine, ...]
    routes: tuple[tuple[tuple[str, int, bool], Route], ...]
    """By region, scratchpad, and whether it is a load."""
    scheme: Scheme | Literal[""] = ""
    """Of requantization; empty where the target does not say one."""
    rounding: Rounding | Literal[""] = ""

    def __hash__(self) -> int:
        """Of few fields: machines are keys of caches that are read for every instruction."""
        return hash((self.name, self.batch, self.rows, self.columns, self.set))

    @property
    def rows_per_element(self) -> int:
        """Of activations and accumulators."""
        return self.batch if self.instruction_set.elements_hold_batch else 1

    @cached_property
    def instruction_set(self) -> InstructionSet:
        return instruction_set(self.set)

    @cached_property
    def by_content(self) -> dict[str, Space]:
        return {space.content: space for space in self.spaces}

    @cached_property
    def route(self) -> dict[tuple[str, int, bool], Route]:
        return dict(self.routes)

    def depth(self, content: str) -> int:
        """Elements of that content; 0 where it has no place."""
        space = self.by_content.get(content)
        return space.depth if space else 0

    @property
    def replaces_sums(self) -> bool:
        """Whether the first products of a sum can replace what lies in the accumulators: words of
        micro-operations have a bit left for it."""
        depths = [self.depth(c) for c in ("accumulators", "activations", "weights")]
        bits = sum(map(index_bits, (depths[0], max(depths[:2]), depths[2])))
        return self.instruction_set.replaces_sums and bits not in (32, 64)

    @property
    def on_chip_start_cycles(self) -> int:
        """Of a transfer inside the chip: that of the DMA engine that loads activations. It needs
        none of its channels, and no memory outside."""
        memory = self.by_content["activations"].memory
        engines = [r.engine for (_, pad, is_load), r in self.routes if pad == memory and is_load]
        return self.dma_engines[engines[0]].start_cycles

    def on_chip_rate(self, content: str) -> Fraction:
        """Elements in a cycle of such a transfer: as many as the lanes take, or one."""
        space = self.by_content[content]
        pad = self.scratchpads[space.memory]
        if pad.lane_bytes_per_cycle is None:
            return Fraction(1)
        return Fraction(pad.lane_bytes_per_cycle * pad.lanes) / space.element_bytes

    @property
    def multiply_step_cycles(self) -> int:
        """Of one `batch` x `rows` x `columns`: more than one where the engine does less."""
        rates: dict[str, int] = dict(self.matrix.ops_per_cycle)
        operations = rates.get(f"int{self.input_bits}")
        if not operations:
            return 1
        return -(-2 * self.batch * self.rows * self.columns // operations)

    @property
    def vector_step_cycles(self) -> int:
        """Of one element of accumulators by itself."""
        assert self.vector is not None
        return -(-self.columns * self.rows_per_element // self.vector.lanes)

    @property
    def vector_elements(self) -> int:
        """Elements that the lanes take at once: of the inner loop, where these differ."""
        assert self.vector is not None
        return max(1, self.vector.lanes // (self.columns * self.rows_per_element))

    @property
    def vector_element_cycles(self) -> float:
        """Of one element of many: no loop takes less for each."""
        return self.vector_step_cycles / self.vector_elements

    def row_step_cycles(self, kind: str, count: int) -> int:
        """Of a row of so many elements, which goes through three times: for its maximum, its sum
        and its shares, or for its sums and two multiplications of each number. Twice the columns
        meet in a tree. A softmax divides once; a normalization once, and takes a root, which lasts
        as long."""
        assert self.vector is not None and self.vector.division_cycles is not None
        tree, divisions = (self.columns - 1).bit_length(), 1 + (kind == "normalize")
        passes = 3 * count * self.vector_step_cycles
        return passes + 2 * tree + divisions * self.vector.division_cycles

    def row_constants(self, kind: str, count: int) -> int:
        """Accumulators that the constants of such a row fill: a multiplier and a shift, or the
        halves of one number; then the exponentials, or three numbers for each of the row."""
        return 2 + (3 * count if kind == "normalize" else -(-EXPONENTIALS // self.columns))

    @property
    def operations(self) -> tuple[str, ...]:
        """What the vector engine can do."""
        return self.vector.operations if self.vector else ()

    @property
    def table_bits(self) -> int:
        """Of an entry of a table."""
        assert self.vector is not None
        bits = self.vector.table_bits
        return self.input_bits if isinstance(bits, str) else bits

    @property
    def global_bytes(self) -> int | None:
        """Size of the global address space; None where nothing bounds it."""
        last = self.regions[-1]
        return None if last.size_bytes is None else last.start_bytes + last.size_bytes

    @cached_property
    def decodes_weights(self) -> bool:
        """Whether a load of weights decodes them, out of some memory."""
        memory = self.by_content["weights"].memory
        return any(
            is_load and pad == memory and route.decoded_bytes_per_cycle is not None
            for (_, pad, is_load), route in self.routes
        )

    def queue_of(self, content: str, is_load: bool, prefetch: bool = False) -> int:
        """Index of the queue of loads into, or stores from, that content; `prefetch`: as the field
        of a load says it."""
        content = "activations" if prefetch else KEPT_AS.get(content, content)
        for index, queue in enumerate(self.queues):
            if content in (queue.loads if is_load else queue.stores):
                return index
        raise KeyError(content)

    def queue_of_engine(self, name: str) -> int:
        return next(i for i, queue in enumerate(self.queues) if name in queue.engines)


def describe(target: Described) -> Machine:
    """The machine of a target with queues. Raises `Contradiction` with field and bound."""
    name = target.instructions.set
    if name not in SHIPPED and name not in (known := instruction_set_names()):
        refuse("instructions.set", f"is {name!r}{suggestion(name, known)}")
    matrix = _one_engine(target, MatrixEngine, "matrix")
    vectors = [engine for engine in target.engines if isinstance(engine, VectorEngine)]
    if len(vectors) > 1:
        refuse(f"engines.{vectors[1].name}", "is a second vector engine, expected at most one")
    vector = vectors[0] if vectors else None
    _check_widths(matrix)
    scratchpads = tuple(memory for memory in target.memories if memory.kind == "scratchpad")
    machine = Machine(
        name=target.name,
        batch=matrix.batch,
        rows=matrix.rows,
        columns=matrix.columns,
        input_bits=matrix.input_bits,
        weight_bits=matrix.weight_bits,
        accumulator_bits=matrix.accumulator_bits,
        set=target.instructions.set,
        instructions=target.instructions,
        scratchpads=scratchpads,
        regions=_regions(target),
        spaces=(),
        queues=target.queues,
        matrix=matrix,
        vector=vector,
        dma_engines=tuple(e for e in target.engines if isinstance(e, DmaEngine)),
        routes=(),
        scheme=target.requantization.scheme if target.requantization else "",
        rounding=target.requantization.rounding if target.requantization else "",
    )
    _check_counts(machine)
    _check_vector(machine)
    machine = _with(machine, spaces=_spaces(machine))
    _check_queues(machine)
    return _with(machine, routes=_routes(machine, target))


def refuse(field: str, text: str) -> NoReturn:
    raise Contradiction(field, text)


def _with(machine: Machine, **changes: object) -> Machine:
    fields = {name: getattr(machine, name) for name in Machine.__dataclass_fields__}
    return Machine(**{**fields, **changes})


def _one_engine(target: Described, kind: type[MatrixEngine], word: str) -> MatrixEngine:
    found = [engine for engine in target.engines if isinstance(engine, kind)]
    if len(found) != 1:
        names = ", ".join(engine.name for engine in found)
        refuse("engines", f"have {len(found)} {word} engines {names}".rstrip() + ", expected one")
    return found[0]


def _check_widths(matrix: MatrixEngine) -> None:
    where = f"engines.{matrix.name}"
    for field, legal in (
        ("input_bits", WEIGHT_WIDTHS),
        ("weight_bits", WEIGHT_WIDTHS),
        ("accumulator_bits", ACCUMULATOR_WIDTHS),
    ):
        if (bits := getattr(matrix, field)) not in legal:
            *most, last = map(str, legal)
            refuse(f"{where}.{field}", f"is {bits}, expected {', '.join(most)} or {last}")
    least = max(matrix.input_bits, matrix.weight_bits)
    if matrix.accumulator_bits < 2 * least:
        refuse(
            f"{where}.accumulator_bits",
            f"is {matrix.accumulator_bits}, expected at least {2 * least} (twice {least})",
        )
    for field, count, bits in (
        ("rows", matrix.rows, matrix.input_bits),
        ("columns", matrix.columns, matrix.input_bits),
        ("rows", matrix.rows * matrix.columns, matrix.weight_bits),
    ):
        if count * bits % 8:
            refuse(
                f"{where}.{field}",
                f"is {getattr(matrix, field)}, expected a multiple of 2: "
                f"{count} numbers of {bits} bits are no whole number of bytes",
            )


def _check_counts(machine: Machine) -> None:
    """What tables of fixed size hold in the simulator."""
    for field, found, most in (
        ("memories", len(machine.scratchpads), MAX_SCRATCHPADS),
        ("engines", len(machine.dma_engines), MAX_DMA_ENGINES),
        ("queues", len(machine.queues), MAX_QUEUES),
    ):
        if found > most:
            refuse(field, f"have {found} entries of that kind, expected at most {most}")
    for engine in machine.dma_engines:
        if engine.channels > MAX_CHANNELS:
            refuse(
                f"engines.{engine.name}.channels",
                f"is {engine.channels}, expected at most {MAX_CHANNELS}",
            )


def _check_vector(machine: Machine) -> None:
    vector = machine.vector
    if vector is None:
        return
    where = f"engines.{vector.name}"
    if extra := set(machine.instruction_set.missing_operations) & set(vector.operations):
        name = machine.set
        refuse(
            f"{where}.operations", f'has {min(extra)}, which instructions.set = "{name}" has not'
        )
    if "requantize" in vector.operations:
        if machine.scheme in ("", "float"):
            refuse(
                "requantization.scheme",
                "is "
                + (repr(machine.scheme) if machine.scheme else "missing")
                + ", expected one of integers: the vector engine requantizes",
            )
        if machine.accumulator_bits != 32:
            refuse(
                f"{where}.operations",
                "has requantize, whose multipliers need accumulators of "
                f"32 bits, not {machine.accumulator_bits}",
            )
    for name, numbers in (("softmax", "exponentials"), ("normalize", "multipliers")):
        if name not in vector.operations:
            continue
        if vector.division_cycles is None:
            refuse(f"{where}.division_cycles",
                   f'is missing, expected a number (operations has "{name}")')  # fmt: skip
        if machine.accumulator_bits != 32:
            refuse(f"{where}.operations", f"has {name}, whose {numbers} need accumulators of "
                   f"32 bits, not {machine.accumulator_bits}")  # fmt: skip
    if "table" in vector.operations:
        if vector.table_entries is None:
            refuse(
                f"{where}.table_entries", 'is missing, expected a number (operations has "table")'
            )
        if vector.table_entries & (vector.table_entries - 1):
            refuse(f"{where}.table_entries", f"is {vector.table_entries}, expected a power of two")
        if machine.table_bits not in WEIGHT_WIDTHS:
            refuse(f"{where}.table_bits", f"is {vector.table_bits}, expected 4, 8 or 16")


def _regions(target: Described) -> tuple[Region, ...]:
    """The memories of kind dram, one behind the other."""
    found: list[Region] = []
    start = 0
    for memory in target.memories:
        if memory.kind != "dram":
            continue
        if found and found[-1].size_bytes is None:
            refuse(f"memories.{found[-1].name}.size_bytes", "is missing, expected a number: "
                   f"memory {memory.name} lies behind it")  # fmt: skip
        region = Region(
            name=memory.name,
            start_bytes=start,
            size_bytes=memory.size_bytes,
            latency_cycles=memory.latency_cycles,
            energy_picojoules_per_byte=memory.energy_picojoules_per_byte,
            energy_source=memory.energy_source,
            burst_bytes=memory.burst_bytes,
            row_bytes=memory.row_bytes,
            row_cycles=memory.row_cycles,
        )
        found.append(region)
        start += memory.size_bytes or 0
    if not found:
        refuse("memories", "have none of kind dram, expected one that scratchpads are loaded from")
    return tuple(found)


def _spaces(machine: Machine) -> tuple[Space, ...]:
    rows = machine.rows_per_element
    narrow = machine.columns * machine.input_bits * rows // 8
    wide = machine.columns * machine.accumulator_bits * rows // 8
    weight = machine.rows * machine.columns * machine.weight_bits // 8
    sizes = {
        "weights": (weight, weight),
        "activations": (machine.rows * machine.input_bits * rows // 8,) * 2,
        "accumulators": (wide, wide),
        "outputs": (wide, narrow),
        "widened": (wide, narrow),
    }
    if "table" in machine.operations:
        assert machine.vector is not None and machine.vector.table_entries is not None
        bits = machine.vector.table_entries * machine.table_bits
        sizes["tables"] = ((bits + 7) // 8,) * 2
    if machine.instruction_set.gathers_weights and machine.input_bits == machine.weight_bits:
        sizes["gathered"] = sizes["activations"]
    if machine.instruction_set.expands_diagonals and not machine.columns % machine.rows:
        sizes["diagonals"] = (
            weight * (machine.columns // machine.rows),
            machine.columns * machine.weight_bits // 8,
        )
    spaces = [_space(machine, content, *sizes[content]) for content in CONTENTS if content in sizes]
    depths = {space.content: space.depth for space in spaces}
    sources = max(depths["accumulators"], depths["activations"])
    bits = sum(index_bits(depth) for depth in (depths["accumulators"], sources, depths["weights"]))
    if bits > (most := machine.instruction_set.micro_operation_bits):
        refuse(
            "instructions.set",
            f"is {machine.set}: a micro-operation addresses accumulators, sources and weights with "
            f"{bits} bits, expected at most {most}",
        )
    word = 4 if bits <= 32 else 8
    return (_space(machine, "micro_operations", word, word), *spaces)


def index_bits(depth: int) -> int:
    """Bits of an index below `depth`, at least one."""
    return max(1, (depth - 1).bit_length())


def _space(machine: Machine, content: str, element_bytes: int, global_bytes: int) -> Space:
    kept = KEPT_AS.get(content, content)
    places = [i for i, memory in enumerate(machine.scratchpads) if kept in memory.holds]
    places = places or [i for i, memory in enumerate(machine.scratchpads) if not memory.holds]
    if len(places) != 1:
        names = ", ".join(machine.scratchpads[i].name for i in places)
        refuse("memories", f"have {len(places)} scratchpads that hold {kept}"
               + (f" ({names})" if names else "") + ", expected one")  # fmt: skip
    memory = machine.scratchpads[places[0]]
    if memory.size_bytes is None:
        refuse(f"memories.{memory.name}.size_bytes", "is missing, expected a number")
    if memory.size_bytes < element_bytes:
        refuse(
            f"memories.{memory.name}.size_bytes",
            f"is {memory.size_bytes}, expected at least {element_bytes}, one element of {kept}",
        )
    depth = memory.size_bytes // element_bytes
    return Space(content, places[0], depth, element_bytes, global_bytes)


def _check_queues(machine: Machine) -> None:
    loaded = [c for c in CONTENTS if c in machine.by_content and c not in KEPT_AS]
    _exactly_one(machine, "loads", loaded)
    _exactly_one(machine, "stores", ["accumulators"])
    driven = [machine.matrix.name, *([machine.vector.name] if machine.vector else [])]
    _exactly_one(machine, "engines", driven)


def _exactly_one(machine: Machine, field: str, expected: Sequence[str]) -> None:
    for queue in machine.queues:
        for name in getattr(queue, field):
            if name not in expected:
                refuse(
                    f"queues.{queue.name}.{field}",
                    f"names {name!r}{suggestion(name, expected)}",
                )
    for name in expected:
        owners = [queue.name for queue in machine.queues if name in getattr(queue, field)]
        if len(owners) != 1:
            refuse("queues", f"{field} of {name} stand in {len(owners)} of them"
                   f"{' (' + ', '.join(owners) + ')' if owners else ''}, expected one")  # fmt: skip


def _routes(machine: Machine, target: Described) -> tuple[tuple[tuple[str, int, bool], Route], ...]:
    routes: dict[tuple[str, int, bool], Route] = {}
    memories = {memory.name: memory for memory in target.memories}
    for region in machine.regions:
        for index, scratchpad in enumerate(machine.scratchpads):
            stores = index == machine.by_content["outputs"].memory
            for is_load in (True, False) if stores else (True,):
                outside, inside = region.name, scratchpad.name
                ends = (outside, inside) if is_load else (inside, outside)
                found = _route(machine, memories, ends, target.clock_hz)
                if found:
                    routes[region.name, index, is_load] = found
    for content in ("micro_operations", "weights", "activations", "accumulators", "tables"):
        space = machine.by_content.get(content)
        if space and not any((r.name, space.memory, True) in routes for r in machine.regions):
            name = machine.scratchpads[space.memory].name
            refuse("engines", f"have no dma engine that connects a dram with {name}, "
                   f"which holds {content}")  # fmt: skip
    if all(is_load for _, _, is_load in routes):
        refuse("engines", "have no dma engine that stores accumulators to a dram")
    return tuple(routes.items())


def _route(
    machine: Machine, memories: dict[str, Memory], ends: tuple[str, str], clock_hz: float | None
) -> Route | None:
    """Of the first DMA engine that connects both ends."""
    for index, engine in enumerate(machine.dma_engines):
        if not set(ends) <= set(engine.connects):
            continue
        pair = engine.transfer(*ends)
        rate = pair.bytes_per_cycle if pair else engine.bytes_per_cycle
        if rate is None:
            known = [memories[end].bytes_per_second for end in ends]
            slowest = min((speed for speed in known if speed), default=None)
            if slowest is None or clock_hz is None:
                refuse(
                    f"engines.{engine.name}.bytes_per_cycle",
                    "is missing, expected a number (or clock_hz, and bytes_per_second of "
                    f"{' or '.join(ends)})",
                )
            rate = slowest / clock_hz
        latency = pair.latency_cycles if pair else engine.latency_cycles
        latency += sum(memories[end].latency_cycles for end in ends)
        decoded = None
        if engine.decoder != "none" and ends[0] not in {pad.name for pad in machine.scratchpads}:
            if not machine.instruction_set.decodes_weights:
                text = f'is "{engine.decoder}", and instructions.set = "{machine.set}" has no field'
                refuse(f"engines.{engine.name}.decoder", f"{text} for coded weights")
            decoded = _exact(engine.decoded_bytes_per_cycle or 0)
        return Route(index, _exact(rate), engine.start_cycles + latency, decoded)
    return None


def _exact(rate: float) -> Fraction:
    return Fraction(str(rate)).limit_denominator(10**6)
