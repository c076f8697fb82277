"""Which chains of operations could run in bands, and what would be live at once then.

    operations 3 to 7 of the program, in 8 bands    142,336 bytes, 12 us

Windows of neighbouring operations around the fullest step are looked at, longer ones where less is
live around them. What lives inside follows from the rows of each band; nothing is compiled for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.ir.layout import ROWS
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.structure import own_functions
from explorer.ir.types import static_shape
from explorer.memory.planning import buffer_bytes
from explorer.passes.lower.bands import (
    HALOS,
    Band,
    Chain,
    Halo,
    NotInBands,
    Tables,
    bands_of,
    bytes_of_rows,
    chain_bytes,
    chain_of,
    reaches_of,
)
from explorer.passes.lower.stream_rows import spatial_operations
from explorer.results import MemoryPlan

MAX_WINDOWS = 16
"""Windows that are looked at in detail, the longest ones of those that may pay."""
BAND_OVERHEAD = ((4, 0.1), (2, 0.2), (1, 1.0))
"""(rows, share): the extra time of a kernel with scratch in bands with a height that is a multiple
of `rows`, as a share of its time. The first pair that divides the height counts, so larger `rows`
come first. Bands of multiples of four and two rows can use Winograd convolution with tiles of four
and two rows; other heights cannot."""
MAX_AGAIN = 0.05
"""Multiply-adds that bands may compute again, as a share of the program's, before all other levers
are tried."""
BYTES_PER_MICROSECOND = 40_000
"""Of copies of rows, which stay in a cache."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A chain in bands: what its decision is, what would live at once, and what it would cost."""

    first: str
    last: str
    count: int
    halo: Halo
    size_bytes: int
    microseconds: float
    window: tuple[int, int]
    """Numbers of its first and last operation."""
    is_costly: bool
    """It computes more than `MAX_AGAIN` of the program's multiply-adds again."""

    @property
    def value(self) -> str:
        """The decision `stream-rows/chain/LAST`."""
        return f"{self.first}:{self.count}:{self.halo}"


