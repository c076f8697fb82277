"""What a tiled layer moves and multiplies, counted from its tiles.

The simulator's counters say the same; micro-operations are counted when instructions are written
(`LayerProgram.micro_operations_loaded`), for they are what tiles become.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from explorer.npu.tiles import Chunk, TiledLayer, constants_per_block, window


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes between global memory and scratchpads by content, and multiply-accumulates."""

    macs: int
    """Of the array: blocks that are not full count whole, a batch of positions as it is."""
    loaded_bytes: dict[str, int]
    """Without micro-operations."""
    stored_bytes: dict[str, int]


def traffic_of(tiled: TiledLayer) -> Traffic:
    """Summed over all chunks."""
    layer, machine = tiled.layer, tiled.machine
    taps = layer.kernel[0] * layer.kernel[1]
    elements: Counter[str] = Counter()
    macs = 0
    constants = None
    for chunk in tiled.chunks():
        pixels = len(chunk.rows) * len(chunk.columns)
        products = len(chunk.outputs) * len(chunk.inputs) * taps
        macs += pixels * products * machine.rows * machine.columns
        elements["activations"] += len(chunk.inputs) * _inside(tiled, chunk)
        elements["weights"] += products
        if chunk.is_first and constants != (chunk.group, chunk.outputs):
            constants = chunk.group, chunk.outputs
            elements["accumulators"] += len(chunk.outputs) * constants_per_block(machine)
        if chunk.is_last:
            elements["outputs"] += pixels * len(chunk.outputs)
    sizes = {
        content: count * machine.by_content[content].global_bytes
        for content, count in elements.items()
        if count
    }
    stored = {"outputs": sizes.pop("outputs")}
    return Traffic(macs=macs, loaded_bytes=sizes, stored_bytes=stored)


def _inside(tiled: TiledLayer, chunk: Chunk) -> int:
    """Positions of the input that a chunk reads, those of its padding left out."""
    layer = tiled.layer
    found = 1
    for axis, outputs in enumerate((chunk.rows, chunk.columns)):
        start = outputs.start * layer.strides[axis] - layer.pads[axis]
        end = start + window(layer, axis, len(outputs))
        found *= max(0, min(end, layer.input_shape[1 + axis]) - max(start, 0))
    return found
