"""The tiles that layers other than convolutions may be cut into, and what these take at least.

There are few of them, and each is a run of the timeline. What the engines do does not depend on
tiles: of any run it is a bound on all.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from explorer.npu.cost.steps import Step
from explorer.npu.layers.accesses import VectorLayer
from explorer.npu.layers.matrices import MatrixProduct, Transposition, across_of
from explorer.npu.layers.tensors import blocks
from explorer.npu.program.compiling import CHOICES, COMPUTE, Choices
from explorer.npu.search.axes import all_sizes, fast_sizes
from explorer.npu.tiling.matrices import TiledMatrices
from explorer.npu.tiling.vector import TiledVectors
from explorer.targets.npu.machine import Machine

CutLayer = VectorLayer | MatrixProduct | Transposition
FAST_TILES = (1, 2, 4, 8)
"""Counts of tiles of which a fast search takes those of each that load the least."""


def axes_of(layer: CutLayer, machine: Machine) -> dict[str, int]:
    """By name the largest size of each axis that is cut."""
    if isinstance(layer, MatrixProduct | Transposition):
        return {
            "rows": layer.rows,
            "outputs": across_of(layer, machine),
            "inputs": blocks(layer.inner, machine.rows),
        }
    channels, height, width = layer.output.shape
    return {"rows": height, "columns": width, "blocks": blocks(channels, machine.columns)}


def points(
    layer: CutLayer, machine: Machine, effort: str, fixed: Choices
) -> Iterator[dict[str, int | str]]:
    """All, the larger tiles first; of a fast search a few of them."""
    kind = TiledMatrices if isinstance(layer, MatrixProduct | Transposition) else TiledVectors
    largest = axes_of(layer, machine)
    sizes = fast_sizes if effort == "fast" else all_sizes
    lists = {name: sizes(most) for name, most in largest.items()}
    if isinstance(layer, Transposition):  # rows follow from blocks of inputs
        lists["rows"] = [layer.rows]
    elif not isinstance(layer, MatrixProduct) and layer.mixes_channels:
        lists["blocks"] = [largest["blocks"]]
    lists["buffers"] = [2, 1]
    for name in lists:
        if name in fixed:
            lists[name] = [int(fixed[name])]
    for values in itertools.product(*(lists[name] for name in CHOICES[kind])):
        found: dict[str, int | str] = dict(zip(CHOICES[kind], values, strict=True))
        if isinstance(layer, Transposition):
            found["rows"] = min(int(found["inputs"]) * machine.rows, layer.inner)
        yield found


def tile_count(point: Mapping[str, int | str], largest: Mapping[str, int]) -> int:
    """Tiles of a point."""
    count = 1
    for name, most in largest.items():
        if name != "inputs":
            count *= blocks(most, int(point[name]))
    return count


def least_of(steps: Sequence[Step], machine: Machine) -> int:
    """Cycles that no tiles go below, of the steps of any tiles: what engines do beyond starts, a
    start of each kind of step, and the first load and the last store."""
    busy: defaultdict[int, float] = defaultdict(float)
    kinds: dict[tuple[int, str], int] = {}
    for step in steps:
        if step.dma >= 0:
            continue
        busy[step.queue] += step.least_cycles
        kinds[step.queue, step.what] = step.fixed_cycles
    for (queue, _), fixed in kinds.items():
        busy[queue] += fixed
    loads = [step.fixed_cycles for step in steps if step.dma >= 0 and step.queue < COMPUTE + 1]
    stores = [step.fixed_cycles for step in steps if step.dma >= 0 and step.queue > COMPUTE]
    return int(max(busy.values(), default=0)) + min(loads, default=0) + min(stores, default=0)
