"""Two equal branches on two devices that work at the same time: the call next to the sum.

    python benchmarks/placement/branches.py --size 112 --calls 50

The devices are two targets for the processor, so that two processors have to be free. Printed are
medians: of a call in which parts run at once, of the same parts one after the other, their
quotient, and the share of the shorter part during which the other one ran, too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer as ex
from explorer.runtime.parts import PartsProgram
from explorer.targets import load_target

CHANNELS = 64
WARM_CALLS = 5


class Clocked:
    """An executable that notes when it began and ended."""

    def __init__(self, executable: object) -> None:
        self.executable = executable
        self.span = (0.0, 0.0)

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        begin = time.perf_counter()
        found = self.executable.run(inputs)  # pyright: ignore[reportAttributeAccessIssue]
        self.span = (begin, time.perf_counter())
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self.executable, name)


def branches(size: int) -> onnx.ModelProto:
    """Two chains of two convolutions over the same input."""
    rng = np.random.default_rng(0)
    shape = [1, CHANNELS, size, size]
    weights = {
        name: (0.05 * rng.standard_normal((CHANNELS, CHANNELS, 3, 3))).astype(np.float32)
        for name in ("w1", "w2", "v1", "v2")
    }
    nodes = [
        helper.make_node("Conv", [source, weight], [made], pads=[1, 1, 1, 1])
        for source, weight, made in (
            ("x", "w1", "a"), ("a", "w2", "y"), ("x", "v1", "c"), ("c", "v2", "z"),
        )
    ]  # fmt: skip

    def port(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "branches", [port("x")], [port("y"), port("z")], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--calls", type=int, default=50)
    arguments = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "branches.onnx")
        onnx.save(branches(arguments.size), path)
        second = replace(load_target("cpu"), name="second")
        compilation = ex.compile(
            path, target=["cpu", second], decisions={"assign/objective": "makespan"}
        )
    inputs = compilation.example_inputs()
    with compilation.open(isolated=False) as program:
        assert isinstance(program, PartsProgram), "both branches are on one device"
        parts = {name: Clocked(part) for name, part in program.executables.items()}
        program.executables = dict(parts)  # pyright: ignore[reportAttributeAccessIssue]
        calls, shares, sums = [], [], []
        for number in range(-WARM_CALLS, arguments.calls):
            begin = time.perf_counter()
            program.run(inputs)
            took = time.perf_counter() - begin
            begin = time.perf_counter()
            program.run_by_part(inputs)
            if number < 0:
                continue
            sums.append(time.perf_counter() - begin)
            calls.append(took)
        for _ in range(arguments.calls):
            program.run(inputs)
            (a, b), (c, d) = (part.span for part in list(parts.values())[:2])
            shares.append(max(0.0, min(b, d) - max(a, c)) / min(b - a, d - c))
    call, whole = statistics.median(calls), statistics.median(sums)
    print([(op.operation, op.device) for op in compilation.placement.operations])
    print(f"{1e3 * call:.3f} ms at once, {1e3 * whole:.3f} ms in turn, quotient {call / whole:.2f}")
    print(f"overlap {statistics.median(shares):.0%} of the shorter part")


if __name__ == "__main__":
    main(sys.argv[1:])
