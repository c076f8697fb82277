"""ONNX's own definitions of operators by others.

y = Selu <alpha = 1.5> (x)   ->   the nodes of its body, with alpha where they refer to it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, ValueInfoProto

from explorer.importers.onnx.program.nodes import Node
from explorer.importers.onnx.program.structures import (
    Imported,
    LabeledRows,
    OptionalValue,
    StringTensor,
    TensorSequence,
)


def function_body(node: Node, proto: NodeProto, types: Sequence[TypeProto]) -> FunctionProto | None:
    """ONNX's definition of the operator in terms of others, for these operand types."""
    # Any: the stubs of onnx do not know function bodies.
    schema: Any = onnx.defs.get_schema(node.operator, node.opset, node.domain)
    if schema.has_function:
        return schema.function_body
    if schema.has_context_dependent_function:
        data = schema.get_context_dependent_function(
            proto.SerializeToString(), [t.SerializeToString() for t in types]
        )
        return FunctionProto.FromString(data)
    return None


def type_of_operand(value: Imported | None) -> TypeProto:
    """What ONNX calls the type of an operand; an empty one where there is none."""
    if value is None:
        return TypeProto()
    if isinstance(value, OptionalValue):
        return onnx.helper.make_optional_type_proto(type_of_operand(value.content))
    if isinstance(value, TensorSequence):
        first = value.elements[0] if value.elements else None
        return onnx.helper.make_sequence_type_proto(type_of_operand(first))
    if isinstance(value, LabeledRows):
        return TypeProto()  # no operator with a function takes maps
    if isinstance(value, StringTensor):
        shape = list(value.codes.shape)[:-1]
        return onnx.helper.make_tensor_type_proto(onnx.TensorProto.STRING, shape)
    data_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    info: ValueInfoProto = onnx.helper.make_tensor_value_info("", data_type, list(value.shape))
    return info.type


def with_attributes(inner: NodeProto, node: Node, body: FunctionProto) -> NodeProto:
    """A node of a function body with the attributes that it takes from the calling node."""
    schema = onnx.defs.get_schema(node.operator, node.opset, node.domain)
    defaults = {name: a.default_value for name, a in schema.attributes.items()}
    defaults |= {a.name: a for a in body.attribute_proto}
    proto = NodeProto()
    proto.CopyFrom(inner)
    _bind_attributes(proto, node, defaults)
    return proto


def _bind_attributes(proto: NodeProto, node: Node, defaults: Mapping[str, AttributeProto]) -> None:
    """References to attributes of the calling node become what they refer to, in graphs too."""
    attributes = list(proto.attribute)
    del proto.attribute[:]
    for attribute in attributes:
        if not attribute.ref_attr_name:
            for inner in attribute.g.node if attribute.type == AttributeProto.GRAPH else ():
                _bind_attributes(inner, node, defaults)
            proto.attribute.append(attribute)
        elif attribute.ref_attr_name in node.attributes:
            value = node.attributes[attribute.ref_attr_name]
            proto.attribute.append(onnx.helper.make_attribute(attribute.name, value))
        elif defaults[attribute.ref_attr_name].type != AttributeProto.UNDEFINED:
            default = AttributeProto()
            default.CopyFrom(defaults[attribute.ref_attr_name])
            default.name = attribute.name
            proto.attribute.append(default)
