"""Compiles networks into budgets, and measures what that costs.

    python benchmarks/memory_fitting.py [MODEL=BYTES ...]
    python benchmarks/memory_fitting.py --least resnet8_cifar10_kaijiang

Models are files, or names below the folder that `EXPLORER_MODELS` names (`../shared/models` from
the repository's root if it is not set). Without arguments the models and budgets of BUDGETS.
`--least` takes the least budget that all levers reach. Times are those of both programs in turns on
one thread; `equal` says whether all outputs are equal to the bit, and what the largest difference
is otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

import explorer
from explorer.errors import MemoryBudgetError

REPOSITORY = Path(__file__).resolve().parent.parent
BUDGETS = {
    "onnx/resnet8_cifar10_kaijiang.onnx": 100_000,
    "onnx/vww_96_float.onnx": 180_000,
    "onnx/mobilenet_v2_035_128_st.onnx": 370_000,
    "onnx/ultraface_rfb320.onnx": 1_450_000,
    "onnx/blazeface.onnx": 570_000,
    "tflite/mlperf_kws_int8.tflite": 14_000,
    "tflite/mlperf_ic_int8.tflite": 34_000,
    "tflite/mlperf_vww_int8.tflite": 46_000,
}
ROUNDS = 7


def find(name: str) -> Path:
    """A file, or one below the folder of models."""
    folder = REPOSITORY / os.environ.get("EXPLORER_MODELS", "../shared/models")
    for path in (Path(name), folder / name, *sorted(folder.glob(f"*/{name}.*"))):
        if path.is_file():
            return path
    sys.exit(f"there is no model {name!r}, nor one below {folder}: EXPLORER_MODELS names a folder")


def difference(plain: explorer.Compilation, small: explorer.Compilation) -> str:
    """`equal`, or the largest difference relative to the largest number."""
    inputs = plain.example_inputs()
    wanted, found = plain.run(inputs), small.run(inputs)
    if all(np.array_equal(found[name], array) for name, array in wanted.items()):
        return "equal"
    errors = [
        np.abs(found[name].astype(float) - array).max() / max(np.abs(array).max(), 1e-30)
        for name, array in wanted.items()
    ]
    return f"{max(errors):.1e}"


def measure(name: str, budget: int | None) -> str:
    path = find(name)
    plain = explorer.compile(path)
    begin = time.process_time()
    try:
        small = plain.fork(budget_bytes=budget or 1)
    except MemoryBudgetError as error:
        if budget is not None:
            return (
                f"| `{path.stem}` | {plain.memory.peak_bytes:,} | {budget:,} | needs "
                f"{error.needed_bytes:,} | | | | |"
            )
        small = plain.fork(budget_bytes=error.needed_bytes)
    seconds = time.process_time() - begin
    macs = small.final.macs / max(plain.final.macs, 1) - 1
    timed = plain.time_against(small, rounds=ROUNDS, threads=1)
    ratio = timed.sides[1].latency.ratio
    return (
        f"| `{path.stem}` | {plain.memory.peak_bytes:,} | {budget or 0:,} | "
        f"{small.memory.peak_bytes:,} | {macs:+.1%} | {ratio:.2f} | {difference(plain, small)} | "
        f"{seconds:.1f} |"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", metavar="MODEL=BYTES")
    parser.add_argument("--least", action="store_true", help="the least budget of each model")
    chosen = parser.parse_args(arguments)
    pairs = [m.partition("=") for m in chosen.models]
    asked = {name: int(size) if size else None for name, _, size in pairs} or BUDGETS
    print("| model | bytes | budget | bytes within it | MACs | time | outputs | search, s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, budget in asked.items():
        print(measure(name, None if chosen.least else budget), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
