"""Layers of a machine whose cycles are counted, as data for the roofline and the pane of layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.results import Trace
from explorer.results.runs.counted import CountedLayer, CountedRun
from explorer.views.payload.text import Json


def counted_payload(run: CountedRun) -> Json:
    """Peaks, and of every layer what a roofline places. Rates in bytes per cycle."""
    return {
        "cycles": run.cycles,
        "predicted": run.predicted_cycles,
        "peak": run.peak_macs_per_cycle,
        "utilization": run.utilization,
        "memories": [[m.memory, m.bytes_per_cycle, m.channels] for m in run.memories],
        "layers": [
            {
                "operation": layer.operation,
                "title": layer.title,
                "macs": layer.macs,
                "arrayMacs": layer.array_macs,
                "bytes": layer.bytes,
                "cycles": layer.cycles,
                "predicted": layer.predicted and layer.predicted.cycles,
                "least": layer.least_cycles,
                "bound": layer.bound,
            }
            for layer in run.layers
        ],
    }


def layers_payload(trace: Trace) -> Json:
    """Of every layer, in its place of `counted_payload`, what its queues did and were to do."""
    run = None if trace.profile is None else trace.profile.counted
    if run is None:
        return None
    pads = {pad.name: place for place, pad in enumerate(run.scratchpads)}
    return {
        "scratchpads": [[pad.name, pad.size_bytes, pad.banks] for pad in run.scratchpads],
        "layers": [
            {**_queues_payload(layer), "uses": _uses_payload(layer, pads),
             "usesLeftOut": layer.uses_left_out, **_tiles_payload(layer)}
            for layer in run.layers
        ],
    }  # fmt: skip


def _uses_payload(layer: CountedLayer, pads: Mapping[str, int]) -> Json:
    return [
        [pads[use.scratchpad], use.content, use.first_element, use.last_element, use.offset_bytes,
         use.size_bytes, use.start_cycle, use.ready_cycle, use.end_cycle]
        for use in layer.uses
    ]  # fmt: skip


def _tiles_payload(layer: CountedLayer) -> dict[str, Json]:
    return {
        "tiledSize": list(layer.tiled_size),
        "tilesLeftOut": layer.tiles_left_out,
        "tiles": [
            {
                "channels": list(tile.channels),
                "rows": list(tile.rows),
                "columns": list(tile.columns),
                "reads": [[r.tensor, list(r.size), list(r.rows), list(r.columns)]
                          for r in tile.reads],
                "phases": [
                    [p.queue, p.name, p.chunk, p.count, p.start_cycle, p.end_cycle, p.busy_cycles,
                     p.bytes, [list(wait) for wait in p.waits]]
                    for p in tile.phases
                ],
            }
            for tile in layer.tiles
        ],
    }  # fmt: skip


def _queues_payload(layer: CountedLayer) -> dict[str, Json]:
    predicted = layer.predicted
    terms = () if predicted is None else predicted.terms
    return {
        "first": layer.first_cycle,
        "instructions": layer.instructions,
        "memories": [list(pair) for pair in layer.memory_bytes],
        "queues": [
            {
                "name": queue,
                "busy": busy,
                "waits": _of_queue(layer.waits, queue),
                "predictedBusy": predicted and sum(t.cycles for t in terms if t.queue == queue),
                "predictedWaits": predicted and _of_queue(predicted.waits, queue),
                "terms": [[t.name, t.count, t.cycles, t.why] for t in terms if t.queue == queue],
            }
            for queue, busy in layer.busy
        ],
    }


def _of_queue(waits: Iterable[tuple[str, str, int]], queue: str) -> Json:
    return [[cause, cycles] for name, cause, cycles in waits if name == queue]
