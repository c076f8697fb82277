"""An ONNX graph under construction: nodes and seeded weights, known by names made here.

graph = Graph("net", {"x": (1, 3, 8, 8)})
y = graph.node("Relu", [graph.convolution("x", 3, 16, 3)])
proto = graph.model({y: (1, 16, 8, 8)})
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET_VERSION = 17  # the first with LayerNormalization
IR_VERSION = 8  # the ONNX file format that came with opset 17

Attribute = int | float | Sequence[int]


class Graph:
    """Every result and weight gets a number behind its operator's name."""

    def __init__(self, name: str, inputs: Mapping[str, Sequence[int]]) -> None:
        self.name = name
        self._inputs = [
            helper.make_tensor_value_info(key, TensorProto.FLOAT, shape)
            for key, shape in inputs.items()
        ]
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []
        self._generator = np.random.default_rng(zlib.crc32(name.encode()))

    def node(self, operator: str, inputs: Sequence[str], **attributes: Attribute) -> str:
        """Append a node of one result and return its name."""
        result = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [result], result, **attributes))
        return result

    def weight(self, array: np.ndarray) -> str:
        name = f"weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, shape: Sequence[int], deviation: float) -> str:
        """A weight of normally distributed numbers around 0."""
        array = self._generator.standard_normal(tuple(shape), np.float32) * np.float32(deviation)
        return self.weight(array)

    def uniform(self, size: int, low: float, high: float) -> str:
        return self.weight(self._generator.uniform(low, high, size).astype(np.float32))

    # -- layers ------------------------------------------------------------------------------

    def convolution(
        self, x: str, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
    ) -> str:
        """A square convolution without bias, padded so that stride 1 keeps height and width."""
        fan_in = inputs // groups * size * size
        filters = self.normal((outputs, inputs // groups, size, size), math.sqrt(2 / fan_in))
        before = (size - 1) // 2
        return self.node(
            "Conv",
            [x, filters],
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[before] * 4,
            group=groups,
        )

    def batch_normalization(self, x: str, channels: int, low: float = 0.8) -> str:
        """Statistics near those of normalized data; `low` to `low + 0.4` is the scale."""
        statistics = [
            self.uniform(channels, low, low + 0.4),
            self.normal((channels,), 0.01),
            self.normal((channels,), 0.01),
            self.uniform(channels, 0.5, 1.5),
        ]
        return self.node("BatchNormalization", [x, *statistics], epsilon=1e-5)

    def dense(self, x: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
        """x @ w + b over the last axis, as exporters write a linear layer of tokens."""
        weight = self.normal((inputs, outputs), math.sqrt(gain / inputs))
        return self.node("Add", [self.normal((outputs,), 0.01), self.node("MatMul", [x, weight])])

    def layer_normalization(self, x: str, width: int, epsilon: float = 1e-5) -> str:
        scale, bias = self.uniform(width, 0.8, 1.2), self.normal((width,), 0.01)
        return self.node("LayerNormalization", [x, scale, bias], axis=-1, epsilon=epsilon)

    def integers(self, values: Sequence[int]) -> str:
        return self.weight(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.weight(np.array(value, np.float32))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.node("Reshape", [x, self.integers(shape)])

    def model(self, outputs: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
        """The finished model; outputs with their shapes."""
        graph = helper.make_graph(
            self._nodes,
            self.name,
            self._inputs,
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in outputs.items()
            ],
            self._weights,
        )
        opsets = [helper.make_opsetid("", OPSET_VERSION)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
