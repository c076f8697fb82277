"""What a machine whose cycles are counted did in a run, beside what was predicted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CycleTerm:
    """What one kind of instruction takes altogether in its queue."""

    queue: str
    name: str
    """The content that is moved, reset, multiply, or an operation of the vector engine; wait:
    nothing is moved; finish."""
    count: int
    cycles: int
    why: str


@dataclass(frozen=True, kw_only=True)
class PredictedLayer:
    """What a layer takes by its tiles, without running, among all the layers."""

    first_cycle: int
    last_cycle: int
    terms: tuple[CycleTerm, ...]
    waits: tuple[tuple[str, str, int], ...]
    """Cycles by queue and cause."""

    @property
    def cycles(self) -> int:
        return self.last_cycle - self.first_cycle


@dataclass(frozen=True, kw_only=True)
class ScratchpadRecord:
    """A scratchpad of the machine."""

    name: str
    size_bytes: int
    banks: int
    """Of equal size, one behind the other."""


@dataclass(frozen=True, kw_only=True)
class ScratchpadUse:
    """What lies in a scratchpad: from the cycle in which it begins to be written to its last use.

    Cycles are those that the steps of the tiles predict.
    """

    scratchpad: str
    content: str
    """micro_operations, weights, activations, accumulators or tables."""
    first_element: int
    last_element: int
    """Of its content, as instructions count them."""
    offset_bytes: int
    size_bytes: int
    start_cycle: int
    ready_cycle: int
    """When the first instruction that writes it has ended."""
    end_cycle: int


@dataclass(frozen=True, kw_only=True)
class TileRead:
    """Rows and columns of an input that a tile reads, the last ones included; beyond the input
    lies padding."""

    tensor: str
    size: tuple[int, int]
    """Height and width of the input."""
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class TilePhase:
    """Instructions of one kind in one queue for one chunk of a tile, as the tiles predict them."""

    queue: str
    name: str
    """The content that is moved, reset, multiply, or an operation of the vector engine."""
    chunk: int
    """Which part of the tile's inputs: 0 is the first."""
    count: int
    start_cycle: int
    end_cycle: int
    busy_cycles: int
    waits: tuple[tuple[str, int], ...] = ()
    """Cycles by cause."""
    bytes: int = 0
    """Between global memory and scratchpads; 0 where nothing is moved."""


@dataclass(frozen=True, kw_only=True)
class CountedTile:
    """One tile of a layer: what it makes, what it reads, and its way through the queues."""

    channels: tuple[int, int]
    """First and last of the output that it makes; rows and columns likewise."""
    rows: tuple[int, int]
    columns: tuple[int, int]
    reads: tuple[TileRead, ...]
    phases: tuple[TilePhase, ...]

    @property
    def start_cycle(self) -> int:
        return min(phase.start_cycle for phase in self.phases)

    @property
    def end_cycle(self) -> int:
        return max(phase.end_cycle for phase in self.phases)


@dataclass(frozen=True, kw_only=True)
class MemoryRate:
    """What can be moved between a memory and the scratchpads at most, by the target."""

    memory: str
    bytes_per_cycle: float
    """On all channels together, without starts and latencies."""
    channels: int


@dataclass(frozen=True, kw_only=True)
class CountedLayer:
    """One layer of a run."""

    operation: str
    title: str
    macs: int
    """Of the model: without those with padding up to whole blocks."""
    first_cycle: int
    last_cycle: int
    """From when its first instruction began until its last one ended."""
    instructions: int
    kept_bytes: int = 0
    """Of its result, where that stays on the chip."""
    array_macs: int = 0
    """Of the matrix engine, those on padding included."""
    memory_bytes: tuple[tuple[str, int], ...] = ()
    """Between each memory and the scratchpads, micro-operations included."""
    coded_bytes: int = 0
    """Of weights that are coded, as they are loaded: a part of `memory_bytes`."""
    decoded_bytes: int = 0
    """Of the same weights, once they are decoded."""
    energy: tuple[tuple[str, float], ...] = ()
    """Picojoules by engine, scratchpad and memory."""
    least_cycles: float = 0.0
    """What `macs` and `memory_bytes` take at the machine's peaks: the layer's roof."""
    bound: str = ""
    """What that rests on: the matrix engine, or the memory whose bytes take longest."""
    bound_bytes: int | None = None
    """What it moves at least, whatever its tiles; None where the instructions were edited."""
    bound_cycles: float | None = None
    """What `macs` and `bound_bytes` take at the machine's peaks."""
    busy: tuple[tuple[str, int], ...] = ()
    """Cycles by queue."""
    waits: tuple[tuple[str, str, int], ...] = ()
    """Cycles by queue and cause."""
    predicted: PredictedLayer | None = None
    """None where the instructions were edited."""
    uses: tuple[ScratchpadUse, ...] = ()
    """Of scratchpads, in the order in which they begin; empty where nothing was predicted."""
    uses_left_out: int = 0
    """Later ones than those, of layers with many tiles."""
    tiled_size: tuple[int, int] = (0, 0)
    """Height and width of the output as it is tiled: of plain products all positions in a row."""
    tiles: tuple[CountedTile, ...] = ()
    """In the order in which they run; empty where nothing was predicted."""
    tiles_left_out: int = 0
    """Later ones than those."""

    @property
    def cycles(self) -> int:
        return self.last_cycle - self.first_cycle

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.memory_bytes)

    @property
    def energy_picojoules(self) -> float:
        return sum(picojoules for _, picojoules in self.energy)


