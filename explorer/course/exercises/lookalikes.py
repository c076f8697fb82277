"""Networks that judges keep to themselves: a rule has to be right on them, too, or to decline."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from explorer.importers import SourceModel, load

OTHER_DIVISIONS = 2
"""Divisions of `divisions` that a rule for constant divisors leaves alone."""


def divisions() -> SourceModel:
    """Divisions by a number and by several numbers, of a constant, and of two inputs."""
    held = {
        "three": np.array(3.0, np.float32),
        "row": np.array([1.0, 2.0, -5.0, 0.125], np.float32),
        "column": np.array([[0.1], [10.0]], np.float32),
        "numerator": np.array([7.0], np.float32),
    }
    nodes = [
        helper.make_node("Div", ["x", "three"], ["by_number"]),
        helper.make_node("Div", ["by_number", "row"], ["by_row"]),
        helper.make_node("Div", ["by_row", "column"], ["by_column"]),
        helper.make_node("Div", ["numerator", "y"], ["of_constant"]),
        helper.make_node("Div", ["by_column", "of_constant"], ["out"]),
    ]
    return _model("divisions", nodes, held, {"x": [2, 4], "y": [2, 4]}, [2, 4])


def small_variances() -> SourceModel:
    """Two convolutions with normalizations of which some variances are near to the epsilon."""
    generator = np.random.default_rng(6)
    held, nodes, name, channels = {}, [], "x", 3
    for layer, (size, epsilon) in enumerate(((4, 1e-3), (5, 1e-5))):
        shape = (size, channels, 3, 3)
        held[f"w{layer}"] = generator.normal(size=shape).astype(np.float32)
        held[f"scale{layer}"] = generator.uniform(0.5, 2, size).astype(np.float32)
        held[f"shift{layer}"] = generator.normal(size=size).astype(np.float32)
        held[f"mean{layer}"] = generator.normal(size=size).astype(np.float32)
        held[f"variance{layer}"] = (10.0 ** -np.arange(size)).astype(np.float32)
        nodes.append(
            helper.make_node("Conv", [name, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1])
        )
        parameters = [f"{kind}{layer}" for kind in ("scale", "shift", "mean", "variance")]
        name, channels = f"n{layer}", size
        nodes.append(
            helper.make_node(
                "BatchNormalization", [f"c{layer}", *parameters], [name], epsilon=epsilon
            )
        )
    nodes.append(helper.make_node("Identity", [name], ["out"]))
    return _model("small_variances", nodes, held, {"x": [1, 3, 6, 6]}, [1, channels, 6, 6])


def _model(
    name: str,
    nodes: list,
    held: dict[str, np.ndarray],
    inputs: dict[str, list[int]],
    output: list[int],
) -> SourceModel:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    made = helper.make_tensor_value_info("out", TensorProto.FLOAT, output)
    weights = [numpy_helper.from_array(array, n) for n, array in held.items()]
    graph = helper.make_graph(nodes, name, values, [made], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        save(model, path)
        return load(path)
