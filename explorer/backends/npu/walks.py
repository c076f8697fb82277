"""The way of each tile of a layer through the queues, as its steps are predicted.

load     activations x 2, weights      cycle 100 to 180
compute  multiply                      cycle 181 to 240, of these it waits ...
compute  requantize
store    outputs
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from explorer.npu.cost.network import LayerPrediction
from explorer.npu.cost.prediction import StepTime
from explorer.npu.cost.tile_operands import Read
from explorer.results.runs.counted import CountedTile, TilePhase, TileRead
from explorer.targets.npu.machine import Machine

MAX_PHASES = 200
"""Of a layer: whole tiles, as many as have so many phases, but one at least."""

_Phases = dict[tuple[int, int, str], list[StepTime]]
"""Steps of a tile by chunk, queue and what they do."""


def tiles_of(layer: LayerPrediction, machine: Machine, before: int = 0) -> tuple[CountedTile, ...]:
    """The first tiles of a layer; cycles are `before` later."""
    phases: defaultdict[int, _Phases] = defaultdict(dict)
    first: dict[int, int] = {}
    for owner, time in zip(layer.owners, layer.times, strict=True):
        if owner >= 0:
            tile = layer.parts.steps[owner]
            chunk = owner - first.setdefault(tile, owner)
            step = time.step
            phases[tile].setdefault((chunk, step.queue, step.what), []).append(time)
    return tuple(_first_tiles(layer, phases, machine, before))


def _first_tiles(
    layer: LayerPrediction, phases: dict[int, _Phases], machine: Machine, before: int
) -> Iterator[CountedTile]:
    count = 0
    for number, part in enumerate(layer.parts.tiles):
        count += len(phases[number])
        if number and count > MAX_PHASES:
            return
        yield CountedTile(
            channels=_ends(part.channels),
            rows=_ends(part.rows),
            columns=_ends(part.columns),
            reads=tuple(map(_read, part.reads)),
            phases=tuple(
                _phase(key, times, machine, before) for key, times in phases[number].items()
            ),
        )


def _ends(whole: range) -> tuple[int, int]:
    return whole[0], whole[-1]


def _read(read: Read) -> TileRead:
    return TileRead(
        tensor=read.tensor, size=read.size, rows=_ends(read.rows), columns=_ends(read.columns)
    )


def _phase(
    key: tuple[int, int, str], times: list[StepTime], machine: Machine, before: int
) -> TilePhase:
    chunk, queue, what = key
    waits: Counter[str] = Counter()
    for time in times:
        waits.update(dict(time.waits))
    moved = sum(time.step.amount for time in times if time.step.dma >= 0)
    return TilePhase(
        queue=machine.queues[queue].name,
        name=what,
        chunk=chunk,
        count=len(times),
        start_cycle=before + min(time.start_cycle for time in times),
        end_cycle=before + max(time.end_cycle for time in times),
        busy_cycles=sum(time.end_cycle - time.start_cycle for time in times),
        waits=tuple(waits.items()),
        bytes=moved,
    )
