"""The search for the tiles of a layer: by bounds and estimates first, by the timeline at last.

    found = search_layer(layer, machine, "fast")
    found.tiled, found.record.cycles, found.record.bound, found.record.gap

    none    the rule: of halved sizes the ones that load the fewest bytes
    fast    the few points with the best estimates are run on the timeline
    full    points with the lowest bounds, until none is below the best cycles, or time is over

A run is one of the timeline that predicts a program (`explorer/npu/cost/prediction.py`), so that
its cycles are those of the simulator. The gap is the part of the cycles by which a point that was
not run could be better, and no more.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from explorer.npu.cost.prediction import end_cycle
from explorer.npu.cost.steps import steps_of
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import Layer, LayerError, RoomError
from explorer.npu.layers.partition import Pieces
from explorer.npu.program.compiling import (
    Choices,
    Tiled,
    as_computed,
    tile_as,
    tile_with_reason,
    write_layer,
)
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.search.convolution import ConvolutionSpace
from explorer.npu.search.others import (
    FAST_TILES,
    CutLayer,
    axes_of,
    least_of,
    points,
    tile_count,
)
from explorer.results.runs.counted import SearchPoint
from explorer.targets.npu.machine import Machine

Search = Literal["none", "fast", "full"]
SEARCHES: tuple[Search, ...] = ("none", "fast", "full")
FAST_RUNS = 3
"""Points that a fast search runs."""
FAST_CHUNKS = 1500
"""Steps of tiles that it runs altogether."""
FULL_SECONDS = 1.0
"""Of a layer."""
MAX_POINTS, MAX_OTHERS = 200, 40
"""Points that the record of a layer keeps, of those that were run and of others; a better one than
all before is kept in any case."""
FIRST_RUNS = 8
"""Points with the best estimates that a full search begins with."""


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """What a search came to."""

    layer: str
    effort: Search
    candidates: int
    """Legal points."""
    runs: int
    """Points that were run on the timeline."""
    seconds: float
    cycles: int
    """Of the layer alone."""
    bound: int
    """That no point of the space goes below."""
    stopped: str = ""
    """Why it ended before the best point was proven; empty where it was."""
    points: tuple[SearchPoint, ...] = ()
    """Those that were run, in their order, then others with the best estimates."""

    @property
    def gap(self) -> float:
        """The part of the cycles by which the best point may be better than what was found."""
        return (self.cycles - self.bound) / self.cycles if self.cycles else 0.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """The tiles of a layer."""

    tiled: Tiled
    record: SearchRecord | None = None
    """None where nothing was searched."""
    single_buffer_reason: str = ""
    """Why nothing is loaded ahead; empty where something is."""


def search_layer(
    layer: Layer,
    machine: Machine,
    effort: Search = "fast",
    fixed: Choices | None = None,
    seconds: float = FULL_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Found:
    """`fixed`: choices that are given, by name (see `explorer.npu.CHOICES`).

    Raises `LayerError` where the machine lacks something, and where no point is legal.
    """
    begin, given = clock(), dict(fixed or {})
    if isinstance(layer, Pieces) or (effort == "none" and not given):
        tiled, reason = tile_with_reason(layer, machine)
        return Found(tiled=tiled, single_buffer_reason=reason)
    computed = as_computed(layer, machine)
    run = _Run(machine)
    try:
        if isinstance(computed, Convolution):
            _search_convolution(computed, machine, effort, given, run, clock, begin + seconds)
        else:
            _search_others(computed, machine, effort, given, run, clock, begin + seconds)
    except KeyboardInterrupt:
        if run.best is None:
            raise
        run.stopped = "it was interrupted"
    if run.best is None:
        if given:
            raise run.problem or RoomError(f"{layer.name}: no tiles have {_words(given)}")
        tiled, reason = tile_with_reason(layer, machine)  # with what is too large
        return Found(tiled=tiled, single_buffer_reason=reason)
    reason = ""
    if run.best.buffers == 1:
        reason = "no tiles with two buffers take fewer cycles"
    record = SearchRecord(
        layer=layer.name, effort=effort, candidates=run.candidates, runs=run.runs,
        seconds=clock() - begin, cycles=run.cycles, bound=min(run.bound, run.cycles),
        stopped=run.stopped, points=(*run.points, *run.others),
    )  # fmt: skip
    return Found(tiled=run.best, record=record, single_buffer_reason=reason)


def likely_tiles(
    layer: Layer, machine: Machine, on_chip: frozenset[str], count: int
) -> list[Tiled]:
    """A few tiles with the best estimates, with what the layer loads before it computes and
    without, for a layer in a program loads that while the one before runs. `on_chip`: tensors that
    lie in the scratchpad of activations. Empty where nothing is searched."""
    if isinstance(layer, Pieces):
        return []
    computed = as_computed(layer, machine)
    found: list[Tiled] = []
    if not isinstance(computed, Convolution):
        largest, wanted = axes_of(computed, machine), set(FAST_TILES)
        listed = points(computed, machine, "fast", {})
        for point in sorted(listed, key=lambda one: tile_count(one, largest)):
            tiles = tile_count(point, largest)
            if point["buffers"] == 1 or not any(want <= tiles for want in wanted):
                continue
            with contextlib.suppress(LayerError):
                found.append(tile_as(computed, machine, point))
                wanted = {want for want in wanted if want > tiles}
        return found
    space = ConvolutionSpace(computed, machine, "fast", {}, on_chip)
    if not len(space):
        return []
    chosen: dict[int, None] = {}
    for cycles in (space.estimate, space.estimate_after_another):
        left = count
        for point in np.argsort(cycles, kind="stable")[: 4 * count].tolist():
            if space.chunk_count[point] > FAST_CHUNKS or not left:
                continue
            if point in chosen:
                left -= 1
                continue
            with contextlib.suppress(LayerError):
                found.append(space.tiled(point))
                chosen[point] = None
                left -= 1
    return found


class _Run:
    """The best so far."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.best: Tiled | None = None
        self.cycles = self.runs = self.candidates = self.bound = 0
        self.stopped = ""
        self.problem: LayerError | None = None
        self.steps: list = []
        self.points: list[SearchPoint] = []
        self.others: tuple[SearchPoint, ...] = ()

    def take(self, tiled: Tiled, bound: int = 0) -> None:
        steps, traffic = steps_of(write_layer(tiled))
        cycles = end_cycle(self.machine, steps)
        self.runs += 1
        if len(self.points) < MAX_POINTS or cycles < self.cycles:
            choices = tuple(tiles_of(tiled).items())
            self.points.append(
                SearchPoint(choices=choices, cycles=cycles, bound=bound, bytes=traffic.bytes)
            )
        if self.best is None or cycles < self.cycles:
            self.best, self.cycles, self.steps = tiled, cycles, steps


