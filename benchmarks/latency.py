"""Measures latency against onnxruntime, model by model.

    python benchmarks/latency.py [model.onnx ...] [--threads 1,2] [--repeats 30]

A name without a folder is looked for in `onnx/` below the folder that `EXPLORER_MODELS` names
(from the repository's root; `../shared/models` if it is not set). A ratio below 1 means that ours
is faster. Both run in turns on the same inputs, as `explorer bench` does it: ours is the time of
the launches, onnxruntime's that of `session.run`.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import explorer
from explorer.cli.bench import measure
from explorer.cli.models import load_with_weights
from explorer.errors import ExplorerError

REPOSITORY = Path(__file__).resolve().parent.parent
SAMPLES = REPOSITORY / "sample_models"
MODELS = (
    "digits_mlp",
    "digits_cnn",
    "digits_resnet",
    "digits_mobilenet",
    "digits_transformer",
    "mnist-8",
    "alibaba_kws",
    "mlperf_ic_deeploy",
    "ultraface_rfb320",
    "mobilenet_v2_035_128_st",
    "yunet_n_320",
    "light_squeezenet",
    "light_resnet50",
)


def find_model(name: str) -> Path:
    """A path as it is; else a sample model or one of the folder of models."""
    if Path(name).is_file():
        return Path(name)
    folder = REPOSITORY / os.environ.get("EXPLORER_MODELS", "../shared/models")
    for place in (SAMPLES, folder / "onnx"):
        found = place / f"{name.removesuffix('.onnx')}.onnx"
        if found.is_file():
            return found
    return Path(name)


def measure_model(path: Path, threads: Sequence[int], repeats: int) -> list[tuple[float, ...]]:
    """(ours in ms, onnxruntime in ms, ratio, noise) for each number of threads."""
    model = load_with_weights(str(path))
    compilation = explorer.compile(model)
    inputs = compilation.example_inputs()
    rows = []
    for count in threads:
        with compilation.open(threads=count) as executable:
            timings = measure(executable, model, inputs, count, repeats)
        rows.append((timings.ours_ms, timings.peer_ms, timings.ratio, timings.noise))
    return rows


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Latency against onnxruntime.")
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--threads", default="1,2", help="numbers with commas between them")
    parser.add_argument("--repeats", type=int, default=30)
    chosen = parser.parse_args(arguments)
    threads = [int(count) for count in chosen.threads.split(",")]
    header = ("model", "threads", "ours, ms", "onnxruntime, ms", "ratio", "noise")
    print("{:<28}{:>8}{:>12}{:>18}{:>8}{:>8}".format(*header))
    ratios: dict[int, list[float]] = {count: [] for count in threads}
    left_out = 0
    for name in chosen.models:
        path = find_model(name)
        try:
            rows = measure_model(path, threads, chosen.repeats)
        except ExplorerError as error:
            left_out += 1
            print(f"{path.stem:<28}not measured: {str(error).splitlines()[0]}", flush=True)
            continue
        for count, (ours, peer, ratio, noise) in zip(threads, rows, strict=True):
            ratios[count].append(ratio)
            print(
                f"{path.stem:<28}{count:>8}{ours:>12.3f}{peer:>18.3f}{ratio:>8.2f}{noise:>8.3f}",
                flush=True,
            )
    for count, found in ratios.items():
        if found:
            mean = math.exp(sum(map(math.log, found)) / len(found))
            print(f"geometric mean over {len(found)} models, {count} thread(s): {mean:.2f}")
    if left_out:
        print(f"{left_out} models could not be measured; the means say nothing about them")


if __name__ == "__main__":
    main(sys.argv[1:])
