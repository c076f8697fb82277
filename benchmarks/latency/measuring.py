"""Measures one model, in a process of its own, so that a fault or what it leaves ends with it.

    python measuring.py resnet18 --threads 1,2 --rounds 10 --against onnxruntime,openvino

prints one line of JSON: a list of rows, one for each number of threads, or why there are none.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # of `architectures`
from models import Opened, is_quantized, label, open_model
from rows import Row

import explorer
from explorer.accuracy.metrics import tensor_error
from explorer.cli.latency import EXACT, ONNXRUNTIME, OPENVINO, OURS
from explorer.cli.latency.open_vino import OpenVino
from explorer.cli.latency.reference import ReferenceSide
from explorer.compilation import Compilation
from explorer.compilation.measurements.rounds import Calls, Side, run_interleaved
from explorer.errors import DeviceError, ExplorerError, ModelError
from explorer.importers.onnx.file.reading import OnnxContent
from explorer.results import TensorError
from explorer.runtime.measuring.load import watching
from explorer.runtime.roofline import measure_gflops
from explorer.runtime.stateful import StatefulProgram

LAUNCH_REPEATS = 10


def measure(name: str, threads: Sequence[int], rounds: int, peers: Sequence[str]) -> list[Row]:
    opened = open_model(name)
    compilation = explorer.compile(opened.model, dimensions=dict(opened.dimensions))
    inputs = {**compilation.example_inputs(), **opened.inputs}
    with closing(compilation):
        return [_row(name, opened, compilation, inputs, n, rounds, peers) for n in threads]


def _row(
    name: str,
    opened: Opened,
    compilation: Compilation,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    rounds: int,
    peers: Sequence[str],
) -> Row:
    problems: dict[str, str] = {}
    peak = measure_gflops(threads)
    with ExitStack() as stack:
        runtime = stack.enter_context(ReferenceSide(opened.model, inputs, threads))
        # What a model remembers stays inside, as it does with everyone who is compared.
        executable = stack.enter_context(compilation.open(threads, isolated=False, remembers=True))
        own = {port.name: inputs[port.name] for port in executable.program.inputs}
        sides: list[Side] = [Calls(OURS, partial(executable.run, own)), runtime]
        if EXACT in peers:
            exact = ReferenceSide(opened.model, inputs, threads, is_exact=True)
            sides.append(stack.enter_context(exact))
        if OPENVINO in peers:
            try:
                sides.append(stack.enter_context(OpenVino(opened.model, inputs, threads)))
            except (DeviceError, ModelError) as error:
                problems[OPENVINO] = error.message
        with watching() as load:
            timings = run_interleaved(sides, rounds)
        launches = executable.time(own, LAUNCH_REPEATS)
        if isinstance(executable, StatefulProgram):
            executable.restart()  # the reference's run begins with the first states, too
        outputs, expected = executable.run(own), runtime.run()
    errors = _errors(outputs, expected)
    found = [side.name for side in sides[1:]]
    return Row(
        label(name),
        threads,
        "quantized" if _computes_in_integers(opened, compilation) else "float",
        {side.name: timings.milliseconds(side.name) for side in sides},
        statistics.median(launches) * 1e3,
        {peer: timings.ratio(OURS, peer) for peer in found},
        {peer: timings.noise(OURS, peer) for peer in found},
        _largest_relative(errors),
        problems,
        gflop=_operations(compilation) * 1e-9,
        peak_gflops=peak,
        steal=load.steal,
        others=load.others,
        max_steps=_most_steps(errors),
    )


def _computes_in_integers(opened: Opened, compilation: Compilation) -> bool:
    if isinstance(opened.model.content, OnnxContent):
        return is_quantized(opened.model.content.proto)
    return bool(compilation.passes[0].after.quantized)


def _operations(compilation: Compilation) -> int:
    flops = {kernel.name: kernel.flops for kernel in compilation.program.kernels}
    return sum(flops.get(launch.kernel, 0) for launch in compilation.program.launches)


def _errors(outputs: Mapping[str, np.ndarray], expected: Mapping[str, object]) -> list[TensorError]:
    """Of all outputs that the reference gives as arrays."""
    return [
        tensor_error(key, "", outputs[key], array)
        for key, array in expected.items()
        if isinstance(array, np.ndarray)
    ]


def _largest_relative(errors: Sequence[TensorError]) -> float | None:
    """Over the outputs of floats."""
    return max((float(e.max_relative) for e in errors if not e.bit_by_bit), default=None)


def _most_steps(errors: Sequence[TensorError]) -> float | None:
    """Over the outputs of integers; one at least where two differ that float64 holds alike."""
    return max(
        (max(1.0, e.max_absolute) if e.max_relative else 0.0 for e in errors if e.bit_by_bit),
        default=None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures one model.")
    parser.add_argument("model")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--against", default=ONNXRUNTIME)
    chosen = parser.parse_args()
    threads = [int(count) for count in chosen.threads.split(",")]
    try:
        rows = measure(chosen.model, threads, chosen.rounds, chosen.against.split(","))
        answer = [asdict(row) for row in rows]
    except ExplorerError as error:
        answer = str(error)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
