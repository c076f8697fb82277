"""How each of PyTorch's own layers is written in ONNX: one function per layer.

`emit(layer, graph, value)` appends the nodes of `layer` applied to `value` and returns the name
of the result. `networks.py` adds the blocks that are not plain chains of layers.
"""

import math
from functools import singledispatch

import numpy as np
from onnx_graph import OnnxGraph
from torch import nn


@singledispatch
def emit(layer: nn.Module, graph: OnnxGraph, value: str) -> str:
    """Append `layer` to `graph`; a layer without a function of its own is an error."""
    raise TypeError(
        f"no ONNX form is known for {type(layer).__name__}: register one with @emit.register"
    )


@emit.register
def emit_chain(chain: nn.Sequential, graph: OnnxGraph, value: str) -> str:
    for layer in chain:
        value = emit(layer, graph, value)
    return value


@emit.register
def emit_convolution(layer: nn.Conv2d, graph: OnnxGraph, value: str) -> str:
    parts = ["weight"] if layer.bias is None else ["weight", "bias"]
    assert not isinstance(layer.padding, str), "paddings are given as numbers here"
    return graph.node(
        "Conv",
        [value, *(graph.parameter(layer, part) for part in parts)],
        layer,
        dilations=layer.dilation,
        group=layer.groups,
        kernel_shape=layer.kernel_size,
        pads=[*layer.padding, *layer.padding],  # before, then after; rows, then columns
        strides=layer.stride,
    )


@emit.register
def emit_batch_normalization(layer: nn.BatchNorm2d, graph: OnnxGraph, value: str) -> str:
    assert layer.momentum is not None, "a cumulative average has no ONNX form"
    parts = ["weight", "bias", "running_mean", "running_var"]
    return graph.node(
        "BatchNormalization",
        [value, *(graph.parameter(layer, part) for part in parts)],
        layer,
        epsilon=layer.eps,
        # PyTorch weighs the new statistics by its momentum, ONNX the old ones.
        momentum=1.0 - layer.momentum,
    )


@emit.register
def emit_dense(layer: nn.Linear, graph: OnnxGraph, value: str) -> str:
    inputs = [value, graph.parameter(layer, "weight"), graph.parameter(layer, "bias")]
    return graph.node("Gemm", inputs, layer, alpha=1.0, beta=1.0, transB=1)


@emit.register
def emit_layer_normalization(layer: nn.LayerNorm, graph: OnnxGraph, value: str) -> str:
    inputs = [value, graph.parameter(layer, "weight"), graph.parameter(layer, "bias")]
    return graph.node("LayerNormalization", inputs, layer, axis=-1, epsilon=layer.eps)


@emit.register
def emit_max_pool(layer: nn.MaxPool2d, graph: OnnxGraph, value: str) -> str:
    assert isinstance(layer.kernel_size, int), "windows are square here"
    size = [layer.kernel_size, layer.kernel_size]
    return graph.node("MaxPool", [value], layer, kernel_shape=size, strides=size)


@emit.register
def emit_global_average_pool(layer: nn.AdaptiveAvgPool2d, graph: OnnxGraph, value: str) -> str:
    assert layer.output_size == 1, "only an average over the whole image is a GlobalAveragePool"
    return graph.node("GlobalAveragePool", [value], layer)


@emit.register
def emit_flatten(layer: nn.Flatten, graph: OnnxGraph, value: str) -> str:
    return graph.node("Flatten", [value], layer, axis=layer.start_dim)


@emit.register
def emit_relu(layer: nn.ReLU, graph: OnnxGraph, value: str) -> str:
    return graph.node("Relu", [value], layer)


@emit.register
def emit_hard_swish(layer: nn.Hardswish, graph: OnnxGraph, value: str) -> str:
    return graph.node("HardSwish", [value], layer)


@emit.register
def emit_hard_sigmoid(layer: nn.Hardsigmoid, graph: OnnxGraph, value: str) -> str:
    # PyTorch's slope is 1/6; that of ONNX is 0.2 where nothing is said.
    return graph.node("HardSigmoid", [value], layer, alpha=1.0 / 6.0, beta=0.5)


@emit.register
def emit_gelu(layer: nn.GELU, graph: OnnxGraph, value: str) -> str:
    """GELU(x) = x * (1 + erf(x / sqrt(2))) * 0.5, in its pieces: opset 17 has no Gelu node."""
    root_of_two = graph.initializer(np.float32(math.sqrt(2.0)), layer, "root_of_two")
    one = graph.initializer(np.float32(1.0), layer, "one")
    half = graph.initializer(np.float32(0.5), layer, "half")
    scaled = graph.node("Div", [value, root_of_two], layer, "div")
    error_function = graph.node("Erf", [scaled], layer, "erf")
    shifted = graph.node("Add", [error_function, one], layer, "add")
    product = graph.node("Mul", [value, shifted], layer, "mul")
    return graph.node("Mul", [product, half], layer, "halve")


@emit.register
def emit_dropout(layer: nn.Dropout, graph: OnnxGraph, value: str) -> str:
    """Dropout at inference passes its input on; exporters often leave the node in the graph."""
    ratio = graph.initializer(np.float32(layer.p), layer, "ratio")
    return graph.node("Dropout", [value, ratio], layer)


@emit.register
def emit_identity(layer: nn.Identity, graph: OnnxGraph, value: str) -> str:
    return graph.node("Identity", [value], layer)
