"""Packages of models that are small or odd: built strictly, run under the sanitizers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from tests.packaging.building import STRICT, run

FLOAT, INT8, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT64, TensorProto.BOOL
DOUBLE = TensorProto.DOUBLE
Port = tuple[str, int, list[int]]
node = helper.make_node


def case(
    nodes: list[onnx.NodeProto],
    inputs: list[Port],
    outputs: list[Port],
    **weights: np.ndarray,
) -> onnx.ModelProto:
    def ports(found: list[Port]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(*port) for port in found]

    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", ports(inputs), ports(outputs), stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X: list[Port] = [("x", FLOAT, [2, 3])]
EXTREMES = np.array([[np.inf, -np.inf, -0.0], [1e-45, 3.4028235e38, 0.1]], np.float32)
CASES = {
    "an input that is the output": case(
        [node("Identity", ["x"], ["y"])], X, [("y", FLOAT, [2, 3])]
    ),
    "one value twice": case(
        [node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])],
        X,
        [("y", FLOAT, [2, 3]), ("z", FLOAT, [2, 3])],
    ),
    "a scalar": case([node("ReduceSum", ["x"], ["y"], keepdims=0)], X, [("y", FLOAT, [])]),
    "no elements": case(
        [node("Relu", ["x"], ["y"])], [("x", FLOAT, [0, 3])], [("y", FLOAT, [0, 3])]
    ),
    "a constant": case([node("Add", ["a", "a"], ["y"])], [], [("y", FLOAT, [2, 3])], a=EXTREMES),
    "extreme weights": case(
        [node("Max", ["x", "a"], ["y"])], X, [("y", FLOAT, [2, 3])], a=EXTREMES
    ),
    "not a number": case(
        [node("Where", ["c", "x", "a"], ["y"])],
        [*X, ("c", BOOL, [2, 3])],
        [("y", FLOAT, [2, 3])],
        a=np.full((2, 3), np.nan, np.float32),
    ),
    "64 bits": case(
        [node("Add", ["x", "a"], ["y"])],
        [("x", INT64, [3])],
        [("y", INT64, [3])],
        a=np.array([-(2**63), 2**63 - 1, -(2**31)], np.int64),
    ),
    "comparisons": case([node("Greater", ["x", "x"], ["y"])], X, [("y", BOOL, [2, 3])]),
    "doubles": case(
        [node("Mul", ["x", "a"], ["y"])],
        [("x", DOUBLE, [2])],
        [("y", DOUBLE, [2])],
        a=np.array([1e300, 1 / 3]),
    ),
    "bytes": case(
        [node("Sub", ["x", "a"], ["y"])],
        [("x", INT8, [4])],
        [("y", INT8, [4])],
        a=np.array([-128, 127, 0, 1], np.int8),
    ),
    "names": case(
        [node("Relu", ['@offsets@x"*/??/\n'], ["größe\\"], name='@calls@*/ int main(){"\\')],
        [('@offsets@x"*/??/\n', FLOAT, [2, 3])],
        [("größe\\", FLOAT, [2, 3])],
    ),
    "a library": case(
        [node("Sin", ["x"], ["s"]), node("Pow", ["s", "a"], ["y"])],
        X,
        [("y", FLOAT, [2, 3])],
        a=np.array([[2.0, 3.0, 0.5]], np.float32),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_packages_of_odd_models(name, tmp_path):
    path = tmp_path / f"{'@table@' if name == 'names' else 'net'}.onnx"
    onnx.save(CASES[name], path)
    c = explorer.compile(path, target="cortex-m4")
    folder = c.package(tmp_path / "package")
    c.close()
    _build_and_run(folder, tmp_path)
    accuracy = json.loads((folder / "manifest.json").read_text())["accuracy"]
    assert accuracy["outputs"] and not accuracy["note"]
    for found in accuracy["outputs"].values():
        assert found["largest_difference"] <= 1e-6 * found["largest_number"]
        assert found["unequal"] == 0 or name in ("a scalar", "a library")


def _build_and_run(folder: Path, place: Path) -> None:
    source = next((folder / "src").glob("*.c"))
    flags = ("-std=c99", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    for program in ("selftest.c", "example/main.c"):
        run("cc", *flags, "-fwrapv", *STRICT, f"-I{folder / 'include'}", folder / program, source,
            "-lm", "-o", place / "program")  # fmt: skip
        printed = run(place / "program")
        assert program != "selftest.c" or printed == "2 vectors, ok\n"
