"""One edit on the graph of a model, or on the bodies of loops and branches, which it changes.

Cuts and outputs are of the outermost graph; names, attributes, values and deletions of all of them.

Types of tensors that become inputs or outputs come from ONNX's shape inference. What cannot be done
is an InputError, and the graph is thrown away then.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias, cast

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
)

from explorer.editing.bodies import (
    NotFound,
    Place,
    place_of_node,
    place_of_tensor,
    places,
    types_at,
)
from explorer.editing.edits import Cut, Delete, Edit, Outputs, Rename, SetAttribute, SetValue
from explorer.editing.graphs import (
    keep_named,
    made_by,
    needed_nodes,
    redirect,
    rename_tensor,
)
from explorer.errors import InputError
from explorer.importers.onnx.file.inference import infer_shapes
from explorer.importers.onnx.file.reads import reads
from explorer.results.names import near_name

Kind: TypeAlias = AttributeProto.AttributeType
_OF_JSON = {
    AttributeProto.INT: int,
    AttributeProto.FLOAT: float,
    AttributeProto.STRING: str,
    AttributeProto.INTS: int,
    AttributeProto.FLOATS: float,
    AttributeProto.STRINGS: str,
}
_LISTS = (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS)


def apply_edit(model: ModelProto, edit: Edit) -> None:
    """Changes the model. InputError where the edit names nothing, or cannot be made."""
    graph = model.graph
    if isinstance(edit, Cut):
        _cut(model, Cut(_as_tensors(graph, edit.inputs), _as_tensors(graph, edit.outputs)))
    elif isinstance(edit, Outputs):
        _set_outputs(model, _as_tensors(graph, edit.outputs))
    elif isinstance(edit, Rename):
        _rename(graph, edit)
    elif isinstance(edit, SetAttribute):
        _infer_again(model, _set_attribute(model, edit))
    elif isinstance(edit, SetValue):
        _set_value(graph, edit)
    elif isinstance(edit, Delete):
        _delete(model, edit)


def known_types(model: ModelProto, place: Place | None = None) -> dict[str, ValueInfoProto]:
    """Types of tensors by name, as far as ONNX infers them: of the outermost graph, or of a body
    and what is around it."""
    try:
        whole = infer_shapes(model, strict_mode=False, data_prop=True)
    except Exception:  # of a model that ONNX cannot infer the declared types are known
        whole = model
    return types_at(whole, place or Place(model.graph))


def _infer_again(model: ModelProto, place: Place) -> None:
    """Types that follow from the nodes, in place of those that followed from other ones."""
    for graph in place.chain:
        del graph.value_info[:]
    for body in place.chain[1:]:
        for value in body.output:
            value.type.tensor_type.ClearField("shape")
    undeclared = ModelProto()
    undeclared.CopyFrom(model)
    for value in undeclared.graph.output:
        value.type.tensor_type.ClearField("shape")
    types = known_types(undeclared)
    for value in model.graph.output:
        found = types[value.name]
        if found.type.tensor_type.HasField("shape"):
            value.CopyFrom(found)


def _cut(model: ModelProto, edit: Cut) -> None:
    graph = model.graph
    types = known_types(model)
    _require(graph, (*edit.inputs, *edit.outputs))
    twice = sorted(set(edit.inputs) & set(edit.outputs))
    if twice:
        raise InputError(f"{twice[0]!r} is on both sides of the cut", node=twice[0])
    constants = {tensor.name for tensor in graph.initializer}
    nodes, needed = needed_nodes(graph.node, edit.outputs, edit.inputs)
    made = {name for node in nodes for name in node.output}
    lost = [name for name in edit.outputs if name not in made]
    if lost:
        raise InputError(f"nothing between the two sides computes {lost[0]!r}", node=lost[0])
    unused = [name for name in edit.inputs if name not in needed]
    if unused:
        raise InputError(
            f"{unused[0]!r} does not lead to {', '.join(edit.outputs)}", node=unused[0]
        )
    given = [v.name for v in graph.input if v.name in needed and v.name not in edit.inputs]
    inputs = [types[name] for name in given if name not in constants]
    inputs += [_typed(types, name) for name in edit.inputs]
    outputs = [_typed(types, name) for name in edit.outputs]
    _replace(graph.node, nodes)
    _replace(graph.input, inputs)
    _replace(graph.output, outputs)
    keep_named(graph.initializer, needed - set(edit.inputs))
    del graph.value_info[:]


def _set_outputs(model: ModelProto, outputs: tuple[str, ...]) -> None:
    graph = model.graph
    types = known_types(model)
    _require(graph, outputs)
    nodes, needed = needed_nodes(graph.node, outputs)
    made = {name for node in nodes for name in node.output}
    for name in outputs:
        if name not in made:
            raise InputError(f"no node computes {name!r}: it is an input or a weight", node=name)
    found = [_typed(types, name) for name in outputs]
    _replace(graph.node, nodes)
    _replace(graph.output, found)
    keep_named(graph.initializer, needed)
    keep_named(graph.input, needed)
    del graph.value_info[:]


def _rename(graph: GraphProto, edit: Rename) -> None:
    tensors = [(p, own) for p in places(graph) for own in _tensors(p.graph)]
    taken = {own for _, own in tensors} | {n.name for p in places(graph) for n in p.graph.node}
    if edit.new in taken:
        raise InputError(f"the name {edit.new!r} is taken", node=edit.new, hint="another name")
    found = False
    with suppress(NotFound):
        place, old = place_of_tensor(graph, edit.old, "tensor", _tensors)
        rename_tensor(place.graph, old, edit.new)
        found = True
    with suppress(NotFound):
        named = [n.name for p in places(graph) for n in p.graph.node]
        if edit.old in named or not found:
            _, node = place_of_node(graph, edit.old)
            node.name = edit.new
            found = True
    if not found:
        near = near_name(edit.old, sorted(taken))
        raise InputError(f"no tensor and no node is called {edit.old!r}", hint=near)


def _delete(model: ModelProto, edit: Delete) -> None:
    place, node = place_of_node(model.graph, edit.node)
    graph = place.graph
    types = known_types(model, place)
    read = {name for other in graph.node if other is not node for name in reads(other)}
    results = {value.name for value in graph.output}
    used = [name for name in node.output if name and (name in read or name in results)]
    kept = {name: _same_type(types, node, name) for name in used}
    for name, instead in kept.items():
        if instead is None:
            shape = _words(types.get(name))
            operands = ", ".join(f"{n} {_words(types.get(n))}" for n in node.input if n)
            raise InputError(
                f"{edit.node!r} cannot be left out: {name} ({shape}) is read, and no operand has "
                f"that type: {operands}",
                node=edit.node,
                hint="" if place.path else f"cut after it instead: cut {name} : OUTPUT",
            )
    position = list(graph.node).index(node)
    graph.node.remove(node)
    for name, instead in kept.items():
        assert instead is not None
        redirect(graph, name, instead)
        if name in results:  # an output keeps its name
            again = helper.make_node("Identity", [instead], [name], edit.node)
            graph.node.insert(position, again)
    _drop_unneeded(graph)
    if place.path:  # what only the body needed
        _drop_unneeded(model.graph)


def _drop_unneeded(graph: GraphProto) -> None:
    """Nodes and weights that no output needs; inputs stay, they are the model's interface."""
    outputs = {value.name for value in graph.output}
    nodes, needed = needed_nodes(graph.node, outputs)
    _replace(graph.node, nodes)
    keep_named(graph.initializer, needed)
    del graph.value_info[:]


