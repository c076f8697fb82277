"""Inputs of a model as a program takes them.

Programs have tensors as inputs and outputs only. Sequences and optionals are flattened:

    {"x": array, "s": [a, b], "o": None}  ->  {"x": array, "s.0": a, "s.1": b}

and the model is told how to put them together again: the graph begins with
`s = SequenceConstruct(s.0, s.1)` and `o = Optional()`.

Strings go in and out as rows of code points (`t.codes`), and the graph has `t = FromCodes(t.codes)`
or `t.codes = ToCodes(t)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx.helper import (
    make_node,
    make_opsetid,
    make_tensor_type_proto,
    make_value_info,
    np_dtype_to_tensor_dtype,
)

from explorer.importers import SourceModel
from explorer.importers.building.code_points import DOMAIN, SUFFIX, encoded, is_strings
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.program.host_values import host_values, is_string_type


def structure_of(inputs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """How the inputs are nested: programs for other sequences are other programs."""
    return tuple((name, _structure(value)) for name, value in inputs.items())


def tensors_of(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The flattened inputs as arrays, as a session's signature takes them."""
    return {name: np.asarray(tensor) for name, tensor in flattened_inputs(inputs).items()}


def flattened_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of all inputs; those of a sequence `s` are called `s.0`, `s.1` ..."""
    return {name: tensor for n, value in inputs.items() for name, tensor in _flattened(n, value)}


def structured_outputs(proto: ModelProto, outputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The model's outputs in order, sequences as lists, from the program's tensors."""
    return tuple(host_values(proto, outputs).values())


def specialized_model(proto: ModelProto, inputs: Mapping[str, Any]) -> SourceModel:
    """The model with the inputs' own shapes, and their contents where they are needed."""
    own = ModelProto()
    own.CopyFrom(proto)
    values: list[ValueInfoProto] = []
    nodes: list[NodeProto] = []
    for value in own.graph.input:
        given = inputs.get(value.name)
        if is_string_type(value.type) and _is_array(given):
            ((name, codes),) = _flattened(value.name, given)
            values.append(make_value_info(name, _type_of(codes)))
            nodes.append(make_node("FromCodes", [name], [value.name], domain=DOMAIN))
            continue
        if _is_structured(value.type):
            values += [make_value_info(n, _type_of(a)) for n, a in _flattened(value.name, given)]
            nodes += _assembly(value, given)
            continue
        if _is_array(given):
            value.type.CopyFrom(_type_of(given))
        values.append(value)
    _replace(own.graph.input, values)
    outputs = [o.name for o in own.graph.output if is_string_type(o.type)]
    last = [make_node("ToCodes", [name], [name + SUFFIX], domain=DOMAIN) for name in outputs]
    _replace(own.graph.node, [*nodes, *own.graph.node, *last])
    for value in own.graph.output:
        if value.name in outputs:
            element = TensorProto.INT32
            value.CopyFrom(make_value_info(value.name + SUFFIX, _typed(element)))
    if DOMAIN not in {entry.domain for entry in own.opset_import}:
        own.opset_import.append(make_opsetid(DOMAIN, 1))
    arrays = {n: np.asarray(a) for n, a in flattened_inputs(inputs).items() if _is_array(a)}
    return replace(from_proto(own), assumed=arrays)


def _assembly(value: ValueInfoProto, given: Any) -> list[NodeProto]:
    """The node that makes a sequence or an empty optional; a full one is its own content."""
    kind, name = value.type, value.name
    is_optional = kind.WhichOneof("value") == "optional_type"
    if is_optional and given is None:
        return [make_node("Optional", [], [name], type=kind.optional_type.elem_type)]
    if not isinstance(given, list | tuple):
        return []
    inner = kind.optional_type.elem_type if is_optional else kind
    return [_sequence(name, [n for n, _ in _flattened(name, given)], inner)]


def _sequence(name: str, tensors: Sequence[str], kind: TypeProto) -> NodeProto:
    if tensors:
        return make_node("SequenceConstruct", list(tensors), [name])
    dtype = kind.sequence_type.elem_type.tensor_type.elem_type
    return make_node("SequenceEmpty", [], [name], dtype=dtype)


def _flattened(name: str, value: Any) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [pair for i, v in enumerate(value) for pair in _flattened(f"{name}.{i}", v)]
    if _is_array(value) and is_strings(np.asarray(value)):
        return [(name + SUFFIX, encoded(np.asarray(value), name))]
    return [(name, value)]


def _is_structured(kind: TypeProto) -> bool:
    return kind.WhichOneof("value") in ("sequence_type", "optional_type")


def _typed(element_type: int) -> TypeProto:
    """A tensor of any shape."""
    return TypeProto(tensor_type=TypeProto.Tensor(elem_type=element_type))


def _is_array(value: Any) -> TypeGuard[np.ndarray | np.generic]:
    return isinstance(value, np.ndarray | np.generic)


def _replace(field: Any, entries: Sequence[Any]) -> None:
    """Other entries in a repeated field of a message."""
    copies = [type(entry).FromString(entry.SerializeToString()) for entry in entries]
    del field[:]
    field.extend(copies)


def _type_of(value: Any) -> TypeProto:
    array = np.asarray(value)
    return make_tensor_type_proto(np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _structure(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_structure(v) for v in value)
    return "none" if value is None else "tensor"
