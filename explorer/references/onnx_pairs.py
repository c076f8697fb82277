"""Products between QuantizeLinear and DequantizeLinear, which compilers fuse, cut out together.

    DequantizeLinear(x), DequantizeLinear(w)  ->  Conv  ->  Relu  ->  QuantizeLinear

The part has the operands of a QLinearConv or QLinearMatMul, so that inputs are found that lie on
the ties of its requantization. What is judged is the distance from the number before it is rounded,
in float64: where that is a tie, floats of the reference may round it either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.reading import OnnxContent, from_proto
from explorer.references.onnx_float64 import evaluate_exactly
from explorer.references.parts import Arrays, Operand, Part

PRODUCTS = {"Conv": "QDQConv", "Gemm": "QDQMatMul", "MatMul": "QDQMatMul"}
"""Operators, and what the part is called."""
_ACTIVATIONS = ("Relu", "Clip")


def pair_parts(model: SourceModel, values: Arrays) -> Iterator[Part]:
    """One for each such product of bytes with constant weights. values: tensors of a run."""
    content = model.content
    assert isinstance(content, OnnxContent)
    graph = content.proto.graph
    makers = {name: node for node in graph.node for name in node.output}
    uses = Counter(name for node in graph.node for name in node.input)
    uses.update(value.name for value in graph.output)
    stored = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            chain = _chain(node, makers, uses)
            given = None if chain is None else _operands(chain, makers, stored, values)
            if chain is not None and given is not None:
                yield _part(content.proto, chain, given, makers, values)


def _chain(
    last: NodeProto, makers: Mapping[str, NodeProto], uses: Mapping[str, int]
) -> list[NodeProto] | None:
    """The product, maybe an activation, and the quantization."""
    found = [last]
    while len(found) < 3:
        value = found[0].input[0]
        maker = makers.get(value)
        if maker is None or uses[value] != 1:
            return None
        found.insert(0, maker)
        if maker.op_type in PRODUCTS:
            return found
        if maker.op_type not in _ACTIVATIONS:
            return None
    return None


def _operands(
    chain: list[NodeProto], makers: Mapping[str, NodeProto], stored: set[str], values: Arrays
) -> list[Operand] | None:
    """As QLinearConv has them: x, its steps, w, its steps, those of the result, bias."""
    product, last = chain[0], chain[-1]
    if product.op_type == "Gemm" and not _is_plain(product):
        return None
    pairs = [makers.get(name) for name in product.input[:2]]
    if any(n is None or n.op_type != "DequantizeLinear" for n in pairs):
        return None
    x, w = (_with_zero(n, values) for n in pairs if n is not None)
    result = _with_zero(last, values)
    if x is None or w is None or result is None or x[0].name in stored:
        return None
    fixed = [name for o in (*x[1:], *w, *result[1:]) if (name := o.name)]
    if not set(fixed) <= stored or any(np.size(o.array) != 1 for o in (*x[1:], *result[1:])):
        return None
    if product.op_type == "Gemm" and _attribute(product, "transB"):
        w[0] = Operand(name=w[0].name, array=w[0].array.T, is_constant=True)
    found = [*x, *w, *result[1:]]
    if len(product.input) > 2 and product.input[2]:
        bias = values[product.input[2]].astype(np.float64)
        scale = x[1].array.astype(np.float64) * w[1].array.astype(np.float64)
        whole = np.rint(bias.reshape(-1) / scale.reshape(-1)).astype(np.int64)
        found.append(Operand(name=product.input[2], array=whole, is_constant=True))
    return found


def _with_zero(node: NodeProto, values: Arrays) -> list[Operand] | None:
    """What is quantized, or dequantized, with scale and zero point."""
    if any(name and name not in values for name in node.input):
        return None
    data, scale = (values[name] for name in node.input[:2])
    named = [node.input[0], node.input[1]]
    has_zero = len(node.input) > 2 and bool(node.input[2])
    zero = values[node.input[2]] if has_zero else np.zeros_like(scale, np.uint8)
    return [
        Operand(name=named[0], array=data, is_constant=False),
        Operand(name=named[1], array=scale, is_constant=True),
        Operand(name=node.input[2] if has_zero else "", array=zero, is_constant=True),
    ]


def _is_plain(product: NodeProto) -> bool:
    numbers = (_attribute(product, "alpha", 1.0), _attribute(product, "beta", 1.0))
    return numbers == (1.0, 1.0) and not _attribute(product, "transA")


def _attribute(node: NodeProto, name: str, default: float = 0) -> float:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def _part(
    proto: ModelProto,
    chain: list[NodeProto],
    operands: list[Operand],
    makers: Mapping[str, NodeProto],
    values: Arrays,
) -> Part:
    product, last = chain[0], chain[-1]
    before = [n for name in product.input if (n := makers.get(name)) is not None]
    nodes = [*before, *chain]
    x, y = operands[0].name, last.output[0]
    made = {name for node in nodes for name in node.output}
    fixed = dict.fromkeys(n for node in nodes for n in node.input if n and n not in {*made, x})
    operands = [Operand(name=o.name, array=o.array, is_constant=o.name != x) for o in operands]

    def model_for(inputs: Arrays) -> SourceModel:
        whole = ModelProto(ir_version=proto.ir_version)
        whole.opset_import.extend(proto.opset_import)
        whole.graph.name = product.name or y
        whole.graph.node.extend(nodes)
        whole.graph.initializer.extend(
            numpy_helper.from_array(np.ascontiguousarray(values[name]), name) for name in fixed
        )
        whole.graph.input.append(_described(x, inputs[x]))
        whole.graph.output.append(helper.make_tensor_value_info(y, _type(values[y]), None))
        return from_proto(whole, whole.graph.name)

    attributes = {a.name: helper.get_attribute_value(a) for a in product.attribute}
    shapes = [o.array.shape for o in operands]
    return Part(
        node=product.name or product.output[0],
        operator=PRODUCTS[product.op_type],
        operands=tuple(operands),
        outputs=(y,),
        form=f"{[n.op_type for n in nodes]} {attributes} {shapes} {operands[0].array.dtype}",
        model_for=model_for,
        attributes=attributes,
        is_resizable=False,
        unrounded=partial(_unrounded, proto, nodes, values),
    )


def _described(name: str, array: np.ndarray):
    return helper.make_tensor_value_info(name, _type(array), array.shape)


def _type(array: np.ndarray) -> TensorProto.DataType:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def _unrounded(
    proto: ModelProto, nodes: list[NodeProto], values: Arrays, inputs: Arrays
) -> dict[str, np.ndarray]:
    """The result in float64 before it is rounded, in steps from the zero point on, saturated."""
    known = {**values, **inputs}
    last = nodes[-1]
    for node in nodes[:-1]:
        if node.op_type == "DequantizeLinear":
            known[node.output[0]] = _dequantized(node, known)
        else:
            given = [known[name] if name else None for name in node.input]
            known[node.output[0]] = evaluate_exactly(node, proto, given)[0]
    y = last.output[0]
    limits = np.iinfo(values[y].dtype)
    zero = known[last.input[2]] if len(last.input) > 2 and last.input[2] else np.array(0)
    steps = known[last.input[0]].astype(np.float64) / known[last.input[1]].astype(np.float64)
    return {y: np.clip(steps + zero.astype(np.float64), limits.min, limits.max)}


def _dequantized(node: NodeProto, known: Arrays) -> np.ndarray:
    x = known[node.input[0]].astype(np.float64)
    scale = known[node.input[1]].astype(np.float64)
    has_zero = len(node.input) > 2 and bool(node.input[2])
    zero = known[node.input[2]].astype(np.float64) if has_zero else np.zeros_like(scale)
    if scale.size > 1:
        shape = [1] * x.ndim
        shape[int(_attribute(node, "axis", 1)) % x.ndim] = -1
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (x - zero) * scale


__all__ = ["pair_parts"]
