"""Measures models on an OpenCL device: numbers, time, ratio to peers, fraction of its peaks.

    python benchmarks/gpu/run.py [MODEL ...] [--quick] [--seconds 540] [--model-seconds 90]
        [--out FOLDER] [--precision float32,mixed] [--peer-python PYTHON]
        [--peers tinygrad-cl,tinygrad-cuda,torch-eager,torch-compile]

A MODEL is a file, a sample model, an architecture's name (benchmarks/architectures) or a name in
`onnx/` below the folder that EXPLORER_MODELS names (`../shared/models` if it is not set). Without
any, the sample models and all architectures are measured, with `--quick` a few of them, briefly and
without peers. Mixed precision is measured where the device's matrix instructions give the right
numbers. Every model runs in a process of its own, so that a driver that crashes or hangs costs that
model alone; the command ends within `--seconds` and lists what was not reached. It installs
nothing: what it needs and does not find, it names. Peers that are not installed are left out.

On a processor (PoCL) the device's own schedules are used; `--target opencl_gpu` forces a GPU's, and
`--emulate` the matrix instructions'. Writes `gpu.json` and `gpu.md` with the date and the device
into the folder, anew after each model.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
NEEDED = ("explorer", "numpy", "onnx", "onnxruntime", "pyopencl", "xdsl")
PEERS = ("tinygrad-cl", "tinygrad-cuda", "torch-eager", "torch-compile")
QUICK = ("digits_mlp", "digits_cnn", "digits_transformer", "squeezenet")
DEVICE_SECONDS = 120.0
MODEL_SECONDS = 90.0
"""Of one model in one precision, its peers included, unless the whole ends before."""

NOT_REACHED = "not reached within the time given"


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"missing in {sys.executable}: {', '.join(missing)}")
        print(f"  {sys.executable} -m pip install -e '{REPOSITORY}' onnxruntime pyopencl")
        return 2
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    from architectures import NAMES
    from peers import Peer
    from report import ModelRow, Peaks, Report, write_report

    ends = time.time() + chosen.seconds
    found, failure = ask({"action": "device", "target": chosen.target}, DEVICE_SECONDS)
    if "peaks" not in found:
        print(f"no device: {failure or 'it could not be measured'}")
        return 2
    peaks = Peaks(**found["peaks"], tensor_gflops=found.get("tensor_gflops") or 0.0)
    print(f"{found['device']['name']}: {peaks.text()}", flush=True)
    precisions = usable_precisions(chosen, found["tensor_cores"])
    peers = [Peer(name, chosen.peer_python) for name in chosen.peers]
    absent = {peer.name: peer.refusal for peer in peers if peer.refusal}
    for name, reason in absent.items():
        print(f"{name}: {reason}", flush=True)
    present = [{"name": p.name, "python": p.python} for p in peers if not p.refusal]
    samples = sorted(path.stem for path in (REPOSITORY / "sample_models").glob("*.onnx"))
    names = chosen.models or (QUICK if chosen.quick else (*samples, *NAMES))
    report = Report(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        device=found["device"],
        target=chosen.target,
        peaks=peaks,
        absent=absent,
        tensor_cores=found["tensor_cores"],
        rows=[],
    )
    files: list[Path] = []
    for name in names:
        for precision in precisions:
            request = {
                "action": "model",
                "name": name,
                "target": chosen.target,
                "precision": precision,
                "tensor_cores": "emulated" if chosen.emulate else "auto",
                "repeats": chosen.repeats,
                "peers": present if precision == precisions[0] else [],
            }
            row = measure(request, min(ends, time.time() + chosen.model_seconds), ModelRow)
            report.rows.append(row)
            print(row.line(peaks), flush=True)
            files = write_report(report, chosen.out)
    for file in files:
        print(file)
    return 0 if all(row.is_right or row.is_left_out for row in report.rows) else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Models on an OpenCL device.")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--model-seconds", type=float, default=MODEL_SECONDS)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--precision", default="")
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--peers")
    parser.add_argument("--peer-python", default=sys.executable)
    chosen = parser.parse_args(arguments)
    default = "" if chosen.quick else ",".join(PEERS)
    chosen.peers = _words(parser, default if chosen.peers is None else chosen.peers, PEERS)
    chosen.precision = _words(parser, chosen.precision, ("float32", "mixed"))
    chosen.seconds = chosen.seconds or (120.0 if chosen.quick else 540.0)
    chosen.repeats = chosen.repeats or (5 if chosen.quick else 20)
    return chosen


def _words(parser: argparse.ArgumentParser, text: str, known: Sequence[str]) -> list[str]:
    words = [word for word in text.split(",") if word]
    unknown = [word for word in words if word not in known]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(known)}")
    return words


def usable_precisions(chosen: argparse.Namespace, refusal: str) -> list[str]:
    """Those asked for; by itself float32, and mixed where matrix instructions can be used."""
    if chosen.precision:
        return chosen.precision
    if chosen.emulate or not refusal:
        return ["float32", "mixed"]
    print(f"mixed precision: not measured, {refusal}", flush=True)
    return ["float32"]


def measure(request: Mapping[str, Any], ends: float, row: type[Any]) -> Any:
    """The row of one model in one precision; why there is none stands in it."""
    base = {"name": request["name"], "precision": request["precision"]}
    remaining = ends - time.time()
    if remaining <= 0:
        return row(**base, refusal=NOT_REACHED)
    answer, failure = ask({**request, "ends": time.time() + 0.8 * remaining}, remaining)
    if "milliseconds" not in answer:
        return row(**base, refusal=failure)
    known = {field.name for field in fields(row)}
    values = {k: v for k, v in answer.items() if k in known and v is not None}
    return row(**{**values, "note": failure})


def ask(request: Mapping[str, Any], seconds: float) -> tuple[dict[str, Any], str]:
    """(what the child wrote, how it failed); it may have written something and failed later."""
    from explorer.runtime.processes import run_command, signal_name

    failure = ""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        command = [sys.executable, str(HERE / "child.py"), str(result), json.dumps(request)]
        try:
            done = run_command(command, seconds=seconds)
            if done.status:
                last = done.output.strip().splitlines()[-1:] or [f"status {done.status}"]
                failure = signal_name(done.status) or last[0].removeprefix("explorer.errors.")
        except subprocess.TimeoutExpired:
            failure = f"it did not end within {seconds:.0f} s"
        answer = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    return answer, failure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
