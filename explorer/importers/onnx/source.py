"""The opened model as a program of `source.node` operations, before anything is made of it.

    y = Conv(x, w) {pads = [1, 1, 1, 1]}     %model_w = source.constant() {tensor = "w"} : ...
                                         =>  %node_conv1 = source.node(%x, %model_w) attributes
                                                 {operator = "Conv", ...} : tensor<Nx8x8x8xf32>

Types are those that the import found, or else what the file says. Weights are named, never
copied. Nodes that cannot be imported say why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue

from explorer.importers.building.expr import Expr
from explorer.importers.building.identifiers import identifier
from explorer.importers.building.source_program import SourceBuilder, end
from explorer.importers.model import SourceModel
from explorer.importers.onnx.convert import Conversion
from explorer.importers.onnx.families import family_of
from explorer.importers.onnx.file.reading import OnnxContent, opset_versions, walk
from explorer.importers.onnx.program.structures import (
    Imported,
    LabeledRows,
    OptionalValue,
    StringTensor,
    TensorSequence,
    tensors_of,
)
from explorer.importers.onnx.settings import GRAPHS, settings_of
from explorer.ir.dialects.source import NodeOp, SourceValueType
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.types import (
    ELEMENT_TYPES,
    Dim,
    Shape,
    element_type_of,
    format_shape,
    shape_of,
    tensor_type,
)

_STRUCTURES = (TensorSequence, OptionalValue, StringTensor, LabeledRows)
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


class _Builder(SourceBuilder):
    def __init__(self, model: SourceModel, conversion: Conversion) -> None:
        super().__init__(conversion.module)
        assert isinstance(model.content, OnnxContent)
        self.model = model
        self.content = model.content
        self.conversion = conversion
        self.opsets = opset_versions(self.content.proto)

    def run(self) -> ModuleOp:
        graph = self.content.proto.graph
        scope = _Scope(Block(), _declared_types(graph))
        names = [value.name for value in self.model.inputs]
        kinds = [self._type(name, self.conversion.tensors.get(name), scope) for name in names]
        arguments = self.arguments(scope.block, list(zip(names, kinds, strict=True)))
        scope.values.update(zip(names, arguments, strict=True))
        return self.program(scope.block, self._graph(graph, scope), self.model)

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
        end(scope.block, results)
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
        self.name_node(op, node.name, node.op_type)
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
            argument.name_hint = self.unused(f"argument_{identifier(declared.name)}")
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
        return self._constant(name, _in_words("sparse tensor"), outermost)

    def _constant(self, name: str, kind: Attribute, scope: _Scope) -> SSAValue:
        weight = self.conversion.tensors.get(name) if scope.outer is None else None
        op = self.constant(name, kind, weight)
        # In the file's order, in front of all nodes.
        if scope.first is None:
            scope.block.add_op(op)
        else:
            scope.block.insert_op_before(op, scope.first)
        scope.values[name] = op.output
        return op.output

    def _type(self, name: str, found: Imported | None, scope: _Scope) -> Attribute:
        """Of a tensor: as the import found it; what that leaves open is as the file says."""
        declared = scope.declared.get(name)
        said = None if declared is None else _declared_type(declared)
        if isinstance(found, Expr) and isinstance(found.type, TensorType):
            return _merged(found.type, said)
        if isinstance(found, _STRUCTURES):
            return _in_words(_structure_words(found))
        if said is not None:
            return said
        return _in_words(_declared_words(declared) if name else "left out")


# -- types -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _in_words(text: str) -> SourceValueType:
    """The type of what no tensor type describes; most values of a file without types share one."""
    return SourceValueType(StringAttr(text))


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
        d.dim_value
        if d.WhichOneof("value") == "dim_value" and d.dim_value != -1
        else _dimension_name(d.dim_param)
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
    return _in_words(_typed_words(tensor.data_type, dims))


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
        return f"a map for each row, {format_shape(value.numbers.shape)}"
    if isinstance(value, StringTensor):
        return _typed_words(TensorProto.STRING, value.codes.shape[:-1])
    if isinstance(value, TensorSequence):
        return f"sequence of {len(value.elements)}"
    inside = len(tensors_of(value))
    return "optional, empty" if value.content is None else f"optional of {inside}"
