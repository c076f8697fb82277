"""What each correction of the quantization changes, on data that it has not seen.

    python benchmarks/corrections.py net.onnx --data seen.npz --test unseen.npz [--method best]
        [--labels NAME] none adaround adaround,bias ...

Both archives hold arrays by input name, whose first axis counts examples; `--labels` names an
array of the second that holds the right classes. For each set of corrections the decibels of the
first output against the float model, over all examples, how many of its largest elements are
others, and, with labels, how many are right.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import explorer
from explorer.tuning.calibration import examples_of, read_data


def main() -> None:
    parser = argparse.ArgumentParser(description="What each correction changes.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--method", default="best")
    parser.add_argument("--labels")
    parser.add_argument("corrections", nargs="*", default=["none", "cle", "smooth", "adaround"])
    asked = parser.parse_intermixed_args()
    model = explorer.load(asked.model)
    data, test = read_data(asked.data), read_data(asked.test)
    labels = None if asked.labels is None else test.pop(asked.labels)
    exact = outputs(explorer.compile(model), test)
    print(f"{'corrections':<24}{'dB':>8}{'differ':>8}{'right, %':>10}{'seconds':>9}", flush=True)
    rows = [("(float)", exact, 0.0)]
    for name, found, seconds in (*rows, *quantized(model, data, test, asked)):
        differ = int(np.sum(found.argmax(axis=1) != exact.argmax(axis=1)))
        right = "" if labels is None else f"{100 * np.mean(found.argmax(axis=1) == labels):.1f}"
        print(
            f"{name:<24}{decibels(exact, found):>8.2f}{differ:>8}{right:>10}{seconds:>9.1f}",
            flush=True,
        )


def quantized(model, data, test, asked) -> Iterator[tuple[str, np.ndarray, float]]:
    """The outputs with each set of corrections, and how long calibration took."""
    for name in asked.corrections:
        start = time.perf_counter()
        table = explorer.calibrate(model, data, method=asked.method, corrections=name)
        seconds = time.perf_counter() - start
        yield name, outputs(explorer.compile(model, quantization=table), test), seconds


def outputs(compilation, test) -> np.ndarray:
    """(examples, elements) of the first output."""
    examples = examples_of(compilation, test)
    runs = (compilation.run(examples.at(number)) for number in range(examples.count))
    return np.stack([next(iter(run.values())).reshape(-1) for run in runs])


def decibels(exact: np.ndarray, found: np.ndarray) -> float:
    """10 log10 of the sum of squares over that of the errors."""
    wide = exact.astype(np.float64)
    error = np.sum((wide - found) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(np.sum(wide**2) / error))


if __name__ == "__main__":
    main()
