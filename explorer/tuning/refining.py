"""The method `best`: thresholds chosen together, by what they do to the outputs of the network.

    ranges = refined_ranges(program, histograms, examples)      {"image": Range(0, 1), ...}

Each tensor's own error says little: some errors are rounded away by the next layer, others travel
to the end. So a network in which all tensors are quantized runs over some examples
(`simulation.py`), beginning with the single method that does best; then each tensor in turn gets
the ranges of the other methods, and some a little wider or narrower, and keeps what helps. That is
coordinate descent, as in Nahshan et al., Loss Aware Post-training Quantization, 2019, with the
outputs' noise in the place of the loss, for which no labels are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.ir.types import QuantizedType
from explorer.quantization.histogram import Histogram
from explorer.quantization.methods import RANGES, Range, squared_error
from explorer.quantization.quantize_tensors import type_of
from explorer.quantization.table import Threshold
from explorer.tuning.simulation import SimulatedProgram, Simulator

BITS = 8
FACTORS = (0.7, 0.85, 0.93, 1.08, 1.2)
"""Of the ends of a range that was chosen: what else is tried."""
MAX_EXAMPLES = 64
MIN_EXAMPLES = 8
"""However large the program is, if there are as many: what is best for four of them need not be for
others. Fewer ranges are tried then."""
MAX_CANDIDATES = 12
"""Of a tensor."""
BUDGET_MACS = 2e11
"""Multiply-adds of all runs together: half a minute of one core with vectors of 256 bits."""
MIN_GAIN = 0.005
"""Of the noise, by which a change must lower it."""
SAME = 0.02
"""Ranges whose ends differ by less of their width are one candidate."""
MIN_RATIO = 1e-9
"""Of noise to signal in one example: 90 dB are as good as equal."""

Progress = Callable[[str, int, int], None]
Outputs = Sequence[np.ndarray]
Note = Callable[[str, Range, float], None]
"""Is told a tensor, a range that was tried for it, and the noise of the outputs with that."""


def refined_ranges(
    program: SimulatedProgram,
    histograms: Mapping[str, Histogram],
    examples: Sequence[Mapping[str, np.ndarray]],
    progress: Progress | None = None,
    note: Note | None = None,
) -> dict[str, Range]:
    """The range of every tensor; examples: inputs, of which as many are used as can be afforded."""
    tensors = program.tensors
    tables = {
        name: {tensor: method(histograms[tensor], BITS) for tensor in tensors}
        for name, method in RANGES.items()
    }
    count, candidates = affordable(program, len(examples))
    with Simulator(program) as simulator:
        noise = Noise(simulator, examples[:count])
        scores = {name: noise.of(ranges).noise for name, ranges in tables.items()}
        chosen = dict(tables[min(scores, key=scores.__getitem__)])
        lowest = noise.of(chosen)
        for number, tensor in enumerate(tensors):
            if progress is not None:
                progress(f"threshold of {tensor}", number, len(tensors))
            own = [table[tensor] for table in tables.values()]
            if note is not None:
                note(tensor, chosen[tensor], lowest.noise)
            for tried in candidates_of(histograms[tensor], chosen[tensor], own, candidates):
                found = noise.with_range(tensor, tried)
                if note is not None:
                    note(tensor, tried, found.noise)
                if is_better(found, lowest):
                    chosen[tensor], lowest = tried, found
            simulator.change(tensor, kind_of(chosen[tensor]))
    return chosen


def affordable(program: SimulatedProgram, examples: int) -> tuple[int, int]:
    """How many examples and candidates of each tensor the budget allows for."""
    runs = BUDGET_MACS / max(program.total_macs, 1)
    per_tensor = runs / len(program.tensors)
    count = int(np.clip(per_tensor / MAX_CANDIDATES, MIN_EXAMPLES, MAX_EXAMPLES))
    candidates = int(np.clip(per_tensor / count, 0, MAX_CANDIDATES))
    return min(count, examples), candidates


def is_better(found: Measured, lowest: Measured) -> bool:
    """Whether the noise is clearly less: by more than chance, over examples.

    The mean of the differences of logarithms lies more than its own standard error below 0.
    """
    differences = found.logarithms - lowest.logarithms
    chance = np.std(differences) / np.sqrt(max(len(differences) - 1, 1))
    return found.noise < (1 - MIN_GAIN) * lowest.noise and np.mean(differences) < -chance


def candidates_of(
    histogram: Histogram, chosen: Range, own: Sequence[Range], most: int
) -> Iterator[Range]:
    """Ranges to try in the place of the chosen one, those of the least squared error."""
    low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
    scaled = [Range(max(chosen.low * f, low), min(chosen.high * f, high)) for f in FACTORS]
    distinct = [chosen]
    for tried in (*own, *scaled):
        if not any(is_same(d, tried) for d in distinct):
            distinct.append(tried)
    return iter(sorted(distinct[1:], key=lambda r: squared_error(histogram, r, BITS))[:most])


def is_same(tried: Range, other: Range) -> bool:
    """Whether the ends differ by too little to tell."""
    width = SAME * max(other.high - other.low, 1e-30)
    return max(abs(tried.low - other.low), abs(tried.high - other.high)) <= width


@dataclass(frozen=True)
class Measured:
    """Noise to signal of the outputs over N examples.

        noise = sqrt(sum e^2 / sum b^2 * exp(mean over examples of log(sum_i e^2 / sum_i b^2)))

    The first ratio is that of the output's SQNR, in which a few large errors are all that counts;
    in the second one, the geometric mean, every example counts alike. Over several outputs it is
    the geometric mean of theirs.
    """

    logarithms: np.ndarray
    """(N,) of the ratio of each example."""
    noise: float


class Noise:
    """What ranges add to the outputs, over some examples."""

    def __init__(self, simulator: Simulator, examples: Sequence[Mapping[str, np.ndarray]]):
        self._simulator = simulator
        self._examples = examples
        simulator.set({})
        self._exact = simulator.outputs(examples)

    def of(self, ranges: Mapping[str, Range]) -> Measured:
        self._simulator.set({tensor: kind_of(chosen) for tensor, chosen in ranges.items()})
        return measured(self._simulator.outputs(self._examples), self._exact)

    def with_range(self, tensor: str, chosen: Range) -> Measured:
        """With another range for one tensor, which stays until it is changed again."""
        self._simulator.change(tensor, kind_of(chosen))
        return measured(self._simulator.outputs(self._examples), self._exact)


def measured(actual: Outputs, exact: Outputs) -> Measured:
    """How far outputs (N, ...) are from the exact ones."""
    logarithms, together = [], []
    for a, b in zip(actual, exact, strict=True):
        if b.dtype.kind != "f":
            continue
        wide = b.reshape(len(b), -1).astype(np.float64)
        errors = np.sum((a.reshape(len(a), -1) - wide) ** 2, axis=1)
        signals = np.maximum(np.sum(wide**2, axis=1), 1e-30)
        logarithms.append(np.log(np.maximum(errors / signals, MIN_RATIO)))
        together.append(np.log(max(errors.sum() / signals.sum(), MIN_RATIO)))
    each = np.mean(logarithms, axis=0)
    return Measured(each, float(np.exp((np.mean(together) + np.mean(each)) / 2)))


def kind_of(chosen: Range) -> QuantizedType:
    """The type that a range is represented in; any where it is only 0."""
    return type_of(Threshold("", chosen.threshold or 1.0, chosen.low, chosen.high))
