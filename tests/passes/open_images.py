"""Random convolutional ONNX graphs over x (1, c, h, w): windows, masks and what lies in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class ImageGraph:
    """Adds operations at random; values are known with their channels and their scale."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.channels = int(self.random.choice([1, 3, 8, 16, 20]))
        self.values: list[tuple[str, int, tuple[str, ...]]] = [("x", self.channels, ())]
        for _ in range(int(self.random.integers(2, 7))):
            self.add()

    def model(self) -> onnx.ModelProto:
        """The last value is the output y; its mean over all pixels is the output m."""
        last = self.values[-1][0]
        self.nodes.append(helper.make_node("Identity", [last], ["y"]))
        self.nodes.append(helper.make_node("GlobalAveragePool", [last], ["m"]))
        given = helper.make_tensor_value_info("x", 1, [1, self.channels, "h", "w"])
        outputs = [helper.make_tensor_value_info(name, 1, None) for name in ("y", "m")]
        graph = helper.make_graph(self.nodes, "image", [given], outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def const(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def op(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def add(self) -> None:
        value, channels, steps = self.values[
            -1 - int(self.random.integers(0, 2)) % len(self.values)
        ]
        kinds = [name for name in dir(self) if name.startswith("make_")]
        make = getattr(self, kinds[int(self.random.integers(0, len(kinds)))])
        made = make(value, channels, steps)
        if made is not None:
            self.values.append(made)

    # -- operations: the value, its channels, and what was done to its height and width ------------
    def make_convolution(self, x: str, channels: int, steps: tuple[str, ...]):
        size = int(self.random.choice([1, 3, 3, 5]))
        stride = 2 if len(steps) < 2 and self.random.integers(0, 3) == 0 else 1
        pads = [size // 2] * 4 if self.random.integers(0, 4) else [0, 0, size // 2, size // 2]
        if pads[0] == 0 and size > 1:
            pads = [(size - 1) // 2, (size - 1) // 2, size // 2, size // 2]
        depthwise = self.random.integers(0, 2) == 0
        out = channels if depthwise else int(self.random.choice([2, 8, 16, 24]))
        shape = (out, 1 if depthwise else channels, size, size)
        weight = self.random.standard_normal(shape) / size
        made = self.op(
            "Conv",
            [x, self.const(weight), self.const(self.random.standard_normal(out))],
            pads=pads,
            strides=[stride, stride],
            group=channels if depthwise else 1,
        )
        return self.op("Relu", [made]), out, (*steps, "half") if stride == 2 else steps

    make_second_convolution = make_convolution

    def make_maximum(self, x: str, channels: int, steps: tuple[str, ...]):
        if len(steps) >= 2:
            return None
        made = self.op("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
        return made, channels, (*steps, "half")

    def make_average(self, x: str, channels: int, steps: tuple[str, ...]):
        made = self.op(
            "AveragePool",
            [x],
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
            count_include_pad=int(self.random.integers(0, 2)),
        )
        return made, channels, steps

    def make_sum(self, x: str, channels: int, steps: tuple[str, ...]):
        others = [v for v, c, s in self.values if c == channels and s == steps and v != x]
        if not others:
            return None
        other = others[int(self.random.integers(0, len(others)))]
        return self.op("Add", [x, other]), channels, steps

    def make_both(self, x: str, channels: int, steps: tuple[str, ...]):
        others = [(v, c) for v, c, s in self.values if s == steps and c < 40]
        if not others:
            return None
        other, more = others[int(self.random.integers(0, len(others)))]
        return self.op("Concat", [x, other], axis=1), channels + more, steps

    def make_padding(self, x: str, channels: int, steps: tuple[str, ...]):
        amounts = numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "amounts")
        if all(weight.name != "amounts" for weight in self.weights):
            self.weights.append(amounts)
        padded = self.op("Pad", [x, "amounts"])
        weight = self.random.standard_normal((channels, 1, 3, 3)) / 3
        made = self.op("Conv", [padded, self.const(weight)], group=channels)
        return made, channels, steps

    def make_gate(self, x: str, channels: int, steps: tuple[str, ...]):
        mean = self.op("GlobalAveragePool", [x])
        return self.op("Mul", [x, self.op("Sigmoid", [mean])]), channels, steps

    def make_upsampling(self, x: str, channels: int, steps: tuple[str, ...]):
        if not steps:
            return None
        scales = self.const([1, 1, 2, 2])
        made = self.op(
            "Resize",
            [x, "", scales],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        return made, channels, (*steps, "twice")
