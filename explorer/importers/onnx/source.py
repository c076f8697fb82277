"""The opened model as a program of `source.node` operations, before anything is made of it.

    y = Conv(x, w) {pads = [1, 1, 1, 1]}     %model_w = source.constant() {tensor = "w"} : ...
                                         =>  %node_conv1 = source.node(%x, %model_w) attributes
                                                 {operator = "Conv", ...} : tensor<Nx8x8x8xf32>

Types are those that the import found, or else what the file says. Weights are named, never
copied. Nodes that cannot be imported say why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Block, OpResult, Region, SSAValue

from explorer.importers.building.identifiers import argument_name, identifier
from explorer.importers.model import SourceModel
from explorer.importers.onnx.convert import Conversion
from explorer.importers.onnx.families import family_of
from explorer.importers.onnx.reading import OnnxContent, opset_versions, walk
from explorer.importers.onnx.settings import GRAPHS, settings_of
from explorer.importers.onnx.structures import (
    Imported,
    LabeledRows,
    OptionalValue,
    StringTensor,
    TensorSequence,
    tensors_of,
)
from explorer.ir.evaluation import INPUT_NAMES, OUTPUT_NAMES
from explorer.ir.operation import IDENTITY, identity_of, set_identity
from explorer.ir.origins import location_of
from explorer.ir.source_dialect import ConstantOp, NodeOp, ReturnOp, SourceValueType
from explorer.ir.structure import DEVICE
from explorer.ir.top.data import WeightOp
from explorer.ir.top.dimensions import UNKNOWN
from explorer.ir.types import (
    ELEMENT_TYPES,
    Dim,
    Shape,
    element_type_of,
    format_shape,
    shape_of,
    tensor_type,
)

_BODY_NAMES = {"then_branch": "then", "else_branch": "else"}
"""What regions are called where the attribute's own name says less."""


def source_program(model: SourceModel, conversion: Conversion) -> ModuleOp:
    """One function `main` with an operation for every node, those of nested graphs in regions.

    Identities are unlike all of the converted program; constants that became one weight of it
    share that weight's identity.
    """
    return _Builder(model, conversion).run()


@dataclass
class _Scope:
    """Values of one graph by the tensors' names."""

    block: Block
    declared: Mapping[str, TypeProto]
    outer: _Scope | None = None
    values: dict[str, SSAValue] = field(default_factory=dict)
    first: NodeOp | None = None
    """The node that all constants stand before."""

    def value(self, name: str) -> SSAValue | None:
        found = self.values.get(name)
        return self.outer.value(name) if found is None and self.outer is not None else found


