"""The method `best` judges corrections as it judges thresholds: by the noise of the outputs.

    kinds, table = judged_corrections(model, data, ...)      ("smooth", "adaround"), the table

Factors (`smooth`, `cle`) are tried where a channel's range is far beyond those of the others: the
program with them, with the thresholds of the single method that does best, is compared with the
program without. Then thresholds are chosen; and where the outputs are noisier than `ENOUGH_DB`,
what is done to weights (`adaround`, `bias`) is judged with these. What is tried and not clearly
better is left out; where nothing is judged, corrections are those of `DEFAULT`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.accuracy.metrics import decibels
from explorer.compilation.settings.settings import Progress, correcting_passes
from explorer.quantization.corrections.record import (
    ADAROUND,
    BIAS,
    CLE,
    DEFAULT,
    SMOOTH,
    Corrections,
)
from explorer.quantization.methods import RANGES, Range
from explorer.quantization.table import ThresholdTable
from explorer.tuning.calibration import BEST, Observed, thresholds_of
from explorer.tuning.refining import BITS, Measured, Noise, affordable, is_better
from explorer.tuning.simulation import SimulatedProgram, Simulator, simulated_program

FAR = 8.0
"""How many times as wide as the median a channel's range is, at least, for factors to be tried."""
ENOUGH_DB = 30.0
"""Of the outputs' signal to noise: what is done to weights is not judged where there are more."""
MIN_RATIO = 10**-0.05
"""Of noise to that of the default, for other corrections: half a decibel less."""
FACTORS = ((SMOOTH,), (CLE,))
WEIGHTS = (DEFAULT, (), (ADAROUND, BIAS), (BIAS,))
"""What may be done to weights, the default first."""

Observe = Callable[[Corrections], Observed]
Correct = Callable[[ThresholdTable, Observed, Sequence[str], Corrections], ThresholdTable]


@dataclass(frozen=True)
class Judge:
    """What is asked of a calibration: to observe a program with factors, to correct a table."""

    limits: Corrections
    """Of all channels that can have a factor."""
    observe: Observe
    correct: Correct
    progress: Progress | None = None

    def table(self) -> ThresholdTable:
        """The thresholds and corrections that do best; warnings say what was judged."""
        record, observed, words = self._factors()
        table = thresholds_of(observed, BEST, self.progress)
        kinds = DEFAULT
        if signal_db(table) < ENOUGH_DB:
            kinds, more = self._weights(table, observed, record)
            words += more
        self._tell("corrections of the table")
        found = self.correct(table, observed, (*record.kinds, *kinds), record)
        return _with_warnings(found, words)

    def _factors(self) -> tuple[Corrections, Observed, list[str]]:
        """The record with the factors that lower the noise most, or without any."""
        none = Corrections(kinds=())
        observed, words = self.observe(none), []
        if not has_far_channels(self.limits):
            return none, observed, words
        best = first = measured_first(observed)
        chosen: tuple[Corrections, Observed] = none, observed
        for kinds in FACTORS:
            self._tell(f"{kinds[0]} of channels")
            record = Corrections(kinds=kinds, limits=self.limits.limits)
            other = self.observe(record)
            found = measured_first(other)
            if is_clearly_better(found, best):
                best, chosen = found, (record, other)
        names = " and ".join(kinds[0] for kinds in FACTORS)
        kept = chosen[0].kinds[0] if chosen[0].kinds else "none of them"
        words.append(
            f"channels differ {FAR:g} times and more in range, so that {names} were tried: {kept} "
            f"is taken, outputs with {_db(best)} instead of {_db(first)} before thresholds are "
            "chosen"
        )
        return *chosen, words

    def _weights(
        self, table: ThresholdTable, observed: Observed, record: Corrections
    ) -> tuple[tuple[str, ...], list[str]]:
        """What is done to weights, with these thresholds; the default where nothing is better."""
        noises: dict[tuple[str, ...], Measured] = {}
        for kinds in WEIGHTS:
            self._tell(f"corrections {', '.join(kinds) or 'none'}")
            made = self.correct(table, observed, (*record.kinds, *kinds), record).corrections
            assert made is not None
            noises[kinds] = measured(observed, ranges_of(table), made)
        best = DEFAULT
        for kinds in WEIGHTS[1:]:
            if is_clearly_better(noises[kinds], noises[best]):
                best = kinds
        tried = ", ".join(f"{'+'.join(k) or 'none'} {_db(n)}" for k, n in noises.items())
        return best, [f"corrections of weights were judged by the outputs: {tried}"]

    def _tell(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what, 0, 1)


def has_far_channels(limits: Corrections) -> bool:
    """Whether a channel that can have a factor is far wider than the others of its tensor."""
    for ends in limits.limits.values():
        widths = np.abs(ends.astype(np.float64)).max(axis=0)
        widths = widths[widths > 0]
        if widths.size and widths.max() > FAR * np.median(widths):
            return True
    return False


def signal_db(table: ThresholdTable) -> float:
    """Of the outputs, as the search for thresholds left them; infinite where it tried nothing."""
    known = [
        candidate.outputs_db
        for tensor in table.observations.values()
        for candidate in tensor.candidates
        if candidate.outputs_db is not None
    ]
    return max(known, default=float("inf"))


def measured_first(observed: Observed) -> Measured:
    """With the ranges of the single method that does best."""
    tables = [
        {name: method(observed.histograms[name], BITS) for name in observed.tensors}
        for method in RANGES.values()
    ]
    program = _program(observed, observed.corrections)
    with Simulator(program) as simulator:
        noise = _noise(program, simulator, observed)
        found = [noise.of({t: table[t] for t in program.tensors}) for table in tables]
    return min(found, key=lambda one: one.noise)


def measured(observed: Observed, ranges: dict[str, Range], record: Corrections) -> Measured:
    """With given ranges and everything that the record says."""
    program = _program(observed, correcting_passes(record, integers_only=observed.integers_only))
    with Simulator(program) as simulator:
        noise = _noise(program, simulator, observed)
        return noise.of({t: ranges[t] for t in program.tensors})


def ranges_of(table: ThresholdTable) -> dict[str, Range]:
    return {name: Range(t.low, t.high) for name, t in table.thresholds.items()}


def is_clearly_better(found: Measured, lowest: Measured) -> bool:
    """By half a decibel, and by more than chance."""
    return found.noise < MIN_RATIO * lowest.noise and is_better(found, lowest)


def _program(observed: Observed, corrections: Sequence) -> SimulatedProgram:
    return simulated_program(
        observed.source,
        observed.dimensions,
        returns_logits=True,
        integers_only=observed.integers_only,
        corrections=corrections,
        weight_bits=observed.weight_bits,
    )


def _noise(program: SimulatedProgram, simulator: Simulator, observed: Observed) -> Noise:
    count, _ = affordable(program, len(observed.kept))
    return Noise(simulator, observed.kept[:count])


def _db(found: Measured) -> str:
    return f"{decibels(found.noise):.1f} dB"


def _with_warnings(table: ThresholdTable, words: Sequence[str]) -> ThresholdTable:
    return replace(table, warnings=(*table.warnings, *words))
