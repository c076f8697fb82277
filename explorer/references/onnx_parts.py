"""Nodes of an ONNX model as models of their own.

    y = Softmax<axis=1>(x)       Part(node="softmax_3", operator="Softmax", operands=(x,), ...)

Operands that say how a node works (`parts.SETTINGS`) become constants where they are computed:
a program for them is made when they are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.reading import OnnxContent, from_proto
from explorer.importers.onnx.file.reads import reads
from explorer.references.parts import SETTINGS, Arrays, NoPart, Operand, Part, plain

MAX_BYTES = (2 << 30) - (16 << 20)
"""Of the constants of one operation: what one protobuf message holds."""
SMALL = 16
"""Elements of constants that tell operations apart."""
_NO_OPERANDS = ("Constant",)


def onnx_parts(model: SourceModel, values: Arrays) -> Iterator[Part | NoPart]:
    """One for each node of the outermost graph that has operands.

    values: the tensors of a run of the model by name, its inputs and constants included.
    """
    content = model.content
    assert isinstance(content, OnnxContent)
    graph = content.proto.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    fixed = set(stored) | {n for node in graph.node if not node.input for n in node.output}
    for node in graph.node:
        if node.op_type in _NO_OPERANDS or not reads(node):
            continue
        name = node.name or node.output[0]
        reason = _reason(node, values)
        if reason:
            yield NoPart(node=name, operator=node.op_type, reason=reason)
            continue
        constants = {n for n in reads(node) if n in fixed}
        places = SETTINGS.get(plain(node.op_type), ())
        constants |= {n for place, n in enumerate(node.input) if place in places and n}
        yield _part(content.proto, node, name, values, constants, stored)


def _reason(node: NodeProto, values: Arrays) -> str:
    """Why a node is not cut out; empty where it is."""
    for name in reads(node):
        if name not in values or values[name].dtype.kind in "OUS":
            return f"its operand {name!r} is no tensor of numbers"
    if not any(name in values for name in node.output):
        return "its result is no tensor of numbers"
    if sum(values[name].nbytes for name in reads(node)) > MAX_BYTES:
        return "its operands take more than 2 GiB"
    return ""


def _part(
    proto: ModelProto,
    node: NodeProto,
    name: str,
    values: Arrays,
    constants: set[str],
    stored: Mapping[str, TensorProto],
) -> Part:
    outputs = [n for n in node.output if n in values]
    kept = [_tensor(n, values[n], stored) for n in reads(node) if n in constants]
    operands = tuple(Operand(name=n, array=values[n], is_constant=n in constants) if n else None
                     for n in node.input)  # fmt: skip
    own = [o.name for o in operands if o is not None]
    operands += tuple(
        Operand(name=n, array=values[n], is_constant=n in constants)
        for n in reads(node)
        if n not in own
    )

    def model_for(inputs: Arrays) -> SourceModel:
        whole = ModelProto(ir_version=proto.ir_version, functions=proto.functions)
        whole.opset_import.extend(proto.opset_import)
        whole.graph.name = name
        whole.graph.node.append(node)
        whole.graph.initializer.extend(kept)
        for key, array in inputs.items():
            whole.graph.input.append(helper.make_tensor_value_info(key, _type(array), array.shape))
        for key in outputs:
            whole.graph.output.append(helper.make_tensor_value_info(key, _type(values[key]), None))
        return from_proto(whole, name)

    return Part(
        node=name,
        operator=node.op_type,
        operands=operands,
        outputs=tuple(outputs),
        form=_form(node, operands),
        model_for=model_for,
        attributes={a.name: helper.get_attribute_value(a) for a in node.attribute if _is_plain(a)},
    )


def _tensor(name: str, array: np.ndarray, stored: Mapping[str, TensorProto]) -> TensorProto:
    found = stored.get(name)
    if found is not None and not found.external_data:
        return found
    return numpy_helper.from_array(np.ascontiguousarray(array), name)


def _type(array: np.ndarray) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def _is_plain(attribute: AttributeProto) -> bool:
    kinds = AttributeProto
    return attribute.type in (kinds.INT, kinds.FLOAT, kinds.STRING, kinds.INTS, kinds.FLOATS)


def _form(node: NodeProto, operands: tuple[Operand | None, ...]) -> str:
    bare = NodeProto()
    bare.CopyFrom(node)
    bare.name = bare.doc_string = ""
    del bare.input[:], bare.output[:]
    described = []
    for operand in operands:
        if operand is None:
            described.append("-")
            continue
        array = operand.array
        small = array.tobytes().hex() if operand.is_constant and array.size <= SMALL else ""
        described.append(f"{array.dtype}{array.shape}{operand.is_constant}{small}")
    return f"{bare.SerializeToString(deterministic=True).hex()} {len(node.output)} {described}"
