"""Convolutional classifiers at 224x224: ResNet-18 and MobileNetV2.

References: He et al., Deep Residual Learning for Image Recognition, CVPR 2016, table 1; Sandler et
al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018, table 2.
"""

from __future__ import annotations

import math

import onnx

from architectures.graph import Graph

CLASSES = 1000
BRANCH_SCALE = 0.1
"""Least scale of the last normalization in a branch: a sum over many blocks must not grow."""


def resnet18() -> onnx.ModelProto:
    graph = Graph("resnet18", {"image": (1, 3, 224, 224)})
    x = _normalized(graph, "image", 3, 64, 7, 2)
    x = graph.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            x = _basic_block(graph, x, channels, width, stride)
            channels = width
    return _classified(graph, x, channels)


def _basic_block(graph: Graph, x: str, inputs: int, outputs: int, stride: int) -> str:
    y = _normalized(graph, x, inputs, outputs, 3, stride)
    y = graph.convolution(y, outputs, outputs, 3)
    y = graph.batch_normalization(y, outputs, BRANCH_SCALE)
    if stride != 1 or inputs != outputs:
        x = graph.batch_normalization(graph.convolution(x, inputs, outputs, 1, stride), outputs)
    return graph.node("Relu", [graph.node("Add", [y, x])])


# Expansion, channels, blocks, stride of the first.
_MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenetv2() -> onnx.ModelProto:
    graph = Graph("mobilenetv2", {"image": (1, 3, 224, 224)})
    x, channels = _normalized(graph, "image", 3, 32, 3, 2, "Clip"), 32
    for expansion, width, blocks, first_stride in _MOBILENET_STAGES:
        for block in range(blocks):
            stride = 1 if block else first_stride
            x = _inverted_residual(graph, x, channels, width, expansion, stride)
            channels = width
    return _classified(graph, _normalized(graph, x, channels, 1280, 1, 1, "Clip"), 1280)


def _inverted_residual(
    graph: Graph, x: str, inputs: int, outputs: int, expansion: int, stride: int
) -> str:
    hidden = inputs * expansion
    y = x if expansion == 1 else _normalized(graph, x, inputs, hidden, 1, 1, "Clip")
    y = _normalized(graph, y, hidden, hidden, 3, stride, "Clip", groups=hidden)
    is_added = stride == 1 and inputs == outputs
    y = graph.convolution(y, hidden, outputs, 1)
    y = graph.batch_normalization(y, outputs, BRANCH_SCALE if is_added else 0.8)
    return graph.node("Add", [x, y]) if is_added else y


# -- parts -----------------------------------------------------------------------------------------


def _normalized(
    graph: Graph,
    x: str,
    inputs: int,
    outputs: int,
    size: int,
    stride: int,
    activation: str = "Relu",
    groups: int = 1,
) -> str:
    """Convolution, batch normalization and ReLU, or ReLU6 where the activation is a Clip."""
    x = graph.convolution(x, inputs, outputs, size, stride, groups)
    x = graph.batch_normalization(x, outputs)
    limits = [graph.number(0.0), graph.number(6.0)] if activation == "Clip" else []
    return graph.node(activation, [x, *limits])


def _classified(graph: Graph, x: str, channels: int) -> onnx.ModelProto:
    """Mean over the image, then a linear layer."""
    x = graph.node("Flatten", [graph.node("GlobalAveragePool", [x])], axis=1)
    weight = graph.normal((CLASSES, channels), math.sqrt(1 / channels))
    scores = graph.node("Gemm", [x, weight, graph.normal((CLASSES,), 0.01)], transB=1)
    return graph.model({scores: (1, CLASSES)})
