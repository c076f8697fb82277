"""Bytes times bytes that onnxruntime would compute wrongly on older processors of Intel and AMD.

Their instruction for unsigned times signed bytes (`vpmaddubsw`) adds two products in 16 bits and
cuts off what does not fit: 255 * 127 + 255 * 127 is 32,767 instead of 64,770. Processors with VNNI
do without it. onnxruntime uses it where there is no VNNI, whatever its options say when a graph is
left as it is; its products of unsigned bytes are exact everywhere. So a model that is to judge gets
unsigned weights first, on every processor. That means the same:

    MatMulInteger(a u8, b s8, za, zb)   =>   MatMulInteger(a, b + 128 as u8, za, zb + 128 as u8)

MatMulNBits and QMoE with an `accuracy_level` round the rows that they multiply, to bytes for 4. The
level is a permission, and what is right are exact products: a model that is to judge has no levels.

Source: onnxruntime's page on quantization, "S8S8, U8S8", and its `Avx2WeightS8ToU8Transformer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    numpy_helper,
)

ACCURACY_LEVEL = "accuracy_level"


@dataclass(frozen=True)
class Product:
    """Where an operator has the operands of a product of bytes. None: it has no such operand."""

    weight: int
    zero_point: int
    activation_zero_point: int | None
    """Tells the activation's type; without it the activation may be of either."""


PRODUCTS: dict[tuple[str, str], tuple[Product, ...]] = {
    ("", "MatMulInteger"): (Product(1, 3, None),),
    ("", "ConvInteger"): (Product(1, 3, 2),),
    ("", "QLinearMatMul"): (Product(3, 5, 2),),
    ("", "QLinearConv"): (Product(3, 5, 2),),
    ("com.microsoft", "QLinearConv"): (Product(3, 5, 2),),
    ("com.microsoft", "QGemm"): (Product(3, 5, 2),),
    ("com.microsoft", "MatMulIntegerToFloat"): (Product(1, 5, 4),),
    ("com.microsoft", "DynamicQuantizeMatMul"): (Product(1, 3, None),),
    ("com.microsoft", "DynamicQuantizeLSTM"): (Product(1, 9, None), Product(2, 11, None)),
    ("com.microsoft", "QAttention"): (Product(1, 7, 6),),
}


def with_unsigned_weights(model: ModelProto) -> ModelProto:
    """The model with unsigned constant weights where activations are unsigned; itself where none
    are concerned. Weights or zero points that are computed stay as they are."""
    if not any(_concerned(graph) for graph in _graphs(model.graph)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for graph in _graphs(copy.graph):
        _turn(graph)
    return copy


def with_exact_rows(model: ModelProto) -> ModelProto:
    """The model without accuracy levels; itself where it has none."""
    if not any(_leveled(graph) for graph in _graphs(model.graph)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for graph in _graphs(copy.graph):
        for node in _leveled(graph):
            kept = [a for a in node.attribute if a.name != ACCURACY_LEVEL]
            del node.attribute[:]
            node.attribute.extend(kept)
    return copy


def _leveled(graph: GraphProto) -> list[NodeProto]:
    """Products of a graph that say how exact their rows have to be."""
    return [
        node
        for node in graph.node
        if node.domain == "com.microsoft"
        and node.op_type in ("MatMulNBits", "QMoE")
        and any(a.name == ACCURACY_LEVEL for a in node.attribute)
    ]


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and all that its nodes hold."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _graphs(attribute.g)
            for inner in attribute.graphs:
                yield from _graphs(inner)


def _concerned(graph: GraphProto) -> list[tuple[NodeProto, Product]]:
    """Products of a graph whose weights are signed constants of the same graph."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    found = []
    for node in graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        for product in PRODUCTS.get((domain, node.op_type), ()):
            weight = constants.get(_operand(node, product.weight))
            zero_name = _operand(node, product.zero_point)
            if weight is None or weight.data_type != TensorProto.INT8:
                continue
            if zero_name and zero_name not in constants:
                continue
            if product.activation_zero_point is not None:
                activation = constants.get(_operand(node, product.activation_zero_point))
                if activation is not None and activation.data_type != TensorProto.UINT8:
                    continue
            found.append((node, product))
    return found


def _turn(graph: GraphProto) -> None:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node, product in _concerned(graph):
        for index in (product.weight, product.zero_point):
            name = _operand(node, index)
            turned = f"{name}/unsigned"
            if turned not in constants:
                signed = numpy_helper.to_array(constants[name]) if name else np.zeros((), np.int8)
                unsigned = (signed.astype(np.int16) + 128).astype(np.uint8)
                constants[turned] = numpy_helper.from_array(unsigned, turned)
                graph.initializer.append(constants[turned])
            node.input.extend([""] * (index + 1 - len(node.input)))
            node.input[index] = turned


def _operand(node: NodeProto, index: int) -> str:
    """A missing operand has the name that ONNX gives one which was left out."""
    return node.input[index] if index < len(node.input) else ""
