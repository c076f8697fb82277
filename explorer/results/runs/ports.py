"""What limits the hot loops of a program on a core: an analyser's verdict beside our cost model's.

    LoopPorts(kernel="conv_3x3_2", loop=("cb", "p", "q", "ci"), cycles=8.1, predicted_cycles=8.0,
              limit="multiply-add", spills=0, ports=(("Zn3FPP0", 8.0), ...))

Cycles are of one iteration of the loop in the kernel's source, also where the compiler wrote
several of them into one. Nothing is executed: the core may be another one than this machine's.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.displayed import Displayed

KINDS = ("multiply-add", "arithmetic", "load", "store", "shuffle", "spill", "integer", "branch")
"""Of instructions. shuffle: what moves elements within or between vector registers; spill: a move
to the stack or back, of what had no register; integer: addresses, counters and masks."""
CHAIN, ISSUE = "dependency", "issue"
LIMITS = (*KINDS, CHAIN, ISSUE)
"""What a loop can wait for: the port of a kind of instruction, a chain of instructions that need
each other's results, or the number of instructions that begin in a cycle."""


@dataclass(frozen=True, kw_only=True)
class LoopPorts:
    """A hot loop of a kernel as a core executes it."""

    kernel: str
    loop: tuple[str, ...]
    """Names of the loops of the source that it stands in, the outermost first, and its own."""
    lines: tuple[int, int]
    """First and last line in the kernel's source, from 0."""
    text: tuple[str, ...]
    """The instructions."""
    share: float
    """Of the cycles that the cost model predicts for all launches of the program."""
    merged: int
    """Iterations of the source's loop in one of the machine code's."""
    cycles: float
    """Of an iteration, says the analyser."""
    bound: float
    """The same if nothing waited: what the busiest port needs."""
    limit: str
    """One of `LIMITS`."""
    ports: tuple[tuple[str, float], ...]
    """Cycles for which an iteration keeps every port busy, the busiest first."""
    counts: tuple[tuple[str, float], ...]
    """Instructions of an iteration by kind (`KINDS`), those that there are."""
    spills: float
    """Values that an iteration writes to the stack or reads from it for want of registers."""
    predicted_cycles: float
    """Of an iteration, says the cost model."""
    predicted_bound: str
    """arithmetic, loads, stores, issue, latency or spills."""
    peak_cycles: float
    """What its multiply-adds alone take, on all units of the core; 0 where it has none."""

    @property
    def error(self) -> float:
        """Of the cost model, as a part of the analyser's cycles; negative where it hopes."""
        return self.predicted_cycles / self.cycles - 1 if self.cycles else 0.0

    @property
    def should_multiply(self) -> bool:
        """Whether the loop multiplies and adds, and something else limits it."""
        return self.peak_cycles > 0 and self.limit != KINDS[0]


@dataclass(frozen=True, kw_only=True, repr=False)
class PortsRecord(Displayed):
    """All hot loops of a program on one core."""

    core: str
    """Its name in this project (`sapphire-rapids`)."""
    model: str
    """The core whose ports the analyser counted, in LLVM's words; not always the same."""
    analyser: str
    """`LLVM 19.1.7`."""
    compiler: str
    """`gcc 12.2.0`, and the flags that name the processor."""
    note: str
    """What else to know: what stood in for something; empty where nothing did."""
    loops: tuple[LoopPorts, ...]
    """The hottest first."""
    left_out: tuple[tuple[str, str], ...] = ()
    """(kernel, why its loops are not among them)."""

    @property
    def within(self) -> float:
        """The part of the loops for which the cost model is right within `TOLERANCE`."""
        near = sum(abs(loop.error) <= TOLERANCE for loop in self.loops)
        return near / len(self.loops) if self.loops else 1.0


TOLERANCE = 0.15
