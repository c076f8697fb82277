"""Random weights for models whose weights were replaced by constants.

    w = ConstantOfShape(shape)   ->   initializer w, seeded, scaled by its use

Such "light" models show an architecture in a small file, but with constant weights every layer
computes the same number everywhere. Weights scaled by fan-in keep the signal's size from layer to
layer (He et al., 2015), so that the softmax at the end does not saturate.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

from explorer.importers.building.limits import check_size
from explorer.importers.onnx.file.reading import parse

_MATRIX_OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_BATCH_NORMALIZATION = ("", "scale", "bias", "mean", "variance")


def has_constant_weights(model: ModelProto) -> bool:
    """Is some layer's weight a constant? Elsewhere a ConstantOfShape is part of the computation."""
    constants = {node.output[0] for node in model.graph.node if node.op_type == "ConstantOfShape"}
    layers = (node for node in model.graph.node if node.op_type in _MATRIX_OPERATORS)
    return any(node.input[1] in constants for node in layers)


def randomize_constant_weights(model: str | Path | ModelProto, seed: int) -> ModelProto:
    """A copy of the model in which weights made by ConstantOfShape are seeded random initializers.

    Only those of a constant shape are replaced; anything else stays as it is.
    """
    proto = ModelProto()
    proto.CopyFrom(model if isinstance(model, ModelProto) else parse(Path(model)))
    graph = proto.graph
    generator = np.random.default_rng(seed)
    constants = _constant_shapes(graph)
    kept: list[NodeProto] = []
    for node in graph.node:
        shape = constants.get(node.input[0]) if node.op_type == "ConstantOfShape" else None
        if shape is None:
            kept.append(node)
            continue
        check_size(shape, np.dtype(np.float32).itemsize, f"weight {node.output[0]!r}")
        array = _draw(generator, shape, *_use(graph, node.output[0]))
        graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
    copies = [NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(copies)
    return proto


def _constant_shapes(graph: onnx.GraphProto) -> dict[str, list[int]]:
    """Contents of all integer vectors that are initializers or constants."""
    tensors = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t
    return {
        name: numpy_helper.to_array(tensor).reshape(-1).tolist()
        for name, tensor in tensors.items()
        if tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) == 1
    }


def _use(graph: onnx.GraphProto, name: str) -> tuple[str, bool]:
    """What the first node that uses the tensor takes it for, and whether a Gemm transposes it."""
    for node in graph.node:
        if name not in node.input:
            continue
        index = list(node.input).index(name)
        if node.op_type == "BatchNormalization":
            role = _BATCH_NORMALIZATION[index]
            is_branch = role == "scale" and _is_added(graph, node.output[0])
            return ("branch scale" if is_branch else role), False
        if node.op_type in _MATRIX_OPERATORS:
            is_transposed = any(a.name == "transB" and a.i for a in node.attribute)
            return ("weight" if index == 1 else "bias"), is_transposed
        return "bias", False
    return "bias", False


def _is_added(graph: onnx.GraphProto, name: str) -> bool:
    """Whether the tensor is a branch of a residual block."""
    return any(name in node.input for node in graph.node if node.op_type in ("Add", "Sum"))


def _draw(
    generator: np.random.Generator, shape: list[int], role: str, is_transposed: bool
) -> np.ndarray:
    if role == "variance":
        array = generator.uniform(0.5, 1.5, shape)
    elif role == "scale":
        array = generator.uniform(0.8, 1.2, shape)
    elif role == "branch scale":
        # Small branches keep a sum over many blocks from growing (Zhang et al., "Fixup", 2019).
        array = generator.uniform(0.1, 0.3, shape)
    elif role == "weight":
        is_matrix = len(shape) == 2
        fan_in = shape[0] if is_matrix and not is_transposed else math.prod(shape[1:])
        array = generator.standard_normal(shape) * math.sqrt(2 / max(fan_in, 1))
    else:
        array = generator.standard_normal(shape) * 0.01
    return array.astype(np.float32)
