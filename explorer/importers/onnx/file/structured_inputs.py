"""Inputs that are sequences or optionals as inputs that are tensors, for values that are given.

    {"x": array, "s": [a, b], "o": None}  ->  {"x": array, "s.0": a, "s.1": b}

The graph begins with nodes that put them together again: `s = SequenceConstruct(s.0, s.1)` and
`o = Optional()`; strings come as code points, `s.0 = FromCodes(s.0.codes)`. Such a model is right
for sequences of that length, of tensors of these shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto
from onnx.helper import (
    make_node,
    make_opsetid,
    make_tensor_type_proto,
    make_value_info,
    np_dtype_to_tensor_dtype,
)

from explorer.importers.building.code_points import DOMAIN, SUFFIX, encoded, is_strings


def with_tensors(proto: ModelProto, inputs: Mapping[str, Any]) -> ModelProto:
    """The model with tensors for the sequences and optionals that `inputs` has values of; itself
    where there are none."""
    if not any(is_structured(v.type) and v.name in inputs for v in proto.graph.input):
        return proto
    own = ModelProto()
    own.CopyFrom(proto)
    values: list[ValueInfoProto] = []
    nodes: list[NodeProto] = []
    for value in own.graph.input:
        if not is_structured(value.type) or value.name not in inputs:
            values.append(value)
            continue
        given = inputs[value.name]
        values += [make_value_info(n, type_of(a)) for n, a in flattened(value.name, given)]
        nodes += assembly(value, given)
    replace_entries(own.graph.input, values)
    replace_entries(own.graph.node, [*nodes, *own.graph.node])
    is_declared = DOMAIN in {entry.domain for entry in own.opset_import}
    if not is_declared and any(node.domain == DOMAIN for node in nodes):
        own.opset_import.append(make_opsetid(DOMAIN, 1))
    return own


def flattened(name: str, value: Any) -> list[tuple[str, Any]]:
    """The tensors of a value: those of a sequence `s` are called `s.0`, `s.1` ..."""
    return [
        (leaf + SUFFIX, encoded(np.asarray(tensor), leaf))
        if _holds_strings(tensor)
        else (leaf, tensor)
        for leaf, tensor in _leaves(name, value)
    ]


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """As `flattened`, with strings as they are, under the names without `.codes`."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [pair for i, v in enumerate(value) for pair in _leaves(f"{name}.{i}", v)]
    return [(name, value)]


def assembly(value: ValueInfoProto, given: Any) -> list[NodeProto]:
    """The nodes that make strings, and a sequence or an empty optional; a full one is its own
    content."""
    kind, name = value.type, value.name
    is_optional = kind.WhichOneof("value") == "optional_type"
    if is_optional and given is None:
        return [make_node("Optional", [], [name], type=kind.optional_type.elem_type)]
    leaves = _leaves(name, given)
    nodes = [
        make_node("FromCodes", [leaf + SUFFIX], [leaf], domain=DOMAIN)
        for leaf, tensor in leaves
        if _holds_strings(tensor)
    ]
    if not isinstance(given, list | tuple):
        return nodes
    inner = kind.optional_type.elem_type if is_optional else kind
    return [*nodes, _sequence(name, [leaf for leaf, _ in leaves], inner)]


def _sequence(name: str, tensors: Sequence[str], kind: TypeProto) -> NodeProto:
    if tensors:
        return make_node("SequenceConstruct", list(tensors), [name])
    dtype = kind.sequence_type.elem_type.tensor_type.elem_type
    return make_node("SequenceEmpty", [], [name], dtype=dtype)


def _holds_strings(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and is_strings(np.asarray(value))


def is_structured(kind: TypeProto) -> bool:
    return kind.WhichOneof("value") in ("sequence_type", "optional_type")


def type_of(value: Any) -> TypeProto:
    array = np.asarray(value)
    return make_tensor_type_proto(np_dtype_to_tensor_dtype(array.dtype), array.shape)


def replace_entries(field: Any, entries: Sequence[Any]) -> None:
    """Other entries in a repeated field of a message."""
    copies = [type(entry).FromString(entry.SerializeToString()) for entry in entries]
    del field[:]
    field.extend(copies)
