"""Accuracy of quantized models, ours and those of other tools, on the same data.

    python benchmarks/accuracy --models DIR --journal accuracy.json [MODEL ...] [--only METHOD,...]

DIR holds the models and data (by default what `EXPLORER_MODELS` names). Every result is in the
journal as soon as it is known: a run that was interrupted goes on, and tries again what failed.
Data that calibrate are never those that are tested.

`best+adaround` is what `explorer calibrate` does by default; a method without a plus corrects
nothing.
Peers run in virtual environments of their own, which are below `--environments FOLDER` or are made
there from PyPI: onnxruntime's static quantization (min-max, percentile, entropy), NNCF, and AIMET.
A peer that cannot be installed or fails has a cell that says so.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from cases import CASES, Case
from peers import GENERAL, PEERS, PeerError, interpreter, outputs_of
from results import OURS, Journal, Result, table

import explorer
from explorer.accuracy.metrics import decibels, noise_to_signal
from explorer.compilation import Compilation
from explorer.errors import ExplorerError
from explorer.importers import SourceModel
from explorer.quantization.table import ThresholdTable
from explorer.tuning.calibration import BEST, METHODS, Observed, observe, thresholds_of
from explorer.tuning.correcting import with_corrections
from explorer.tuning.sensitivity import largest

OWN = (OURS, "min-max+adaround", *METHODS)

Outputs = list[np.ndarray]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Accuracy of quantized models.")
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--models", type=Path, default=os.environ.get("EXPLORER_MODELS"))
    parser.add_argument("--journal", type=Path, help="results; known ones are not measured again")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache/explorer-peers")
    parser.add_argument("--only", default=",".join((*OWN, *PEERS)), help="methods, by commas")
    chosen = parser.parse_args(arguments)
    if chosen.models is None:
        parser.error("--models DIR, or EXPLORER_MODELS")
    unknown = [name for name in chosen.names if name not in CASES]
    if unknown:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(CASES)}")
    journal, only = Journal(chosen.journal), chosen.only.split(",")
    strange = [method for method in only if method not in (*OWN, *PEERS)]
    if strange:
        parser.error(f"there is no {strange[0]}; there are {', '.join((*OWN, *PEERS))}")
    names = chosen.names or list(CASES)
    for name in names:
        missing = [method for method in only if not journal.has(name, method)]
        if missing:
            case = CASES[name](chosen.models, interpreter(GENERAL, chosen.environments))
            measure(name, case, missing, journal, chosen.environments)
    for line in table(journal.results, names, only, PEERS):
        print(line)
    return 0


def measure(name: str, case: Case, methods: Sequence[str], journal: Journal, folder: Path) -> None:
    """Adds a result for each method to the journal; folder: of the peers' environments."""
    one = {name: array[0] for name, array in case.test.items()}
    plain = explorer.compile(case.model, inputs=one)
    exact = run(plain, case)
    made = Made(plain.model, case, dict(plain.settings.dimensions))
    for method in methods:
        result = Result(model=name, method=method)
        try:
            if method in PEERS:
                actual = outputs_of(method, case, folder)
            else:
                thresholds = made.table(method)
                quantized = explorer.compile(plain.model, inputs=one, quantization=thresholds)
                actual = run(quantized, case)
            result = judged(result, actual, exact, case)
        except (ExplorerError, PeerError) as error:
            result = replace(result, problem=f"fails: {error}".replace("|", "/")[:120])
        journal.add(result)
        print(result.model, result.method, result.problem or f"{result.sqnr_db:.1f} dB", flush=True)


@dataclass
class Made:
    """Tables of one model, from what was seen of it once."""

    model: SourceModel
    case: Case
    sizes: Mapping[str, int]

    @cached_property
    def observed(self) -> Observed:
        return observe(self.model, self.case.calibration, self.sizes)

    @cached_property
    def best(self) -> ThresholdTable:
        return thresholds_of(self.observed, BEST)

    def table(self, method: str) -> ThresholdTable:
        base, _, correction = method.partition("+")
        found = self.best if base == BEST else thresholds_of(self.observed, base)
        if not correction:
            return found
        return with_corrections(found, self.observed, (correction,))


def judged(result: Result, actual: Outputs, exact: Outputs, case: Case) -> Result:
    found, right = largest(actual), largest(exact)
    result = replace(
        result,
        count=len(found),
        sqnr_db=min(decibels(noise_to_signal(actual, exact)), 999.0),
        cosine=float(np.mean([cosine(a, b) for a, b in zip(actual, exact, strict=True)])),
        differ=numbers_of(found != right),
    )
    if case.labels is None:
        return result
    was_right, is_right = right == case.labels, found == case.labels
    return replace(
        result,
        accuracy=float(np.mean(is_right) * 100),
        exact_accuracy=float(np.mean(was_right) * 100),
        lost=numbers_of(was_right & ~is_right),
        won=numbers_of(is_right & ~was_right),
    )


def numbers_of(chosen: np.ndarray) -> tuple[int, ...]:
    """Which of (N,) booleans are true."""
    return tuple(int(k) for k in np.flatnonzero(chosen))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    size = np.linalg.norm(x) * np.linalg.norm(y)
    return float(x @ y / size) if size else 1.0


def run(compilation: Compilation, case: Case) -> Outputs:
    """(N, ...) of each output, over the test data."""
    count = min(len(array) for array in case.test.values())
    found = [
        list(compilation.run({name: array[k] for name, array in case.test.items()}).values())
        for k in range(count)
    ]
    return [np.stack(arrays) for arrays in zip(*found, strict=True)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