@dataclass(frozen=True, kw_only=True)
class SearchPoint:
    """Tiles that a search looked at."""

    choices: tuple[tuple[str, int | str], ...]
    """By name, as decisions have them."""
    cycles: int
    """Of the layer alone; of tiles that were not run an estimate."""
    bound: int = 0
    """Cycles that these tiles take at least; 0 where nobody knows."""
    bytes: int | None = None
    """Between global memory and scratchpads, without micro-operations; None of tiles that were not
    run."""

    @property
    def is_run(self) -> bool:
        """Whether the timeline of the prediction was run."""
        return self.bytes is not None


@dataclass(frozen=True, kw_only=True)
class SearchedLayer:
    """What the search for the tiles of a layer came to."""

    layer: str
    candidates: int
    """Legal points of its space."""
    seconds: float
    cycles: int
    """Of the layer alone, in the tiles that were found."""
    bound: int
    """Cycles that the layer alone takes at least, in any tiles of the space."""
    gap: float
    """The part of the cycles by which better tiles may be better."""
    points: tuple[SearchPoint, ...] = ()
    """Those that were run, in their order, then others with the best estimates; not all of them."""


@dataclass(frozen=True, kw_only=True)
class MachineWork:
    """What the instructions of a program do, which is known without running them."""

    traffic_bytes: int
    """Between global memory and scratchpads, micro-operations included."""
    energy_picojoules: float


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a program of instructions takes more with another decision."""

    cycles: int
    traffic_bytes: int
    energy_picojoules: float


@dataclass(frozen=True, kw_only=True)
class CountedRun:
    """Sums over all parts of a program that run on the machine."""

    cycles: int
    predicted_cycles: int | None
    """From the tiles, without running; None where the instructions were edited."""
    macs: int
    """Multiply-accumulates of the matrix engine, those on padding included."""
    peak_macs_per_cycle: float
    loaded_bytes: tuple[tuple[str, int], ...]
    """From global memory, by content."""
    stored_bytes: tuple[tuple[str, int], ...]
    busy_cycles: tuple[tuple[str, int], ...]
    """By queue."""
    stalls: tuple[tuple[str, str, int], ...]
    """Cycles that a queue waited, by queue and cause."""
    layers: tuple[CountedLayer, ...]
    energy_picojoules: float | None = None
    """Of all layers; None in older traces."""
    energy_sources: tuple[tuple[str, str], ...] = ()
    """By engine, scratchpad and memory: where its figure is from."""
    scratchpads: tuple[ScratchpadRecord, ...] = ()
    memories: tuple[MemoryRate, ...] = ()
    """Of the machine, in the order of its addresses."""
    bound_cycles: float | None = None
    """What the multiply-accumulates of the model and `bound_bytes` take at the machine's peaks;
    None where instructions were edited."""
    bound_bytes: int | None = None
    """Weights, inputs and outputs of the parts that run on the machine, each once."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Layers in order: those that tensors on the chip connect are a group."""
    searches: tuple[SearchedLayer, ...] = ()

    @property
    def bytes(self) -> int:
        """Between global memory and scratchpads."""
        return sum(size for _, size in (*self.loaded_bytes, *self.stored_bytes))

    @property
    def coded_weights(self) -> tuple[int, int]:
        """Bytes of coded weights, as they are loaded and once they are decoded."""
        coded = sum(layer.coded_bytes for layer in self.layers)
        return coded, sum(layer.decoded_bytes for layer in self.layers)

    @property
    def energy_by_part(self) -> dict[str, float]:
        """Picojoules of all layers by engine, scratchpad and memory, the largest first."""
        parts: Counter[str] = Counter()
        for layer in self.layers:
            parts.update(dict(layer.energy))
        return dict(parts.most_common())

    @property
    def utilization(self) -> float:
        """Multiply-accumulates over what the matrix engine could have done in as many cycles."""
        most = self.peak_macs_per_cycle * self.cycles
        return self.macs / most if most else 0.0
