"""What the benchmark does on the device, in a process of its own: a driver may crash or hang.

    python child.py RESULT.json '{"action": "device", "target": "opencl"}'
    python child.py RESULT.json '{"action": "model", "name": "resnet18", "precision": "mixed", ..}'

The file is written as soon as there is something to say, and again with what follows: what was
measured before an end by force counts.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from architectures import NAMES, open_architecture  # noqa: E402 (a folder of scripts, no package)
from peers import Peer, measure_peers  # noqa: E402
from report import KernelRow, ModelRow, finite  # noqa: E402
from tensor_peak import tensor_gigaflops  # noqa: E402

import explorer  # noqa: E402
from explorer.accuracy.metrics import tensor_error  # noqa: E402
from explorer.accuracy.oracle import reference  # noqa: E402
from explorer.cli.models import load_with_weights  # noqa: E402
from explorer.errors import InputError  # noqa: E402
from explorer.importers import SourceModel  # noqa: E402
from explorer.results.runs.events import TimedEvent  # noqa: E402
from explorer.runtime.tensor_cores import tensor_core_refusal  # noqa: E402
from explorer.targets import Target, load_target  # noqa: E402

REPOSITORY = HERE.parent.parent
SAMPLES = REPOSITORY / "sample_models"
TOLERANCES = {"float32": 1e-5, "mixed": 1e-2}
"""`max_relative` of every output to onnxruntime without optimizations. A product of halves is off
by up to 2^-10 of its absolute sum, and a model has dozens of them, one behind the other."""

SLOWEST_KERNELS = 12

Write = Callable[[Mapping[str, Any]], None]


def main(arguments: Sequence[str]) -> None:
    result, asked = Path(arguments[0]), json.loads(arguments[1])

    def write(answer: Mapping[str, Any]) -> None:
        part = result.with_suffix(".part")
        part.write_text(json.dumps(finite(dict(answer))), encoding="utf-8")
        part.replace(result)

    action = asked.pop("action")
    actions: dict[str, Callable[..., None]] = {"device": examine_device, "model": measure_model}
    actions[action](write, **asked)


def examine_device(write: Write, target: str) -> None:
    """The device, its peaks and whether its matrix instructions can be used."""
    compilation = explorer.compile(str(SAMPLES / "digits_mlp.onnx"), target=target)
    device = compilation.device
    assert device is not None, "an OpenCL target has a device"
    answer: dict[str, Any] = {"device": dataclasses.asdict(device)}
    answer["tensor_cores"] = tensor_core_refusal(device)
    write(answer)
    peaks = compilation.backend.peaks(device, device.compute_units)
    assert peaks is not None
    answer["peaks"] = {"gflops": peaks.gflops, "gbytes_per_second": peaks.gbytes_per_second}
    write(answer)
    if not answer["tensor_cores"]:
        write({**answer, "tensor_gflops": tensor_gigaflops(device)})


def measure_model(
    write: Write,
    name: str,
    target: str,
    precision: str,
    tensor_cores: str,
    repeats: int,
    peers: Sequence[Mapping[str, str]],
    ends: float,
) -> None:
    """One row of the table; ours and the peers take turns on the same inputs."""
    model = open_model(name)
    compilation = explorer.compile(model, target=target_of(target, precision, tensor_cores))
    inputs = compilation.example_inputs()
    expected = reference(model, inputs, list(compilation.port_names[1]))
    started = time.perf_counter()
    with compilation.open() as executable:
        outputs = executable.run(inputs)
        first_seconds = time.perf_counter() - started
        milliseconds = [1e3 * s for s in executable.time(inputs, repeats)]
        kernels = {kernel.name: kernel for kernel in compilation.program.kernels}
        launched = [kernels[launch.kernel] for launch in compilation.program.launches]
        row = ModelRow(
            name,
            precision=precision,
            max_relative=worst_error(outputs, expected),
            tolerance=TOLERANCES[precision],
            first_seconds=first_seconds,
            launches=len(launched),
            gigaflops=sum(kernel.flops for kernel in launched) * 1e-9,
            gigabytes=sum(kernel.bytes_moved for kernel in launched) * 1e-9,
        )
        write(row_of(row, milliseconds))
        events = executable.profile(inputs, max(3, repeats // 4)).events
        row = dataclasses.replace(row, kernels=slowest(events, compilation.schedule))
        write(row_of(row, milliseconds))
        for peer in peers:
            remaining = ends - time.time()
            if remaining <= 0:
                break
            found = measure_peers([Peer(**peer)], model, inputs, repeats, remaining)
            (measured,) = found.values()
            if measured.refusal:
                refused = {**row.peer_refusals, peer["name"]: measured.refusal}
                row = dataclasses.replace(row, peer_refusals=refused)
            else:
                times = {**row.peers, peer["name"]: measured.milliseconds}
                row = dataclasses.replace(row, peers=times)
            milliseconds += [1e3 * s for s in executable.time(inputs, repeats)]
            write(row_of(row, milliseconds))


def row_of(row: ModelRow, milliseconds: Sequence[float]) -> dict[str, Any]:
    times = {
        "milliseconds": statistics.median(milliseconds),
        "best_milliseconds": min(milliseconds),
    }
    return {**dataclasses.asdict(row), **times}


def target_of(name: str, precision: str, tensor_cores: str) -> Target:
    target = load_target(name)
    if precision == "float32":
        return target
    return target.with_(precision=precision, tensor_cores=tensor_cores)


def slowest(
    events: Sequence[TimedEvent], schedule: Mapping[str, Mapping[str, Any]]
) -> tuple[KernelRow, ...]:
    """The kernels that take the most time in all their launches, with what they do in it."""
    rows: dict[str, KernelRow] = {}
    for event in events:
        if event.kernel not in schedule:
            continue
        seen = rows.get(event.kernel, KernelRow(event.kernel, dict(schedule[event.kernel])))
        rows[event.kernel] = dataclasses.replace(
            seen,
            launches=seen.launches + 1,
            microseconds=seen.microseconds + (event.end_ns - event.start_ns) * 1e-3,
            gigaflops=seen.gigaflops + event.flops * 1e-9,
            gigabytes=seen.gigabytes + event.bytes_moved * 1e-9,
        )
    found = sorted(rows.values(), key=lambda row: -row.microseconds)
    return tuple(found[:SLOWEST_KERNELS])


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
    main(sys.argv[1:])