def _set_attribute(model: ModelProto, edit: SetAttribute) -> Place:
    """The graph with the node."""
    place, node = place_of_node(model.graph, edit.node)
    present = next((a for a in node.attribute if a.name == edit.attribute), None)
    known = _schema_attributes(model, node)
    if present is None and known and edit.attribute not in known:
        raise InputError(
            f"{node.op_type} has no attribute {edit.attribute!r}",
            node=edit.node,
            hint=near_name(edit.attribute, list(known)),
        )
    undefined = AttributeProto.UNDEFINED
    kind = known.get(edit.attribute, undefined) if present is None else present.type
    if edit.value is None:
        if present is None:
            raise InputError(f"{edit.node!r} has no attribute {edit.attribute!r}", node=edit.node)
        node.attribute.remove(present)
        return place
    made = _attribute(edit, kind)
    if present is None:
        node.attribute.append(made)
    else:
        present.CopyFrom(made)
    return place


def _attribute(edit: SetAttribute, kind: Kind) -> AttributeProto:
    """The attribute of its type. InputError for a value of another one."""
    value = edit.value
    if kind and kind not in _OF_JSON:
        names = {number: name for name, number in AttributeProto.AttributeType.items()}
        name = names.get(kind, str(kind))
        raise InputError(f"{edit.attribute!r} is a {name}: it is not edited", node=edit.node)
    if kind:
        is_list = kind in _LISTS
        items = value if is_list else [value]
        wanted = _OF_JSON[kind]
        if not isinstance(items, list) or not all(_is_of(item, wanted) for item in items):
            words = f"a list of {wanted.__name__}s" if is_list else f"a {wanted.__name__}"
            raise InputError(
                f"{edit.node}.{edit.attribute} is {words}, not {value!r}", node=edit.node
            )
        value = [wanted(item) for item in items] if is_list else wanted(value)
    try:
        return helper.make_attribute(edit.attribute, value, attr_type=kind or None)
    except (TypeError, ValueError) as error:
        raise InputError(f"{edit.node}.{edit.attribute}: {error}", node=edit.node) from error


