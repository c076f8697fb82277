"""Accuracy of quantized models, ours and those of other tools, on the same data.

    python benchmarks/accuracy --models DIR --journal accuracy.json [MODEL ...] [--only METHOD,...]

DIR holds the models and data (by default what `EXPLORER_MODELS` names). Every result is in the
journal as soon as it is known: a run that was interrupted goes on, and tries again what failed.
Data that calibrate are never those that are tested.

Peers run in a virtual environment of their own, which `--environment FOLDER` names or is to become:
onnxruntime's static quantization (min-max, percentile, entropy) and NNCF, from PyPI. A peer that
cannot be installed or fails has a row that says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from cases import CASES, Case
from results import Journal, Result, table

import explorer
from explorer.accuracy.metrics import decibels, noise_to_signal
from explorer.compilation import Compilation
from explorer.errors import ExplorerError
from explorer.tuning.calibration import METHODS, Observed, observe, thresholds_of
from explorer.tuning.sensitivity import largest

FOLDER = Path(__file__).resolve().parent
PEERS = "onnxruntime min-max", "onnxruntime percentile", "onnxruntime entropy", "NNCF"
PACKAGES = "nncf==3.4.0", "onnx", "onnxruntime", "scikit-learn", "sympy"
PEER_SECONDS = 1800

Outputs = list[np.ndarray]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Accuracy of quantized models.")
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--models", type=Path, default=os.environ.get("EXPLORER_MODELS"))
    parser.add_argument("--journal", type=Path, help="results; known ones are not measured again")
    parser.add_argument("--environment", type=Path, default=Path.home() / ".cache/explorer-peers")
    parser.add_argument("--only", default=",".join((*METHODS, *PEERS)), help="methods")
    chosen = parser.parse_args(arguments)
    if chosen.models is None:
        parser.error("--models DIR, or EXPLORER_MODELS")
    unknown = [name for name in chosen.names if name not in CASES]
    if unknown:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(CASES)}")
    python = environment(chosen.environment)
    journal, only = Journal(chosen.journal), chosen.only.split(",")
    for name in chosen.names or CASES:
        missing = [m for m in (*METHODS, *PEERS) if m in only and not journal.has(name, m)]
        if not missing:
            continue
        measure(name, CASES[name](chosen.models, python), missing, journal, python)
    for line in table(journal.results, PEERS):
        print(line)
    return 0


def environment(folder: Path) -> Path:
    """The peers' interpreter; the environment is made where it is missing."""
    python = folder / "bin/python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def measure(name: str, case: Case, methods: Sequence[str], journal: Journal, python: Path) -> None:
    """Adds a result for each method to the journal."""
    one = {name: array[0] for name, array in case.test.items()}
    plain = explorer.compile(case.model, inputs=one)
    exact = run(plain, case)
    sizes = dict(plain.settings.dimensions)
    observed: Observed | None = None
    for method in methods:
        begin = time.monotonic()
        result = Result(model=name, method=method)
        try:
            if method in PEERS:
                actual = outputs_of_peer(method, case, python)
            else:
                if observed is None:
                    observed = observe(plain.model, case.calibration, sizes)
                    begin = time.monotonic()
                thresholds = thresholds_of(observed, method)
                result = replace(result, seconds=time.monotonic() - begin)
                actual = run(
                    explorer.compile(plain.model, inputs=one, quantization=thresholds), case
                )
            seconds = result.seconds or time.monotonic() - begin
            result = replace(judged(result, actual, exact, case), seconds=seconds)
        except (ExplorerError, PeerError) as error:
            result = replace(result, problem=f"fails: {error}".replace("|", "/")[:120])
        journal.add(result)
        print(result.model, result.method, result.problem or f"{result.sqnr_db:.1f} dB", flush=True)


def judged(result: Result, actual: Outputs, exact: Outputs, case: Case) -> Result:
    found, right = largest(actual), largest(exact)
    has_labels = case.labels is not None
    return replace(
        result,
        count=len(found),
        sqnr_db=min(decibels(noise_to_signal(actual, exact)), 999.0),
        cosine=float(np.mean([cosine(a, b) for a, b in zip(actual, exact, strict=True)])),
        differ=tuple(int(k) for k in np.flatnonzero(found != right)),
        accuracy=float(np.mean(found == case.labels) * 100) if has_labels else None,
        exact_accuracy=float(np.mean(right == case.labels) * 100) if has_labels else None,
    )


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


class PeerError(Exception):
    """A peer did not quantize or run the model; the last line that it said."""


def outputs_of_peer(method: str, case: Case, python: Path) -> Outputs:
    """As `run`, in the peers' environment."""
    with tempfile.TemporaryDirectory() as folder:
        data, outputs = Path(folder) / "data.npz", Path(folder) / "outputs.npz"
        arrays = {f"calibration/{name}": array for name, array in case.calibration.items()}
        arrays |= {f"test/{name}": array for name, array in case.test.items()}
        np.savez(data, **arrays)  # pyright: ignore[reportArgumentType]  names of inputs
        command = [str(python), str(FOLDER / "peer.py"), method]
        try:
            subprocess.run(
                [*command, str(case.model), str(data), str(outputs)],
                check=True,
                capture_output=True,
                text=True,
                timeout=PEER_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"not done within {PEER_SECONDS} s") from error
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or "").strip().splitlines() or [f"status {error.returncode}"]
            raise PeerError(lines[-1].strip()) from error
        with np.load(outputs) as file:
            return [file[name] for name in file.files]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
