"""Measures whole nets as OpenCL C on the processor's driver (PoCL) against the same nets as C.

    python benchmarks/opencl.py [MODEL ...] [--threads 1,2] [--rounds 8] [--steps 10]

MODEL is a name as `benchmarks/latency` knows them. Both sides are ours, on the same number of
threads, in turns; a ratio below 1 means that OpenCL is faster. `calls` are whole calls from Python,
arrays in and arrays out; `launches` leave the copies of inputs and outputs away. `cold` is opening
and a first run with empty caches, ours and the driver's, `warm` the same in another process after
that. `--steps` lists the kernels that lose most, by launches one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))  # of `architectures`
sys.path.insert(0, str(FOLDER / "latency"))
from models import open_model  # noqa: E402 (folders of scripts, no packages)

import explorer  # noqa: E402
from explorer.accuracy.metrics import tensor_error  # noqa: E402
from explorer.compilation.measurements.rounds import Calls, run_interleaved  # noqa: E402
from explorer.errors import ExplorerError  # noqa: E402
from explorer.results.runs.events import ProfileRecord  # noqa: E402
from explorer.runtime.executable import Executable  # noqa: E402

MODELS = (
    *("resnet18", "mobilenetv2", "squeezenet", "shufflenet", "densenet121", "inception_v1"),
    *("bert_2x768", "vit_tiny", "yolox_nano", "fastestdet", "mobilenet_v2_035_128_st"),
    *("digits_mlp", "digits_cnn", "digits_resnet", "digits_mobilenet", "digits_transformer"),
    *("mnist-8", "resnet8_cifar10_kaijiang", "alibaba_kws", "qonnx_kws_w3a3", "bert_toy_ort"),
    "mobilenetv2_ort_maui",
)
TIME_LIMIT_SECONDS = 900
"""Of one process: compiling with empty caches takes a minute on a busy machine."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="OpenCL C on the processor against C.")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", default="1,2", help="numbers with commas between them")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=0, help="kernels to list per model")
    parser.add_argument("--measure", action="store_true", help="in this process, as JSON")
    chosen = parser.parse_args(arguments)
    threads = [int(count) for count in chosen.threads.split(",")]
    if chosen.measure:
        (name,) = chosen.models
        try:
            print(json.dumps(measure(name, threads, chosen.rounds, chosen.steps)))
        except ExplorerError as error:
            print(error, file=sys.stderr)
            return 2
        return 0
    titles = "".join(f"{title:>10}" for title in ("C, ms", "OpenCL", "calls", "noise", "launches"))
    print(f"{'model':<26}{'threads':>8}{titles}{'cold, s':>9}{'warm, s':>9}  max_relative")
    for name in chosen.models or MODELS:
        for line in lines_of(name, chosen.threads, chosen.rounds, chosen.steps):
            print(line, flush=True)
    return 0


def lines_of(name: str, threads: str, rounds: int, steps: int) -> list[str]:
    """Rows of a model, measured in processes of their own with caches of their own."""
    with tempfile.TemporaryDirectory(prefix="explorer-opencl-") as folder:
        for kind in ("POCL_CACHE_DIR", "EXPLORER_CACHE"):
            Path(folder, kind).mkdir(mode=0o700)
        command = ["--threads", threads, "--rounds", str(rounds), "--steps", str(steps)]
        first = _apart([name, "--measure", *command], folder)
        if isinstance(first, str):
            return [f"{name:<26}  not measured: {first}"]
        again = _apart([name, "--measure", "--threads", threads, "--rounds", "1"], folder)
    lines = []
    for number, row in enumerate(first):
        warm = again[number]["open_seconds"] if not isinstance(again, str) else float("nan")
        times = f"{row['c_ms']:>10.3f}{row['opencl_ms']:>10.3f}{row['calls']:>10.2f}"
        times += f"{row['noise']:>10.2f}{row['launches']:>10.2f}"
        seconds = f"{row['open_seconds']:>9.2f}{warm:>9.2f}"
        lines.append(f"{name:<26}{row['threads']:>8}{times}{seconds}{row['max_relative']:>14.1e}")
        lines += [f"    {text}" for text in row["steps"]]
    return lines


def _apart(arguments: Sequence[str], folder: str) -> list[dict] | str:
    caches = {kind: str(Path(folder, kind)) for kind in ("POCL_CACHE_DIR", "EXPLORER_CACHE")}
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    try:
        finished = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
            env={**os.environ, **caches},
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {TIME_LIMIT_SECONDS} s"
    lines = finished.stdout.splitlines()
    if finished.returncode != 0 or not lines:
        return (finished.stderr.strip().splitlines() or [f"status {finished.returncode}"])[-1]
    return json.loads(lines[-1])


def measure(name: str, threads: Sequence[int], rounds: int, steps: int) -> list[dict[str, object]]:
    opened = open_model(name)
    dimensions = dict(opened.dimensions)
    c = explorer.compile(opened.model, dimensions=dimensions)
    opencl = explorer.compile(opened.model, target="opencl", dimensions=dimensions)
    inputs = {**c.example_inputs(), **opened.inputs}
    rows = []
    with closing(c), closing(opencl):
        for count in threads:
            with c.open(count, isolated=False) as ours:
                begin = time.perf_counter()
                with opencl.open(count) as peer:
                    peer.run(inputs)
                    seconds = time.perf_counter() - begin
                    row = _row(ours, peer, inputs, rounds, steps)
            rows.append({"threads": count, "open_seconds": seconds, **row})
    return rows


def _row(
    c: Executable, opencl: Executable, inputs: Mapping[str, np.ndarray], rounds: int, steps: int
) -> dict[str, object]:
    sides = [Calls("c", partial(c.run, inputs)), Calls("opencl", partial(opencl.run, inputs))]
    timings = run_interleaved(sides, rounds)
    launches = [_launches(opencl, inputs) / _launches(c, inputs) for _ in range(rounds)]
    expected, outputs = c.run(inputs), opencl.run(inputs)
    errors = [tensor_error(k, "", outputs[k], a).max_relative for k, a in expected.items()]
    found: list[str] = []
    if steps:
        found = slowest_steps(c.profile(inputs, 10), opencl.profile(inputs, 10), steps)
    return {
        "c_ms": timings.milliseconds("c"),
        "opencl_ms": timings.milliseconds("opencl"),
        "calls": timings.ratio("opencl", "c"),
        "noise": timings.noise("opencl", "c"),
        "launches": statistics.median(launches),
        "max_relative": float(max(errors, default=0.0)),
        "steps": found,
    }


def _launches(executable: Executable, inputs: Mapping[str, np.ndarray]) -> float:
    return statistics.median(executable.time(inputs, 8))


def slowest_steps(c: ProfileRecord, opencl: ProfileRecord, count: int) -> list[str]:
    """The kernels for which OpenCL takes longer, by the time lost in all their launches."""
    totals: dict[str, list[float]] = {}
    for side, profile in enumerate((c, opencl)):
        for event in profile.events:
            if event.kernel:
                total = totals.setdefault(event.kernel, [0.0, 0.0])
                total[side] += (event.end_ns - event.start_ns) / 1e3
    lost = sorted(totals.items(), key=lambda item: item[1][0] - item[1][1])
    return [f"{kernel:<32} C {a:9.1f} us  OpenCL {b:9.1f} us" for kernel, (a, b) in lost[:count]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
