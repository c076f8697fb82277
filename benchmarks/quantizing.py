"""What calibrating and searching for modes cost, in seconds of processor time, all processes.

    python benchmarks/quantizing.py calibration [--model net.onnx] [--examples 1000]
    python benchmarks/quantizing.py kl [--tensors 100]
    python benchmarks/quantizing.py sensitivity --model net.onnx [--examples 100] [--folder FOLDER]

calibration: that many inputs through the model, and the tables of all methods (`best`, too). kl:
the thresholds of that many histograms of normal numbers. sensitivity: each tensor alone, without
and wide, over all examples. Inputs are seeded random numbers; with a folder, its pictures at the
size of the only input, over and over, scaled to -1 .. 1. Processor time depends little on what else
the machine does, time elapsed does: both are printed.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

import explorer
from explorer.quantization.histogram import Histogram
from explorer.quantization.methods import RANGES
from explorer.tuning.calibration import BITS, METHODS, observe, thresholds_of
from explorer.tuning.examples import examples_of
from explorer.tuning.sensitivity import Judge, sensitivities
from explorer.tuning.simulation import simulated_program

SAMPLE = Path(__file__).resolve().parents[1] / "sample_models/digits_cnn.onnx"
SEEN = 8
"""Examples that the thresholds of the sensitivities come from."""


def main() -> None:
    parser = argparse.ArgumentParser(description="What calibrating costs.")
    parser.add_argument("what", choices=("calibration", "kl", "sensitivity"))
    parser.add_argument("--model", type=Path, default=SAMPLE)
    parser.add_argument("--examples", type=int, default=0)
    parser.add_argument("--tensors", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.what == "kl":
        kl(asked.tensors)
    elif asked.what == "calibration":
        calibration(asked.model, asked.examples or 1000, asked.folder)
    else:
        sensitivity(asked.model, asked.examples or 100, asked.folder)


class Clock:
    """Prints what has passed since it was last asked."""

    def __init__(self) -> None:
        self._last = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        used = os.times()
        return sum(used[:4]), time.perf_counter()

    def say(self, what: str) -> None:
        now = self._now()
        cpu, elapsed = (b - a for a, b in zip(self._last, now, strict=True))
        print(f"{what}: {cpu:.1f} s of processor time, {elapsed:.1f} s elapsed", flush=True)
        self._last = self._now()


def calibration(path: Path, count: int, folder: Path | None) -> None:
    model = explorer.load(path)
    data = inputs(explorer.compile(model, tuned=False), count, folder)
    clock = Clock()
    observed = observe(model, data)
    clock.say(f"{count} inputs seen of {len(observed.tensors)} tensors")
    for method in METHODS:
        thresholds_of(observed, method)
        clock.say(method)


def kl(count: int) -> None:
    random = np.random.default_rng(0)
    histograms = [
        Histogram().including(random.standard_normal(100_000, np.float32)) for _ in range(count)
    ]
    clock = Clock()
    for histogram in histograms:
        RANGES["kl"](histogram, BITS)
    clock.say(f"kl of {count} tensors")


def sensitivity(path: Path, count: int, folder: Path | None) -> None:
    model = explorer.load(path)
    program = explorer.compile(model, tuned=False)
    data = inputs(program, count, folder)
    seen = {name: array[:SEEN] for name, array in data.items()}
    table = explorer.calibrate(model, seen, method="mse", corrections=())
    clock = Clock()
    simulated = simulated_program(model)
    clock.say("the simulated program")
    examples = examples_of(program, data)
    judge = Judge(table.thresholds, [examples.at(k) for k in range(examples.count)])
    found = sensitivities(simulated, judge)
    clock.say(f"sensitivities of {len(found)} tensors, {3 * len(found)} runs of {count} examples")


def inputs(compilation: explorer.Compilation, count: int, folder: Path | None) -> dict:
    """(count, ...) of each input."""
    if folder is None:
        drawn = [compilation.example_inputs(seed) for seed in range(count)]
        return {name: np.stack([e[name] for e in drawn]) for name in drawn[0]}
    from PIL import Image

    (port,) = compilation.program.inputs
    height, width = port.shape[2:]
    arrays = []
    for file in sorted(folder.glob("*.JPEG"))[:count]:
        with Image.open(file) as picture:
            array = np.asarray(picture.convert("RGB").resize((width, height)), np.float32)
        arrays.append(((array - 127) / 128).transpose(2, 0, 1)[None])
    return {port.name: np.stack([arrays[k % len(arrays)] for k in range(count)])}


if __name__ == "__main__":
    main()