class _Builder:
    def __init__(self, model: SourceModel, conversion: Conversion) -> None:
        assert isinstance(model.content, OnnxContent)
        self.model = model
        self.content = model.content
        self.conversion = conversion
        self.opsets = opset_versions(self.content.proto)
        made = list(conversion.module.walk()) if conversion.module is not None else []
        self.taken = {identity_of(op) for op in made if IDENTITY in op.attributes}
        self.weights = {
            identity_of(op) for op in made if isinstance(op, WeightOp) and IDENTITY in op.attributes
        }

    def run(self) -> ModuleOp:
        graph = self.content.proto.graph
        scope = _Scope(Block(), _declared_types(graph))
        names: set[str] = set()
        for index, value in enumerate(self.model.inputs):
            kind = self._type(value.name, self.conversion.tensors.get(value.name), scope)
            argument = scope.block.insert_arg(kind, index)
            argument.name_hint = argument_name(value.name, names)
            names.add(argument.name_hint)
            scope.values[value.name] = argument
        self.taken |= names
        results = self._graph(graph, scope)
        types = [a.type for a in scope.block.args], [r.type for r in results]
        function = func.FuncOp("main", types, Region(scope.block))
        function.attributes[DEVICE] = StringAttr("host")
        function.attributes[INPUT_NAMES] = _strings([v.name for v in self.model.inputs])
        function.attributes[OUTPUT_NAMES] = _strings([o.name for o in graph.output])
        return ModuleOp([function])

    # -- graphs ----------------------------------------------------------------------------------
    def _graph(self, graph: GraphProto, scope: _Scope) -> list[SSAValue]:
        """Adds constants, nodes and the end of a graph to its block; returns what it returns."""
        used = {name for node in walk(graph) for name in node.input}
        used |= {output.name for output in graph.output}
        for tensor in graph.initializer:
            if tensor.name in used and tensor.name not in scope.values:
                self._constant(tensor.name, _tensor_type(tensor), scope)
        for node in graph.node:
            self._node(node, scope)
        results = [self._value(output.name, scope) for output in graph.output]
        scope.block.add_op(ReturnOp.create(operands=results))
        return results

    def _node(self, node: NodeProto, scope: _Scope) -> None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        operands = [self._value(name, scope) if name else None for name in node.input]
        found = self.conversion.results.get(node.name, ())
        types = [
            self._type(name, found[index] if index < len(found) else None, scope)
            for index, name in enumerate(node.output)
        ]
        op = NodeOp.make_node(
            operands,
            types,
            list(node.output),
            operator=node.op_type,
            domain=domain,
            version=self.opsets.get(domain, 1),
            family=family_of(node.op_type),
            settings=settings_of(node),
            bodies=self._bodies(node, scope),
            problem=self.conversion.problems.get(node.name, ""),
        )
        op.location = location_of([node.name])
        name = identifier(node.name) or identifier(node.op_type) or "unnamed"
        set_identity(op, self._unused(f"node_{name}"))
        scope.block.add_op(op)
        scope.first = scope.first or op
        scope.values.update(
            (name, result) for name, result in zip(node.output, op.results, strict=True) if name
        )

    def _bodies(self, node: NodeProto, scope: _Scope) -> list[tuple[str, Region]]:
        bodies: list[tuple[str, Region]] = []
        for attribute in node.attribute:
            if attribute.type not in GRAPHS:
                continue
            name = _BODY_NAMES.get(attribute.name, attribute.name)
            is_one = attribute.type == AttributeProto.GRAPH
            for index, graph in enumerate([attribute.g] if is_one else attribute.graphs):
                region = self._region(graph, scope)
                bodies.append((name if is_one else f"{name} {index + 1}", region))
        return bodies

    def _region(self, graph: GraphProto, outer: _Scope) -> Region:
        scope = _Scope(Block(), _declared_types(graph), outer)
        for index, declared in enumerate(graph.input):
            kind = self._type(declared.name, self.conversion.arguments.get(declared.name), scope)
            argument = scope.block.insert_arg(kind, index)
            argument.name_hint = self._unused(f"argument_{identifier(declared.name)}")
            scope.values[declared.name] = argument
        self._graph(graph, scope)
        return Region(scope.block)

    # -- values ----------------------------------------------------------------------------------
    def _value(self, name: str, scope: _Scope) -> SSAValue:
        """The tensor of that name; one that no graph makes is a constant of words."""
        found = scope.value(name)
        if found is not None:
            return found
        outermost = scope
        while outermost.outer is not None:
            outermost = outermost.outer
        return self._constant(name, SourceValueType(StringAttr("sparse tensor")), outermost)

    def _constant(self, name: str, kind: Attribute, scope: _Scope) -> SSAValue:
        op = ConstantOp.create(result_types=[kind], properties={"tensor": StringAttr(name)})
        weight = self.conversion.tensors.get(name) if scope.outer is None else None
        if isinstance(weight, OpResult) and identity_of(weight.op) in self.weights:
            set_identity(op, identity_of(weight.op))
        else:
            set_identity(op, self._unused(f"model_{identifier(name)}"))
        # In the file's order, in front of all nodes.
        if scope.first is None:
            scope.block.add_op(op)
        else:
            scope.block.insert_op_before(op, scope.first)
        scope.values[name] = op.output
        return op.output

    def _unused(self, name: str) -> str:
        base, number = name, 1
        while name in self.taken:
            number += 1
            name = f"{base}x{number}"
        self.taken.add(name)
        return name

    def _type(self, name: str, found: Imported | None, scope: _Scope) -> Attribute:
        """Of a tensor: as the import found it; what that leaves open is as the file says."""
        declared = scope.declared.get(name)
        said = None if declared is None else _declared_type(declared)
        if isinstance(found, SSAValue) and isinstance(found.type, TensorType):
            return _merged(found.type, said)
        if isinstance(found, TensorSequence | OptionalValue | StringTensor | LabeledRows):
            return SourceValueType(StringAttr(_structure_words(found)))
        if said is not None:
            return said
        return SourceValueType(StringAttr(_declared_words(declared) if name else "left out"))