def _is_of(item: Any, wanted: type) -> bool:
    if isinstance(item, bool):
        return False
    return isinstance(item, int | float) if wanted is float else isinstance(item, wanted)


def _schema_attributes(model: ModelProto, node: NodeProto) -> dict[str, Kind]:
    """Types of the operator's attributes; empty for operators that ONNX does not know."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    kinds = dict(AttributeProto.AttributeType.items())
    try:
        schema = defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except Exception:  # onnx raises a class of its own for unknown operators
        return {}
    return {
        name: cast(Kind, kinds[str(attribute.type).rpartition(".")[2]])
        for name, attribute in schema.attributes.items()
    }


def _set_value(graph: GraphProto, edit: SetValue) -> None:
    place, own = place_of_tensor(graph, edit.tensor, "weight", lambda inner: set(_values(inner)))
    tensor = _values(place.graph)[own]
    present = numpy_helper.to_array(tensor)
    try:
        given = np.asarray(edit.value)
    except ValueError as error:
        raise InputError(f"{edit.tensor!r}: {error}", node=edit.tensor) from error
    if given.dtype.kind not in "iuf" or (given.ndim and given.shape != present.shape):
        raise InputError(
            f"weight {edit.tensor!r} has shape {present.shape}; given are "
            f"{given.dtype.name} of shape {given.shape}",
            node=edit.tensor,
            hint="one number for all elements, or nested lists of the same shape",
        )
    if present.dtype.kind in "iu":
        limits = np.iinfo(present.dtype)
        whole = given.dtype.kind in "iu" or np.array_equal(given, np.rint(given))
        if not whole or given.min() < limits.min or given.max() > limits.max:
            raise InputError(
                f"weight {edit.tensor!r} is {present.dtype.name}, which lacks these numbers",
                node=edit.tensor,
            )
    array = np.broadcast_to(given, present.shape).astype(present.dtype)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


# -- parts -----------------------------------------------------------------------------------------


def _values(graph: GraphProto) -> dict[str, TensorProto]:
    """Weights of a graph, and what its nodes Constant give, by name."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            found.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
    return found


def _tensors(graph: GraphProto) -> set[str]:
    found = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    return found | set(made_by(graph))


def _as_tensors(graph: GraphProto, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names with what a node makes first in place of the node's own name."""
    known = _tensors(graph)
    made = {node.name: node.output[0] for node in graph.node if node.name and node.output}
    return tuple(name if name in known else made.get(name, name) for name in names)


def _require(graph: GraphProto, names: tuple[str, ...]) -> None:
    known = _tensors(graph)
    inner = {own for p in list(places(graph))[1:] for own in _tensors(p.graph)}
    for name in names:
        if name not in known:
            if name in inner:
                raise InputError(
                    f"{name!r} is computed in the body of a loop or branch",
                    node=name,
                    hint="cuts and outputs are of the outermost graph; a body is edited by rename, "
                    "attribute, value and delete",
                )
            near = near_name(name, sorted(known))
            raise InputError(f"the model has no tensor {name!r}", node=name, hint=near)


def _typed(types: Mapping[str, ValueInfoProto], name: str) -> ValueInfoProto:
    found = types.get(name)
    if found is None or not found.type.WhichOneof("value"):
        raise InputError(
            f"the type of {name!r} is not known: ONNX does not infer it",
            node=name,
            hint="another place; `explorer convert` writes a model with all types",
        )
    return found


def _same_type(types: Mapping[str, ValueInfoProto], node: NodeProto, result: str) -> str | None:
    """The first operand with the type of a result."""
    wanted = types.get(result)
    if wanted is None:
        return None
    same = (n for n in node.input if n and n in types and types[n].type == wanted.type)
    return next(same, None)


def _words(value: ValueInfoProto | None) -> str:
    if value is None or not value.type.HasField("tensor_type"):
        return "of unknown type"
    dims = value.type.tensor_type.shape.dim
    shape = "x".join(str(d.dim_value or d.dim_param or "?") for d in dims)
    kind = helper.tensor_dtype_to_string(value.type.tensor_type.elem_type).split(".")[-1]
    return f"{shape} {kind.lower()}".strip()


def _replace(field: object, values: list[Any]) -> None:
    """A repeated field's content; protobuf's fields know no assignment."""
    copies = [type(value)() for value in values]
    for copy, value in zip(copies, values, strict=True):
        copy.CopyFrom(value)
    del field[:]  # type: ignore[attr-defined]
    field.extend(copies)  # type: ignore[attr-defined]
