"""What a device runs: source text, a table of launches, one arena, one block of weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from explorer.results.displayed import Displayed
from explorer.results.kernels import KernelRecord
from explorer.results.source import SourceText


@dataclass(frozen=True)
class Argument:
    """A buffer that a launch reads or writes: `offset_bytes` into the arena or the weights."""

    name: str
    space: str
    """arena or weights; where the target has several memories, the name of one in the place of
    the arena. The offset counts from the beginning of the arena all the same."""
    offset_bytes: int
    size_bytes: int
    role: str
    """input, weight, output or scratch."""


@dataclass(frozen=True)
class Launch:
    """One call of a kernel. All its phases run one after another."""

    operation: str
    """Identity of the operation; the value that it makes has the same name."""
    kernel: str
    arguments: tuple[Argument, ...]
    sources: tuple[str, ...]
    """Nodes of the source model."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """An input or output of the program, as it lies in the arena."""

    name: str
    element_type: str
    """NumPy name: float32, int64 ..."""
    shape: tuple[int, ...]
    """With an open dimension at its largest size; -1 where only a run tells (on the host)."""
    offset_bytes: int
    size_bytes: int
    rows: int = 0
    """Extent of the first axis that is not 1, for each unit of the open dimension; 0: fixed."""


@dataclass(frozen=True)
class ProgramMemory:
    """One of several memories: `size_bytes` of the arena from `offset_bytes` on."""

    name: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class OpenDimension:
    """A dimension whose size is given at every run: 64 bits at an offset of the arena.

    Whatever grows with it lies at the same offset for every size, and takes the first part of its
    buffer.
    """

    name: str
    lowest: int
    highest: int
    offset_bytes: int
    size_bytes: int = 8


HALF, BYTES = "float16", "int8"


@dataclass(frozen=True)
class GrowingValue:
    """An input or output of which a call uses the first elements of an axis only: as many as the
    valid length says, and `more`."""

    name: str
    axis: int
    more: int = 0
    stored: str = ""
    """What float32 is rounded to in the program (`HALF`, `BYTES`); empty where nothing is."""
    is_turned: bool = False
    """Whether the program has its last two axes in the other order."""
    scale: str = ""
    """The input or output that holds the scales of its rows (`BYTES`)."""

    @property
    def is_kept_otherwise(self) -> bool:
        """Whether the program has other bytes than callers give for the same rows."""
        return bool(self.stored) or self.is_turned


@dataclass(frozen=True)
class ValidLength:
    """A number of the call, not a shape: how much of states with a capacity is valid.

    It is an input of its own. A call adds `rows` to it.
    """

    name: str
    """Of the input."""
    capacity: int
    rows: int
    inputs: tuple[GrowingValue, ...]
    outputs: tuple[GrowingValue, ...]
    full_masks: tuple[str, ...] = ()
    """Inputs that are masks of ones: the program is wrong for others, and refuses them."""

    @property
    def scales(self) -> frozenset[str]:
        """Inputs and outputs that hold the scales of rows: callers do not have them."""
        return frozenset(value.scale for value in (*self.inputs, *self.outputs) if value.scale)


@dataclass(frozen=True)
class OpenAxis:
    """An axis of an input or output that is shorter in a call than in the program.

    Its elements in row-major order are those of `factors`: the largest size of each, and the
    expression that says its size in a call. One factor is the usual case; a batch and a sequence
    that were joined are two.
    """

    name: str
    axis: int
    factors: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class CallMask:
    """An input of booleans that the program computes with: true where a call has an element along
    all of some axes."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[OpenAxis, ...]


@dataclass(frozen=True, kw_only=True)
class OpenSizes:
    """Dimensions that have another size in each call of one program.

    Arrays of the program have the largest sizes; a call uses the first elements of each axis.
    """

    ranges: tuple[tuple[str, int, int], ...]
    """Name, lowest and highest size."""
    numbers: tuple[tuple[str, str], ...]
    """Inputs (i64 scalars) that the program computes with, and the expression that each is."""
    masks: tuple[CallMask, ...]
    inputs: tuple[OpenAxis, ...]
    outputs: tuple[OpenAxis, ...]
    relations: tuple[tuple[str, str, str, str], ...] = ()
    """Kind, left, right and operation of what the model asks of the sizes."""
    extents: tuple[int, ...] = ()
    """Largest sizes of all open axes that values of the program have."""
    gathered: tuple[OpenAxis, ...] = ()
    """By operation: open axes of what it reads at places that are computed. A call's results are
    made of elements that it has."""

    @cached_property
    def added(self) -> tuple[str, ...]:
        """Names of the inputs that a caller does not give."""
        return (*(name for name, _ in self.numbers), *(mask.name for mask in self.masks))


