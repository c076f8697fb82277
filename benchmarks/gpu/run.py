"""Measures models on an OpenCL device: numbers, time, ratio to peers, fraction of its peaks.

    python benchmarks/gpu/run.py [MODEL ...] [--seconds 540] [--out FOLDER]
        [--peers tinygrad-cl,tinygrad-cuda,torch-eager,torch-compile] [--peer-python PYTHON]

A MODEL is a file, a sample model, an architecture's name (benchmarks/architectures) or a name in
`onnx/` below the folder that EXPLORER_MODELS names (`../shared/models` if it is not set). Without
any, the sample models and all architectures are measured. The command ends within `--seconds`:
what was not reached is listed. Peers that are not installed are named with the reason.

On a processor (PoCL) the device's own schedules are used; `--target opencl_gpu` forces a GPU's.
Writes `gpu.json` and `gpu.md` with the date and the device into the folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from architectures import NAMES, open_architecture  # noqa: E402 (a folder of scripts, no package)

import explorer  # noqa: E402
from explorer.accuracy.metrics import tensor_error  # noqa: E402
from explorer.accuracy.oracle import reference  # noqa: E402
from explorer.cli.models import load_with_weights  # noqa: E402
from explorer.errors import ExplorerError, InputError  # noqa: E402
from explorer.importers import SourceModel  # noqa: E402
from explorer.runtime.roofline import PeakMeter  # noqa: E402

sys.path.insert(0, str(HERE))
from peers import PEERS, Peer, PeerTime, measure_peers  # noqa: E402
from report import ModelRow, Report, write_report  # noqa: E402

REPOSITORY = HERE.parent.parent
SAMPLES = REPOSITORY / "sample_models"
TOLERANCE = 1e-5
"""`max_relative` of every output to onnxruntime without optimizations."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Models on an OpenCL device.")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--peer-python", default=sys.executable)
    chosen = parser.parse_args(arguments)
    asked = [name for name in chosen.peers.split(",") if name]
    unknown = [name for name in asked if name not in PEERS]
    if unknown:
        parser.error(f"there is no peer {unknown[0]!r}; there are {', '.join(PEERS)}")
    ends = time.monotonic() + chosen.seconds
    names = chosen.models or [*sorted(path.stem for path in SAMPLES.glob("*.onnx")), *NAMES]
    device = explorer.compile(str(SAMPLES / "digits_mlp.onnx"), target=chosen.target).device
    assert device is not None, "an OpenCL target has a device"
    peaks = PeakMeter().peaks(device)
    peers = [Peer(name, chosen.peer_python) for name in asked]
    absent = {peer.name: peer.refusal for peer in peers if peer.refusal}
    for name, reason in absent.items():
        print(f"{name}: {reason}")
    present = [peer for peer in peers if not peer.refusal]
    rows: list[ModelRow] = []
    for name in names:
        if time.monotonic() >= ends:
            rows.append(ModelRow(name, refusal="not reached within the time given"))
            continue
        try:
            row = measure_model(name, chosen.target, chosen.repeats, present, ends)
        except ExplorerError as error:
            row = ModelRow(name, refusal=str(error).splitlines()[0])
        rows.append(row)
        print(row.line(peaks), flush=True)
    report = Report(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        device=dataclasses.asdict(device),
        target=chosen.target,
        peaks=dataclasses.asdict(peaks),
        absent=absent,
        tolerance=TOLERANCE,
        rows=rows,
    )
    for file in write_report(report, chosen.out):
        print(file)
    return 0 if all(row.is_right or row.is_left_out for row in rows) else 1


def measure_model(
    name: str, target: str, repeats: int, peers: Sequence[Peer], ends: float
) -> ModelRow:
    """One row of the table; ours and the peers take turns on the same inputs."""
    model = open_model(name)
    compilation = explorer.compile(model, target=target)
    inputs = compilation.example_inputs()
    expected = reference(model, inputs, list(compilation.port_names[1]))
    started = time.perf_counter()
    with compilation.open() as executable:
        outputs = executable.run(inputs)
        first_seconds = time.perf_counter() - started
        others: dict[str, PeerTime] = {}
        milliseconds = [1e3 * s for s in executable.time(inputs, repeats)]
        for peer in peers:
            if time.monotonic() < ends:
                others |= measure_peers([peer], model, inputs, repeats, ends - time.monotonic())
                milliseconds += [1e3 * s for s in executable.time(inputs, repeats)]
    kernels = {kernel.name: kernel for kernel in compilation.program.kernels}
    launched = [kernels[launch.kernel] for launch in compilation.program.launches]
    return ModelRow(
        name,
        max_relative=worst_error(outputs, expected),
        milliseconds=statistics.median(milliseconds),
        best_milliseconds=min(milliseconds),
        first_seconds=first_seconds,
        launches=len(launched),
        gigaflops=sum(kernel.flops for kernel in launched) * 1e-9,
        gigabytes=sum(kernel.bytes_moved for kernel in launched) * 1e-9,
        peers={name: found.milliseconds for name, found in others.items() if not found.refusal},
        peer_refusals={name: found.refusal for name, found in others.items() if found.refusal},
        tolerance=TOLERANCE,
    )


def open_model(name: str) -> SourceModel:
    if Path(name).is_file():
        return load_with_weights(name)
    if name in NAMES:
        return open_architecture(name)
    folder = REPOSITORY / os.environ.get("EXPLORER_MODELS", "../shared/models")
    places = [place / f"{name}.onnx" for place in (SAMPLES, folder / "onnx")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InputError(
            f"there is no model {name!r}",
            hint=f"a file, a name in {SAMPLES.name} or {folder}, or one of {', '.join(NAMES)}",
        )
    return load_with_weights(str(found))


def worst_error(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """The largest `max_relative` of all outputs."""
    errors = [tensor_error(n, "", found[n], np.asarray(expected[n])) for n in expected]
    return max((error.max_relative for error in errors), default=0.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