# -- types -----------------------------------------------------------------------------------------


def _declared_types(graph: GraphProto) -> dict[str, TypeProto]:
    return {v.name: v.type for v in (*graph.value_info, *graph.input, *graph.output)}


def _element_type(data_type: int) -> Attribute | None:
    try:
        return ELEMENT_TYPES.get(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(data_type)).name)
    except (KeyError, TypeError):
        return None


def _declared_type(declared: TypeProto) -> Attribute | None:
    """The tensor type that the file says; None where it says none, or one that the IR lacks."""
    tensor = declared.tensor_type
    element_type = _element_type(tensor.elem_type)
    if declared.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
        return None
    shape = _declared_shape(tensor)
    is_valid = all(isinstance(d, str) or d >= 0 for d in shape)
    return tensor_type(element_type, shape) if element_type is not None and is_valid else None


def _declared_shape(tensor: TypeProto.Tensor) -> Shape:
    return tuple(
        d.dim_value if d.WhichOneof("value") == "dim_value" else _dimension_name(d.dim_param)
        for d in tensor.shape.dim
    )


def _dimension_name(name: str) -> str:
    return " ".join(name.split()) or UNKNOWN


def _merged(found: Attribute, said: Attribute | None) -> Attribute:
    """The type that was found, with sizes that the file says where they were not found."""
    shape = shape_of(found)
    if UNKNOWN not in shape or said is None or len(shape_of(said)) != len(shape):
        return found
    sizes: list[Dim] = [
        b if a == UNKNOWN else a for a, b in zip(shape, shape_of(said), strict=True)
    ]
    return tensor_type(element_type_of(found), tuple(sizes))


def _tensor_type(tensor: TensorProto) -> Attribute:
    element_type = _element_type(tensor.data_type)
    dims = tuple(tensor.dims)
    if element_type is not None and all(size >= 0 for size in dims):
        return tensor_type(element_type, dims)
    return SourceValueType(StringAttr(_typed_words(tensor.data_type, dims)))


def _declared_words(declared: TypeProto | None) -> str:
    """`sequence of 3x? string`; for what no tensor type can hold."""
    kind = None if declared is None else declared.WhichOneof("value")
    if declared is None or kind is None:
        return "unknown"
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(declared, kind)
        words = _typed_words(
            tensor.elem_type, _declared_shape(tensor) if tensor.HasField("shape") else None
        )
        return f"sparse {words}" if kind == "sparse_tensor_type" else words
    if kind in ("sequence_type", "optional_type"):
        inner = _declared_words(getattr(declared, kind).elem_type)
        return f"{kind.removesuffix('_type')} of {inner}"
    return kind.removesuffix("_type")


def _typed_words(data_type: int, shape: Shape | None) -> str:
    element_type = _element_type(data_type)
    known = data_type in TensorProto.DataType.values()
    name = TensorProto.DataType.Name(data_type).lower() if known else f"type {data_type}"
    words = name if element_type is None else str(element_type)
    return f"any shape {words}" if shape is None else f"{format_shape(shape)} {words}"


def _structure_words(value: TensorSequence | OptionalValue | StringTensor | LabeledRows) -> str:
    if isinstance(value, LabeledRows):
        return f"a map for each row, {format_shape(shape_of(value.numbers))}"
    if isinstance(value, StringTensor):
        return _typed_words(TensorProto.STRING, shape_of(value.codes)[:-1])
    if isinstance(value, TensorSequence):
        return f"sequence of {len(value.elements)}"
    inside = len(tensors_of(value))
    return "optional, empty" if value.content is None else f"optional of {inside}"


def _strings(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])
