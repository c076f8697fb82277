"""Models that make onnxruntime write each of its operators of a layout, and saving them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from explorer.importers.onnx.program.blocks import NCHWC, unblocked

LEVELS = {
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


def save(model: onnx.ModelProto | Path, level: str, to: Path) -> onnx.ModelProto:
    """What onnxruntime writes after it optimized the model at that level."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(to)
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    options.log_severity_level = 4  # it warns that the file is for this machine
    given = str(model) if isinstance(model, Path) else model.SerializeToString()
    onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    return onnx.load(to)


def run(model: onnx.ModelProto | Path, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs in onnxruntime, as the model is."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    given = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, dict(inputs))]


def quantize(
    model: onnx.ModelProto, kind: str, samples: list[dict[str, np.ndarray]], to: Path
) -> None:
    """The model with 8-bit numbers, in one of onnxruntime's two forms: QDQ and QOperator."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Samples(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(samples)

        # None at the end, which its declaration does not say.
        def get_next(self) -> Any:
            return next(self.rest, None)

    plain = to.with_name("plain.onnx")  # a model in memory would be changed
    onnx.save(model, plain)
    quantize_static(
        plain,
        to,
        Samples(),
        quant_format=QuantFormat[kind],
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def operators(model: onnx.ModelProto, domain: str = NCHWC) -> set[str]:
    return {node.op_type for node in model.graph.node if node.domain == domain}


class Draft:
    """A graph that grows node by node; weights are drawn from a seeded generator."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.random = np.random.default_rng(0)

    # Any: attributes are of whatever type ONNX allows.
    def add(self, operator: str, *operands: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, operands, [name], f"n{name}", **attributes))
        return name

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = array
        return name

    def drawn(self, *shape: int) -> str:
        scale = 1 / np.sqrt(max(np.prod(shape[1:]), 1))
        return self.weight((self.random.standard_normal(shape) * scale).astype(np.float32))

    def conv(self, x: str, channels: int, to: int, size: int = 3, group: int = 1) -> str:
        filters = self.drawn(to, channels // group, size, size)
        pads = [size // 2] * 4
        return self.add("Conv", x, filters, self.drawn(to), pads=pads, group=group)

    def model(
        self, inputs: Mapping[str, list[int | str]], outputs: list[str], opset: int = 13
    ) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
        )


def every_blocked_operator() -> onnx.ModelProto:
    """Channels that fill no blocks (12, 20, 36) among those that do; all kinds of convolution."""
    d = Draft()
    x = d.add("Relu", d.conv("image", 3, 20))
    wide = d.add("LeakyRelu", d.conv(x, 20, 32, 1), alpha=0.2)
    depthwise = d.add("Clip", d.conv(wide, 32, 32, group=32), *_bounds(d, 0.0, 6.0))
    grouped = d.add("HardSigmoid", d.conv(depthwise, 32, 32, group=2), alpha=0.3)
    summed = d.add("Relu", d.add("Add", d.conv(grouped, 32, 32), wide))
    gate = d.add("Sigmoid", d.conv(d.add("GlobalAveragePool", summed), 32, 32, 1))
    normal = d.add("BatchNormalization", d.add("Mul", summed, summed), *_statistics(d, 32))
    large = d.add("MaxPool", normal, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    mean = d.add("AveragePool", summed, kernel_shape=[2, 2], strides=[2, 2])
    both = d.add("Concat", large, mean, axis=1)
    scales = d.weight(np.array([1, 1, 2, 2], np.float32))
    asymmetric = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    again = d.add("Resize", d.conv(both, 64, 36, 1), "", scales, mode="nearest", **asymmetric)
    behind = d.add("Transpose", d.add("Tanh", d.conv(again, 36, 12)), perm=[0, 2, 3, 1])
    peak = d.add("GlobalMaxPool", normal)
    pooled = d.add("MaxPool", "other", kernel_shape=[2, 2])  # reordered for a pool alone
    return d.model(
        {"image": [1, 3, 8, 8], "other": [1, 32, 6, 6]}, [gate, behind, peak, d.add("Neg", pooled)]
    )


def two_blocked_convolutions() -> onnx.ModelProto:
    """20 channels between them, which fill no blocks."""
    d = Draft()
    x = d.add("Relu", d.conv("image", 3, 20))
    return d.model({"image": [1, 3, 6, 6]}, [d.add("Add", d.conv(x, 20, 20), x)])


def sum_of_unknown_sizes() -> onnx.ModelProto:
    """Sizes that are not shown to be equal: onnxruntime adds in (N, C / 8, H, W, 8)."""
    d = Draft()
    left, right = d.conv("a", 3, 32), d.conv("b", 3, 32)
    branches = [d.add("Relu", x) for x in (left, right)]
    y = d.add("Add", *branches)
    shapes = {name: ["n", 3, f"h_{name}", f"w_{name}"] for name in ("a", "b")}
    return d.model(shapes, [d.add("Relu", d.conv(y, 32, 20)), d.add("Neg", y)])


def _bounds(d: Draft, *bounds: float) -> list[str]:
    return [d.weight(np.array(bound, np.float32)) for bound in bounds]


def _statistics(d: Draft, channels: int) -> list[str]:
    numbers = [d.random.uniform(0.5, 1.5, channels).astype(np.float32) for _ in range(4)]
    return [d.weight(array) for array in numbers]


def relaid(model: onnx.ModelProto, size: int, to: int) -> onnx.ModelProto:
    """A model with blocks of `size` channels as a machine with blocks of `to` would save it.

    Filters of zero that filled blocks go, others come.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    changed: dict[str, np.ndarray] = {}
    for node in result.graph.node:
        if node.op_type == "Reshape" and arrays[node.input[1]].size == 5:
            batch, blocks, *plane, _ = arrays[node.input[1]].tolist()
            shape = [batch, blocks * size // to, *plane, to]
            changed[node.input[1]] = np.array(shape, np.int64)
        if node.domain != NCHWC or node.op_type != "Conv":
            continue
        filters = _without_blocks_of_zeros(unblocked(arrays[node.input[1]], size), to)
        changed[node.input[1]] = blocked_filters(_filled(filters, to), to)
        if len(node.input) > 2 and node.input[2]:
            changed[node.input[2]] = _filled(arrays[node.input[2]][: len(filters)], to)
        for attribute in node.attribute:
            if attribute.name == "group" and attribute.i == len(filters):
                attribute.i = len(changed[node.input[1]])
    for tensor in result.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
    return result


def _without_blocks_of_zeros(filters: np.ndarray, size: int) -> np.ndarray:
    """Without those at the end, of filters, and of channels where they are blocked."""
    while len(filters) > size and not filters[-size:].any():
        filters = filters[:-size]
    while filters.shape[1] > size and not filters[:, -size:].any():
        filters = filters[:, :-size]
    return filters


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    """Zeros up to whole blocks: of filters, and of channels where they are blocked, too."""
    missing = [(0, -len(array) % size)] + [(0, 0)] * (array.ndim - 1)
    if array.ndim > 1 and array.shape[1] >= size:
        missing[1] = (0, -array.shape[1] % size)
    return np.pad(array, missing)


def blocked_filters(filters: np.ndarray, size: int) -> np.ndarray:
    """The inverse of `unblocked`, written on its own."""
    count, channels, height, width = filters.shape
    if channels < size:
        parts = filters.reshape(count // size, size, channels, height, width)
        return np.ascontiguousarray(parts.transpose(0, 2, 3, 4, 1)).reshape(filters.shape)
    parts = filters.reshape(count // size, size, channels // size, size, height, width)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1)).reshape(filters.shape)
