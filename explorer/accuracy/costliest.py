"""Which quantized layer costs most: bisection over sets of layers that are quantized together.

    found = costliest(["image", "conv1", "relu1"], noise)      noise(layers) of the outputs
    found.layer, found.noise, found.is_certain

Nothing is wrong where a threshold is: outputs are only further from the float model's. So the first
half of the layers is quantized alone, and the other half, and the noisier one is divided again. The
set with most noise of all that were measured is the next to be divided (Dijkstra's order of a best-
first search, with the noise of a set as the bound of what any layer in it can cost). As long as
noise only grows with the layers that are quantized, the single layer that is reached first costs
most. A layer that stands out takes 2 log2(n) runs; where all cost alike, the search descends
without looking back after `most_runs`, and says so.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Noise = Callable[[Sequence[str]], float]
"""Noise to signal of the outputs with these layers quantized and all others in floats."""
MAX_RUNS = 32


@dataclass(frozen=True)
class Found:
    """The layer, and what it costs alone."""

    layer: str
    noise: float
    runs: int
    is_certain: bool
    """Whether no other can cost more, as far as noise grows with what is quantized."""


def costliest(layers: Sequence[str], noise: Noise, most_runs: int = MAX_RUNS) -> Found | None:
    """The layer that adds most noise by itself; None where there are none.

    most_runs: after so many only the noisier half is divided any further.
    """
    if not layers:
        return None
    runs = 0

    def measured(start: int, end: int) -> tuple[float, int, int]:
        nonlocal runs
        runs += 1
        return -noise(layers[start:end]), start, end

    open_sets = [measured(0, len(layers))]
    is_certain = True
    while True:
        negative, start, end = heapq.heappop(open_sets)
        if end - start == 1:
            return Found(layers[start], -negative, runs, is_certain)
        if runs >= most_runs:
            open_sets, is_certain = [], False
        middle = (start + end) // 2
        for half in ((start, middle), (middle, end)):
            heapq.heappush(open_sets, measured(*half))