class Region:
    """The operations of one function before any run in bands, and the buffers of its plan."""

    def __init__(
        self,
        operations: Sequence[TopOperation],
        weights: Tables,
        plan: MemoryPlan,
        seconds: Mapping[str, float],
        launch_seconds: float,
    ) -> None:
        self.operations = list(operations)
        self.weights = weights
        self.plan = plan
        self.seconds = seconds
        self.launch_microseconds = 1e6 * launch_seconds
        self.steps = {name: step for step, name in enumerate(plan.steps)}
        self.names = [identity_of(op) for op in self.operations]
        self.places = {name: index for index, name in enumerate(self.names)}

    @cached_property
    def _last_readers(self) -> list[int]:
        """By operation the number of its last reader; the number of all where that is unknown."""
        found = []
        for op in self.operations:
            readers = [
                self.places.get(identity_of(use.operation), len(self.operations))
                for result in op.results
                for use in result.uses
            ]
            found.append(max(readers, default=len(self.operations)))
        return found

    @cached_property
    def _are_spatial(self) -> list[bool]:
        return [_is_spatial(op, self.weights) for op in self.operations]

    def candidates(
        self, core: tuple[int, int], taken: Sequence[tuple[int, int]], limit: int
    ) -> list[Candidate]:
        """Chains that contain the operations of the core, those below the limit cheapest first.

        taken: windows of chains, of which a new one may contain all, and cut none; limit: bytes
        that may be live at once. Chains above it follow, those with the fewest bytes first.
        """
        found = [
            candidate
            for window, outside in self._windows(core, taken)
            for candidate in self._in_bands(window, outside)
        ]
        return sorted(
            found,
            key=lambda c: (c.is_costly, rank_of(c.size_bytes, c.microseconds, limit, c.value)),
        )

    # -- windows -------------------------------------------------------------------------------
    def _windows(
        self, core: tuple[int, int], taken: Sequence[tuple[int, int]]
    ) -> list[tuple[tuple[int, int], int]]:
        """(window, bytes that live around it): longer ones only where less lives around them."""
        windows = [
            (window, self._outside(window))
            for window in self._legal_windows(core)
            if not any(_cuts(window, other) for other in taken)
        ]
        found: list[tuple[tuple[int, int], int]] = []
        for item in sorted(windows, key=lambda w: (w[0][1] - w[0][0], w[1], w[0])):
            if all(item[1] < outside for _, outside in found):
                found.append(item)
        return found[-MAX_WINDOWS:]

    def _legal_windows(self, core: tuple[int, int]) -> Iterator[tuple[int, int]]:
        begin, end = core
        if not all(self._are_spatial[begin : end + 1]):
            return
        low, high = begin, end
        while low > 0 and self._are_spatial[low - 1]:
            low -= 1
        while high + 1 < len(self.operations) and self._are_spatial[high + 1]:
            high += 1
        for first in range(low, begin + 1):
            reader = max(self._last_readers[first:end], default=first)
            for last in range(max(end, first + 1), high + 1):
                reader = max([reader, *self._last_readers[max(first, last - 1) : last]])
                if reader <= last:
                    yield first, last

    def _outside(self, window: tuple[int, int]) -> int:
        """Bytes that live around a chain: what it reads, what passes by, and its result."""
        launched = (n for n in self.names[window[0] : window[1] + 1] if n in self.steps)
        first = next(launched, "")  # a view in front of it is no launch
        step = self.steps.get(first, 0)
        live = sum(
            placed.buffer.size_bytes
            for placed in self.plan.placements
            if placed.buffer.first <= step < placed.buffer.last
            # Arguments live from step 0 on, as what the first launch makes.
            and (placed.buffer.first < step or (step == 0 and first not in placed.buffer.values))
        )
        return live + buffer_bytes(self.operations[window[1]].results[0])

    # -- bands ---------------------------------------------------------------------------------
    def _in_bands(self, window: tuple[int, int], outside: int) -> Iterator[Candidate]:
        first, last = window
        try:
            chain = chain_of(self.operations[first : last + 1], self.weights)
        except NotInBands:
            return
        for count in counts(chain.rows):
            for halo in HALOS:
                try:
                    bands = bands_of(chain, count, halo)
                except NotInBands:
                    continue
                yield Candidate(
                    first=self.names[first],
                    last=self.names[last],
                    count=count,
                    halo=halo,
                    size_bytes=outside + chain_bytes(chain, bands),
                    microseconds=self._microseconds(chain, bands),
                    window=window,
                    is_costly=self._again(chain, bands) > MAX_AGAIN * self._macs,
                )

    @cached_property
    def _with_scratch(self) -> set[str]:
        """Launches that have scratch."""
        return {
            placed.buffer.id.rpartition("/scratch_")[0]
            for placed in self.plan.placements
            if "/scratch_" in placed.buffer.id
        }

    @cached_property
    def _macs(self) -> int:
        return sum(op.macs() for op in self.operations)

    def _again(self, chain: Chain, bands: Sequence[Sequence[Band]]) -> float:
        """Multiply-adds that are computed again."""
        return sum(
            op.macs() * (sum(b[i].new[1] - b[i].new[0] for b in bands) / max(1, _height(op)) - 1)
            for i, op in enumerate(chain.operations)
        )

    def _microseconds(self, chain: Chain, bands: Sequence[Sequence[Band]]) -> float:
        """What bands cost more than the whole: launches, copies of rows, rows computed again."""
        launches = sum(not own.is_empty for band in bands for own in band)
        total = (launches - len(chain.operations)) * self.launch_microseconds
        for index, op in enumerate(chain.operations):
            rows = sum(band[index].new[1] - band[index].new[0] for band in bands)
            again = rows / max(1, _height(op)) - 1
            total += max(0.0, again) * self.seconds.get(identity_of(op), 0.0) * 1e6
            if identity_of(op) in self._with_scratch:
                heights = [band[index].new[1] - band[index].new[0] for band in bands]
                slower = sum(
                    rows * next(share for unit, share in BAND_OVERHEAD if rows % unit == 0)
                    for rows in heights
                )
                share = slower / max(1, _height(op))
                total += share * self.seconds.get(identity_of(op), 0.0) * 1e6
            tails = [max(0, band[index].new[0] - band[index].kept[0]) for band in bands]
            copied = bytes_of_rows(op.results[0], 2 * sum(tails))
            total += copied / BYTES_PER_MICROSECOND
            total += 2 * self.launch_microseconds * sum(tail > 0 for tail in tails)
        return total


def _cuts(window: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether a window has some of another one's operations, and not all."""
    (begin, end), (first, last) = window, other
    return first <= end and begin <= last and not (begin <= first and last <= end)


def rank_of(size_bytes: int, microseconds: float, limit: int, name: str) -> tuple:
    """Order of levers: those below the limit by time, the others by bytes."""
    if size_bytes <= limit:
        return 0, microseconds, size_bytes, name
    return 1, size_bytes, microseconds, name


def counts(rows: int) -> list[int]:
    """Numbers of bands for so many rows: of 1, 2, 3, 4, 6, 8 ... rows each."""
    heights = [h for power in range(16) for h in (2**power, 3 * 2**power) if 2 * h <= rows]
    return sorted({-(-rows // height) for height in heights if height < rows})


def regions_of(
    program: Snapshot, plan: MemoryPlan, seconds: Mapping[str, float], launch_seconds: float
) -> list[Region]:
    """The regions of all functions that a device of this target runs."""
    return [
        Region(spatial_operations(function), program.weights, plan, seconds, launch_seconds)
        for function in own_functions(program.program)
    ]


def _is_spatial(op: TopOperation, weights: Tables) -> bool:
    try:
        reaches_of(op, weights)
    except NotInBands:
        return False
    return _height(op) > 1


def _height(op: TopOperation) -> int:
    return static_shape(op.results[0])[ROWS]
