"""onnxruntime's products of bytes, made exact on processors with AVX2 and without VNNI.

There it multiplies unsigned with signed bytes in pairs of 16 bits (`vpmaddubsw`), and cuts sums of
two products off that do not fit: its operators are wrong then, where weights are beyond 64 and
inputs near 255. Products of unsigned bytes are exact:

    MatMulInteger(x, w : i8, zx, zw)   =   MatMulInteger(x, w + 128 : ui8, zx, zw + 128)
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

EXACT_BYTES = ("session.x64quantprecision", "1")
"""Entry of a session's configuration that does the same, where its optimizations are on."""
OPERATORS = {
    "MatMulInteger": (1, 3),
    "ConvInteger": (1, 3),
    "QLinearMatMul": (3, 5),
    "QLinearConv": (3, 5),
}
"""Which operands are weights and their zero points."""
SIGN = 128


def with_unsigned_weights(model: ModelProto) -> ModelProto:
    """The model with constant weights of those operators as unsigned bytes; itself without any.

    Names of tensors stay, but for the weights that are added.
    """
    weights = {t.name: t for t in model.graph.initializer if t.data_type == TensorProto.INT8}
    nodes = [node for node in model.graph.node if _has_signed_weights(node, weights)]
    if not nodes:
        return model
    changed = ModelProto()
    changed.CopyFrom(model)
    made: set[str] = set()
    for node in changed.graph.node:
        if _has_signed_weights(node, weights):
            _make_unsigned(node, weights, changed.graph, made)
    return changed


def _has_signed_weights(node: NodeProto, weights: dict[str, TensorProto]) -> bool:
    if node.op_type not in OPERATORS or node.domain:
        return False
    if node.input[2:3] and node.input[2] in weights:
        return False  # the input has a sign as well: those products are exact
    given = [node.input[index] for index in OPERATORS[node.op_type] if index < len(node.input)]
    return all(name in weights and not weights[name].external_data for name in given if name)


def _make_unsigned(
    node: NodeProto, weights: dict[str, TensorProto], graph: GraphProto, made: set[str]
) -> None:
    operands = [*node.input]
    for index in OPERATORS[node.op_type]:
        operands += [""] * (index + 1 - len(operands))
        name = operands[index]
        array = numpy_helper.to_array(weights[name]) if name else np.zeros((), np.int8)
        unsigned = f"{name or 'no zero point'} (unsigned)"
        if unsigned not in made:
            made.add(unsigned)
            stored = (array.astype(np.int16) + SIGN).astype(np.uint8)
            graph.initializer.append(numpy_helper.from_array(stored, unsigned))
        operands[index] = unsigned
    del node.input[:]
    node.input.extend(operands)
