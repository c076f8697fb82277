"""Why a chain differs: each of its nodes alone, on the numbers that onnxruntime has there.

    by_nodes(case, Verdict("differs", ...), try_one)
        Verdict("documented", "MaxPool: A window with NaN ...")     a difference that the table has
        Verdict("differs", "Selu_2: ...")                           a node that is wrong by itself

Where every node is right alone, what differs is a rounding which a later node enlarges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any  # Any: a value is a tensor, a list of tensors, or None

import numpy as np
import onnx
from onnx import (
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
    helper,
)

from explorer.errors import ModelError
from explorer.references.onnx_runtime import open_proto
from verification.operators.drawing import INNER, INSIDE, Case, captured
from verification.operators.pairs import Pair
from verification.operators.verdicts import (
    DEFECTS,
    DISPUTED,
    DOCUMENTED,
    REFUSED,
    RIGHT,
    UNJUDGED,
    Verdict,
)

WIDE = "_wide"
FLOAT = onnx.TensorProto.FLOAT
INNER_NUMBERS = frozenset(helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in INNER)
ROUNDED = "Every node is right on onnxruntime's numbers; a later one enlarges a rounding."
TryOne = Callable[[Case], Verdict]


def by_nodes(case: Case, whole: Verdict, try_one: TryOne) -> Verdict:
    """The verdict of a chain by those of its nodes; `whole` where they cannot be tried."""
    reason = ROUNDED
    try:
        for node, one in node_cases(case):
            found = try_one(one)
            if found.status in DEFECTS:
                status = found.status if found.status != DISPUTED else whole.status
                return Verdict(status, f"{node.op_type} {node.output[0]}: {found.reason}")
            if found.status == DOCUMENTED and reason == ROUNDED:
                reason = f"{node.op_type}: {found.reason}"
            if found.status not in (RIGHT, DOCUMENTED, UNJUDGED, REFUSED):
                return whole
    except (ModelError, ValueError, KeyError):
        return whole
    return Verdict(DOCUMENTED, reason)


def node_cases(case: Case) -> Iterator[tuple[NodeProto, Case]]:
    """Each node of the outermost graph as a case of its own."""
    types = _types(case.model)
    values = {**case.inputs, **_values(case.model, case.inputs, types)}
    stored = {tensor.name for tensor in case.model.graph.initializer}
    for node in case.model.graph.node:
        names = [n for n in dict.fromkeys([*node.input, *captured(node)]) if n]
        given = {n: values[n] for n in names if n not in stored}
        model = _model_of(case.model, node, names, values, types)
        kinds = [a.dtype.name for a in given.values() if isinstance(a, np.ndarray)]
        floats = [kind for kind in kinds if "float" in kind]
        pair = Pair(node.op_type, (floats or kinds or ["float32"])[0])
        yield node, replace(case, pair=pair, model=model, inputs=given)


def _values(
    model: ModelProto, inputs: Mapping[str, Any], types: Mapping[str, int]
) -> dict[str, Any]:
    """What onnxruntime has for every result of a node, floats that NumPy lacks as float32.
    ModelError where it does not give it."""
    wide = ModelProto()
    wide.CopyFrom(model)
    present = {value.name for value in wide.graph.output}
    names = [n for node in model.graph.node for n in node.output if n and n not in present]
    shown = {name: name + WIDE if types.get(name) in INNER_NUMBERS else name for name in names}
    for name, other in shown.items():
        if other != name:
            wide.graph.node.append(helper.make_node("Cast", [name], [other], to=FLOAT))
        wide.graph.output.append(ValueInfoProto(name=other))
    with open_proto(wide, wide.graph.name, is_optimized=False) as opened:
        found = dict(opened.run(inputs))
    return {name: found[shown.get(name, name)] for name in (*present, *names)}


def _types(model: ModelProto) -> dict[str, int]:
    """Element types of tensors by name; of sequences those of their tensors."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    return {v.name: _element_type(v.type) for v in values}


def _element_type(kind: TypeProto) -> int:
    if kind.WhichOneof("value") == "sequence_type":
        return _element_type(kind.sequence_type.elem_type)
    return kind.tensor_type.elem_type


def _model_of(
    whole: ModelProto,
    node: NodeProto,
    names: Sequence[str],
    values: Mapping[str, Any],
    types: Mapping[str, int],
) -> ModelProto:
    """The node with casts around types that NumPy lacks. values: of its operands and results."""
    model = ModelProto()
    model.CopyFrom(whole)
    graph = model.graph
    for field in (graph.node, graph.input, graph.output, graph.initializer, graph.value_info):
        del field[:]
    stored = [tensor for tensor in whole.graph.initializer if tensor.name in names]
    given = [n for n in names if n not in {tensor.name for tensor in stored}]
    tensors = [n for n in (*given, *node.output) if not isinstance(values.get(n), list)]
    inner = {n for n in tensors if types.get(n) in INNER_NUMBERS}
    for name in given:
        if name in inner:
            graph.node.append(helper.make_node("Cast", [name], [name + INSIDE], to=types[name]))
    graph.node.append(node)
    own = graph.node[-1]
    own.input[:] = [n + INSIDE if n in inner else n for n in node.input]
    own.output[:] = [n + INSIDE if n in inner else n for n in node.output]
    for name in node.output:
        if name in inner:
            graph.node.append(helper.make_node("Cast", [name + INSIDE], [name], to=FLOAT))
    graph.initializer.extend(stored)
    graph.input.extend(
        helper.make_value_info(n, _type_of(values[n], types.get(n, 0))) for n in given
    )
    for name in filter(None, node.output):
        kind = _type_of(values[name], types.get(name, 0))
        if kind.WhichOneof("value") == "tensor_type":
            kind.tensor_type.ClearField("shape")
        graph.output.append(helper.make_value_info(name, kind))
    return model


def _type_of(value: Any, element_type: int = 0) -> TypeProto:
    """element_type: of an empty sequence."""
    if isinstance(value, list):
        if not value and not element_type:
            raise ValueError("an empty sequence has no type")
        if not value:
            tensor = helper.make_tensor_type_proto(element_type, None)
            return helper.make_sequence_type_proto(tensor)
        return helper.make_sequence_type_proto(_type_of(value[0]))
    array = np.asarray(value)
    if array.dtype == object:
        return helper.make_tensor_type_proto(onnx.TensorProto.STRING, array.shape)
    number = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(number, array.shape)
