"""How far quantized networks on NPUs are from their float models: signal to noise, other answers.

    python benchmarks/npu/accuracy.py MODEL.onnx... --data FILE.npz --array NAME
        [--calibrate 40] [--test 60] [--targets tiny-8,vta-16] [--method min-max]

The first examples of the array calibrate (whole integers, no corrections), the last ones test, one
at a time. `differ`: examples whose largest output is another one than the float model's; `host`:
operations that the NPU does not compute.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import explorer
from explorer.accuracy.metrics import decibels, noise_to_signal


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--array", required=True)
    parser.add_argument("--calibrate", type=int, default=40, metavar="N")
    parser.add_argument("--test", type=int, default=60, metavar="N")
    parser.add_argument("--targets", default="tiny-8,vta-16")
    parser.add_argument("--method", default="min-max")
    options = parser.parse_args(arguments)
    examples = np.load(options.data)[options.array]
    if options.calibrate + options.test > len(examples):
        parser.error(f"{options.array} has {len(examples)} examples")
    targets = options.targets.split(",")
    print("| model |", " | ".join(f"{t}: dB | differ | host" for t in targets), "|")
    print("| --- |", " --- | --- | --- |" * len(targets))
    for model in options.models:
        plain = explorer.compile(model)
        (name,) = plain.example_inputs()
        table = explorer.calibrate(
            model, {name: examples[: options.calibrate]}, method=options.method, corrections=(),
            arithmetic="integer",
        )  # fmt: skip
        tested = [{name: one[None]} for one in examples[-options.test :]]
        wanted = _first_outputs(plain, tested)
        cells = [model.stem]
        for target in targets:
            compiled = explorer.compile(model, target, quantization=table)
            made = _first_outputs(compiled, tested)
            differ = (made.argmax(1) != wanted.argmax(1)).sum()
            signal = decibels(noise_to_signal([made], [wanted]))
            cells += [f"{signal:.1f}", f"{differ}", f"{len(compiled.host_operations)}"]
        print("|", " | ".join(cells), "|", flush=True)


def _first_outputs(
    compiled: explorer.Compilation, inputs: list[dict[str, np.ndarray]]
) -> np.ndarray:
    """(examples, numbers)"""
    rows = [next(iter(compiled.run(one).values())).reshape(1, -1) for one in inputs]
    return np.concatenate(rows).astype(np.float64)


if __name__ == "__main__":
    main()