def _search_convolution(
    layer: Convolution, machine: Machine, effort: Search, given: Mapping[str, int | str],
    run: _Run, clock: Callable[[], float], end: float,
) -> None:  # fmt: skip
    space = ConvolutionSpace(layer, machine, "full" if effort == "full" else "fast", given)
    run.candidates = len(space)
    if not len(space):
        return
    bound, estimate = space.bound, space.estimate
    run.bound = int(bound.min())
    by_estimate = np.argsort(estimate, kind="stable")
    is_run = np.zeros(len(space), bool)
    chunks = 0
    for point in _order(effort, by_estimate, bound, is_run):
        if run.best is not None and bound[point] >= run.cycles:
            if effort == "full":
                continue
            is_run[point] = True
            continue
        if run.best is not None and effort != "full":
            chunks += int(space.chunk_count[point])
            if run.runs >= FAST_RUNS or chunks > FAST_CHUNKS:
                run.stopped = "a fast search runs few points"
                break
        if effort == "full" and run.best is not None and clock() > end:
            run.stopped = "its time is over"
            break
        is_run[point] = True
        try:
            run.take(space.tiled(int(point)), int(bound[point]))
        except LayerError as error:
            run.problem = error
    run.others = tuple(
        SearchPoint(choices=tuple(space.choices(point).items()), cycles=int(estimate[point]),
                    bound=int(bound[point]))
        for point in by_estimate[~is_run[by_estimate]][:MAX_OTHERS].tolist()
    )  # fmt: skip
    left = bound[~is_run]
    run.bound = int(left.min()) if left.size else run.cycles


def _order(
    effort: Search, by_estimate: np.ndarray, bound: np.ndarray, is_run: np.ndarray
) -> Iterator[int]:
    """Points in the order in which they are run."""
    if effort != "full":
        yield from by_estimate
        return
    yield from by_estimate[:FIRST_RUNS]
    for point in np.argsort(bound, kind="stable"):
        if not is_run[point]:
            yield int(point)


def _search_others(
    layer: CutLayer, machine: Machine, effort: Search, given: Mapping[str, int | str], run: _Run,
    clock: Callable[[], float], end: float,
) -> None:  # fmt: skip
    found = list(points(layer, machine, "full" if effort == "full" else "fast", given))
    largest = axes_of(layer, machine)
    run.candidates = len(found)
    wanted = set(FAST_TILES)
    ordered = sorted(found, key=lambda one: tile_count(one, largest))
    for point in ordered:
        count = tile_count(point, largest)
        if effort != "full" and run.best is not None:
            if not any(want <= count for want in wanted):
                run.stopped = "a fast search runs few points"
                continue
            if point["buffers"] == 1:
                continue
        if effort == "full" and run.best is not None and clock() > end:
            run.stopped = "its time is over"
            break
        try:
            tiled = tile_as(layer, machine, point)
        except LayerError as error:
            run.problem = error
            continue
        run.take(tiled)
        wanted = {want for want in wanted if want > count}
    if run.best is not None:
        run.bound = least_of(run.steps, machine) if run.stopped or effort != "full" else run.cycles


def _words(given: Mapping[str, int | str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in given.items())