@dataclass(frozen=True)
class WeightSlot:
    name: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Tap:
    """A value that can be read after the launch `step`: a dense array of `shape` in the arena.

    `layout` says how to get the logical tensor out of it: (block, halo of top, left, bottom,
    right, logical shape); see `explorer.ir.layout.unpack`.
    """

    operation: str
    result: int
    step: int
    offset_bytes: int
    size_bytes: int
    element_type: str
    shape: tuple[int, ...]
    logical_shape: tuple[int, ...]
    block: int = 0
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True)
class Chain:
    """A kernel `function(arena, weights, progress, first, last, run)` that runs steps in order.

    Step number i runs phase `steps[i][1]` of launch `steps[i][0]`. Work-items that are groups of
    their own share the tasks; they keep account in `progress`, 128 zeroed bytes per step, by the
    number of the run. A program
    with an open dimension has its size as the last argument.
    """

    function: str
    steps: tuple[tuple[int, int], ...]
    is_shared: bool = False
    """Whether there is enough to do for more than one work-item."""
    reason: str = ""
    """Why so many work-items run it; empty where nothing was asked but the number of operations."""


HOST = "host"
"""Device of a part that is interpreted."""


@dataclass(frozen=True, kw_only=True)
class ProgramPart:
    """A part of a program: one function of the placed IR, on one device or on the host.

    Values go between parts by the names that the entry function has for them.
    """

    function: str
    """Its name in the IR: main_cpu."""
    device: str
    """A target's name, or host."""
    inputs: tuple[str, ...]
    """The entry's values that it is given, in the order of its program's inputs."""
    outputs: tuple[str, ...]
    """The entry's values that it makes, in the order of its program's outputs."""
    program: Program | None = None
    """What the device runs; of a part on the host its inputs and outputs, and no kernel."""
    reason: str = ""
    """Why it runs where it does."""


@dataclass(frozen=True)
class Transfer:
    """A value that one part makes and another one reads."""

    value: str
    source: str
    """The part's function; empty for the caller."""
    destination: str
    """The part's function; empty for the caller."""
    size_bytes: int
    """0 where it is known at run time only."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Program(Displayed):
    """Everything that building and running needs, and nothing of the compiler."""

    target: str
    """The target's name."""
    processor: str = "native"
    """For which one it is compiled, as a C compiler calls it; native: for the one that runs it."""
    source: SourceText
    kernels: tuple[KernelRecord, ...]
    launches: tuple[Launch, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    taps: tuple[Tap, ...]
    weights: tuple[WeightSlot, ...]
    arena_bytes: int
    weights_bytes: int
    memories: tuple[ProgramMemory, ...] = ()
    """Of the arena, where the target has several."""
    size: OpenDimension | None = None
    """The dimension that is open, if one is; kernels whose loops end with it take its size as
    their last argument."""
    length: ValidLength | None = None
    """What says how much of its states is valid, where they have a capacity."""
    sizes: OpenSizes | None = None
    """The dimensions of which each call has its own sizes, where axes other than rows are open."""
    chain: Chain | None = None
    """The kernel by which a processor runs its phases (OpenCL); None: each is a launch.

    Phases of the chain are kernels of their own only in a build with the macro PHASES."""
    parts: tuple[ProgramPart, ...] = ()
    """In the order in which they run. Empty where the program is one device's: then this is it.

    Of several parts this is the sum: their kernels and launches in turn, their weights side by
    side, one arena for each device. Inputs and outputs are the model's."""
    results: tuple[str, ...] = ()
    """The entry's values that are the outputs, in their order; empty where there are no parts."""

    @property
    def prelude(self) -> tuple[str, ...]:
        """What of the source stands before the first kernel: all that a kernel alone needs.

        Without the condition that leaves the first kernel out of a build in parts.
        """
        if not self.kernels:
            return ()
        first, lines = self.kernels[0].source.lines, self.source.lines
        end = next((p for p in range(len(lines)) if lines[p : p + len(first)] == first), 0)
        while end and (not lines[end - 1].strip() or lines[end - 1].startswith("#if ")):
            end -= 1
        return lines[:end]

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """What goes between the parts, and between them and the caller."""
        made = {port.name: ("", port.size_bytes) for port in self.inputs}
        found: dict[tuple[str, str], Transfer] = {}
        for part in self.parts:
            for v in part.inputs:
                found[v, part.function] = Transfer(v, made[v][0], part.function, made[v][1])
            ports = () if part.program is None else part.program.outputs
            sizes = [port.size_bytes for port in ports] or [0] * len(part.outputs)
            made |= {v: (part.function, n) for v, n in zip(part.outputs, sizes, strict=True)}
        found |= {(v, ""): Transfer(v, made[v][0], "", made[v][1]) for v in self.results}
        return tuple(found.values())
