"""Where every activation lives: lifetimes in, offsets out, with the bound and the attempts."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.displayed import Displayed

MEMORY_ALIGNMENT_BYTES = 64
"""One of several memories begins at a multiple of so many bytes of the plan."""


@dataclass(frozen=True)
class BufferPart:
    """A value that lies in some of a buffer's bytes: a piece of a concat, or a slice.

    With a pitch the first `run_bytes` of every `pitch_bytes` are its own: a band of rows.
    """

    value: str
    offset_bytes: int
    """From the beginning of the buffer."""
    size_bytes: int
    first: int
    last: int
    """Steps [first, last) in which it is written and read."""
    is_view: bool = False
    """It shows bytes that other values are written to."""
    run_bytes: int = 0
    pitch_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class BufferLifetime:
    """A buffer to be placed: live in steps [first, last), `size_bytes` at `alignment_bytes`.

    A step is the index of a launch. Buffers whose value is only another view of one (reshape,
    in-place results) share it: `values` lists all of them, the owner first, and `parts` those that
    do not fill it.
    """

    id: str
    values: tuple[str, ...]
    """Identities of the operations whose results it holds."""
    size_bytes: int
    first: int
    last: int
    alignment_bytes: int = 64
    parts: tuple[BufferPart, ...] = ()
    state: str = ""
    """The state that lies here from call to call, by the name of its input; empty for none."""


@dataclass(frozen=True)
class PlacedBuffer:
    buffer: BufferLifetime
    offset_bytes: int
    memory: str = ""
    """The memory in which it lies, where the target has several; empty for the only one."""


@dataclass(frozen=True)
class PlanAttempt:
    """One strategy that was tried, and the peak that it reached."""

    strategy: str
    peak_bytes: int
    seconds: float
    is_chosen: bool = False
    """The plan is this one's; the first of those with the lowest peak."""


@dataclass(frozen=True, kw_only=True)
class FitStep:
    """A decision that was tried so that the program fits into a budget."""

    lever: str
    """`schedule`, `layout`, `recompute` or `bands`."""
    address: str
    value: str | int | None
    bytes_before: int
    """Peak of the plan without it."""
    bytes_after: int
    microseconds: float
    """Predicted time that it adds to a run."""
    taken: bool
    reason: str
    """Why it was not taken."""


@dataclass(frozen=True)
class RefusedPlacement:
    """A place that was tried for a buffer, and what lay there already."""

    buffer: str
    offset_bytes: int
    obstacle: str
    """The buffer in the way, which lives at the same time."""
    overlap_bytes: int
    """How much of both would have been the same bytes."""


@dataclass(frozen=True)
class PlannedMemory:
    """One of several memories of a plan: the bytes that its buffers take, from its beginning."""

    name: str
    first_byte: int
    """In the plan, where memories lie one after the other."""
    size_bytes: int
    buffers: int


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryPlan(Displayed):
    placements: tuple[PlacedBuffer, ...]
    peak_bytes: int
    bound_bytes: int
    """Most bytes live at once: no plan can be smaller."""
    optimal: bool
    """True when the peak is proven the smallest possible."""
    attempts: tuple[PlanAttempt, ...]
    live_bytes: tuple[int, ...]
    """Bytes live in every step."""
    steps: tuple[str, ...]
    """Identity of the launch at every step."""
    total_bytes: int
    """Sum of all buffers: what it would take without sharing."""
    refusals: tuple[RefusedPlacement, ...] = ()
    """Places that the chosen strategy refused, by buffer from the largest, as they were tried."""
    refusals_left_out: int = 0
    """Buffers, the smallest ones, whose refused places are not recorded."""
    fit: tuple[FitStep, ...] = ()
    """Decisions that were tried to fit into a budget, in order; none where it fits by itself."""

    @property
    def offsets(self) -> dict[str, int]:
        """Offset in bytes of every buffer by its identity."""
        return {p.buffer.id: p.offset_bytes for p in self.placements}

    @property
    def chosen_attempt(self) -> int | None:
        """Index of the attempt that the plan is of; where none says so (an older trace), the first
        with the plan's peak."""
        chosen = [i for i, attempt in enumerate(self.attempts) if attempt.is_chosen]
        as_good = [i for i, a in enumerate(self.attempts) if a.peak_bytes == self.peak_bytes]
        return next(iter([*chosen, *as_good]), None)


def memories_of(plan: MemoryPlan) -> tuple[PlannedMemory, ...]:
    """The memories of a plan in the order of their bytes; none where there is one."""
    by_memory: dict[str, list[PlacedBuffer]] = {}
    for placed in sorted(plan.placements, key=lambda placed: placed.offset_bytes):
        if placed.memory:
            by_memory.setdefault(placed.memory, []).append(placed)
    found: list[PlannedMemory] = []
    end = 0
    for name, own in by_memory.items():
        alignment = max([MEMORY_ALIGNMENT_BYTES, *(p.buffer.alignment_bytes for p in own)])
        first = end + -end % alignment
        end = max(p.offset_bytes + p.buffer.size_bytes for p in own)
        found.append(PlannedMemory(name, first, end - first, len(own)))
    return tuple(found)
