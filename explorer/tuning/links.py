"""Measures what a call of a device's program costs on top of its launches: transfers and latency.

    measure_link(load_target("opencl"))     -> MeasuredLink(latency_seconds=9e-6, ...)

A program of one negation runs with a small array and with a large one. A call takes the launches
alone, and then the arrays' ways there and back.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.helper

from explorer.backends import backend_of
from explorer.compilation.compilation import compile_model
from explorer.errors import UnsupportedError
from explorer.importers import load
from explorer.runtime.measuring.links import MeasuredLink
from explorer.targets import Target

SMALL, LARGE = 16, 4 << 20
"""Elements of float32: 64 bytes and 16 MiB."""
REPEATS = 15


def measure_link(target: Target) -> MeasuredLink:
    """Takes some seconds. UnsupportedError for targets that are simulated or share the memory."""
    if backend_of(target).device() is None:
        raise UnsupportedError(f"{target.name} has no device of this machine with its own memory")
    around_small, launch = _measured(target, SMALL)
    around_large, _ = _measured(target, LARGE)
    per_byte = max(around_large - around_small, 1e-9) / (2 * 4 * (LARGE - SMALL))
    return MeasuredLink(
        latency_seconds=max(around_small, 0.0) / 2,
        bytes_per_second=1 / per_byte,
        launch_seconds=launch,
    )


def _measured(target: Target, count: int) -> tuple[float, float]:
    """Seconds of a call on top of its launches, and of the launches alone: medians."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "negation.onnx"
        onnx.save(_negation(count), path)
        compilation = compile_model(load(path), target, tuned=False)
        inputs = {"x": np.ones(count, np.float32)}
        with compilation.open(isolated=False) as executable:
            executable.run(inputs)
            seconds = []
            for _ in range(REPEATS):
                begin = time.perf_counter()
                executable.run(inputs)
                seconds.append(time.perf_counter() - begin)
            launches = statistics.median(executable.time(inputs, REPEATS))
        return statistics.median(seconds) - launches, launches


def _negation(count: int) -> onnx.ModelProto:
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [count]) for name in "xy"
    )
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "n", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
