"""Inputs of a model as a program takes them.

Programs have tensors as inputs and outputs only: what becomes of sequences and optionals says
`explorer/importers/onnx/file/structured_inputs.py`.

Strings go in and out as rows of code points (`t.codes`), and the graph has `t = FromCodes(t.codes)`
or `t.codes = ToCodes(t)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx.helper import make_node, make_opsetid, make_value_info

from explorer.importers import SourceModel
from explorer.importers.building.code_points import DOMAIN, SUFFIX
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.file.structured_inputs import (
    assembly,
    flattened,
    is_structured,
    replace_entries,
    type_of,
)
from explorer.importers.onnx.program.host_values import host_values, is_string_type


def structure_of(inputs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """How the inputs are nested: programs for other sequences are other programs."""
    return tuple((name, _structure(value)) for name, value in inputs.items())


def tensors_of(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The flattened inputs as arrays, as a session's signature takes them."""
    return {name: np.asarray(tensor) for name, tensor in flattened_inputs(inputs).items()}


def flattened_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of all inputs; those of a sequence `s` are called `s.0`, `s.1` ..."""
    return {name: tensor for n, value in inputs.items() for name, tensor in flattened(n, value)}


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
            ((name, codes),) = flattened(value.name, given)
            values.append(make_value_info(name, type_of(codes)))
            nodes.append(make_node("FromCodes", [name], [value.name], domain=DOMAIN))
            continue
        if is_structured(value.type):
            values += [make_value_info(n, type_of(a)) for n, a in flattened(value.name, given)]
            nodes += assembly(value, given)
            continue
        if _is_array(given):
            value.type.CopyFrom(type_of(given))
        values.append(value)
    replace_entries(own.graph.input, values)
    outputs = [o.name for o in own.graph.output if is_string_type(o.type)]
    last = [make_node("ToCodes", [name], [name + SUFFIX], domain=DOMAIN) for name in outputs]
    replace_entries(own.graph.node, [*nodes, *own.graph.node, *last])
    for value in own.graph.output:
        if value.name in outputs:
            element = TensorProto.INT32
            value.CopyFrom(make_value_info(value.name + SUFFIX, _typed(element)))
    if DOMAIN not in {entry.domain for entry in own.opset_import}:
        own.opset_import.append(make_opsetid(DOMAIN, 1))
    arrays = {n: np.asarray(a) for n, a in flattened_inputs(inputs).items() if _is_array(a)}
    return replace(from_proto(own), assumed=arrays)


def _typed(element_type: int) -> TypeProto:
    """A tensor of any shape."""
    return TypeProto(tensor_type=TypeProto.Tensor(elem_type=element_type))


def _is_array(value: Any) -> TypeGuard[np.ndarray | np.generic]:
    return isinstance(value, np.ndarray | np.generic)


def _structure(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_structure(v) for v in value)
    return "none" if value is None else "tensor"
