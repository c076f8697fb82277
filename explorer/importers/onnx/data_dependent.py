"""Nodes that cannot be imported before a run: each is imported for the arrays that it is given.

    Resize(x, sizes), sizes an input    =>   %y = top.node(%x, %sizes) {operator = "Resize"}
    in a run, sizes = [1, 1, 7, 5]      =>   the gathers that a resize to 7 x 5 is, by NumPy

What is found for contents that come again is kept, `MAX_PROGRAMS` of them at most.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, helper
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute

from explorer.errors import ExplorerError, ModelError, UnsupportedError
from explorer.importers.building.code_points import SUFFIX
from explorer.importers.building.expr import Expr, all_plain
from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.inference import infer_shapes
from explorer.importers.onnx.file.reading import from_proto
from explorer.importers.onnx.file.string_inputs import PLACES
from explorer.importers.onnx.file.tensors import dtype_of
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node
from explorer.importers.onnx.program.quantized_types import is_quantized
from explorer.importers.onnx.program.structures import Imported, StringTensor, tensors_of
from explorer.ir.evaluation import entry_function, outputs_by_name, specialized_inputs
from explorer.ir.program import Snapshot
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.top.data_dependent import DataDependentNodeOp, MeaningAttr
from explorer.ir.types import (
    ELEMENT_TYPES,
    Dim,
    element_type_from_numpy,
    tensor_type,
)
from explorer.ir.weights import Weights

MAX_PROGRAMS = 32
"""Programs of one node, each for certain sizes and contents."""
IR_VERSION = 10
KEEPS_AXES = ("CenterCropPad", "MaxUnpool", "Pad", "Split")
"""Operators whose results have as many axes as the first operand, which ONNX does not infer."""

TensorForm = tuple[int, Sequence[Dim]]
"""ONNX's element type and the sizes."""
ToTop = Callable[[SourceModel, Mapping[str, int]], tuple[ModuleOp, Weights]]
"""Imports a model of one node, with sizes for its symbolic dimensions."""


@dataclass(frozen=True, eq=False)
class _Imported:
    """A node that was imported for operands of certain sizes."""

    contents: Mapping[str, np.ndarray]
    """Of the operands that decided its form."""
    snapshot: Snapshot


def data_dependent_node(
    node: Node, proto: NodeProto, opsets: Mapping[str, int], build: Build, to_top: ToTop
) -> list[Imported | None] | None:
    """The node as one operation that is imported in a run; None where that cannot be.

    Its operands must be tensors or strings, it must have no graphs inside, and ONNX must tell the
    element types of its results and how many axes these have.
    """
    if any(a.HasField("g") or a.graphs for a in proto.attribute):
        return None
    operands = [o for o in node.operands if o is not None]
    if not all(isinstance(o, Expr | StringTensor) for o in operands):
        return None
    tensors = [tensor for o in operands for tensor in tensors_of(o)]
    if any(is_quantized(t.element_type) for t in tensors):
        return None
    meaning = DataDependentNode.of(node, proto, opsets, to_top)
    types = meaning.result_types()
    if types is None:
        return None
    op = DataDependentNodeOp.create(
        operands=all_plain(tensors),
        result_types=types,
        properties={
            "operator": StringAttr(node.operator),
            "meaning": MeaningAttr(meaning),
        },
    )
    results = [
        StringTensor(result) if name.endswith(SUFFIX) else result
        for name, result in zip(meaning.outputs, build.results(op), strict=True)
    ]
    made = iter(results)
    return [next(made) if name else None for name in proto.output]


class DataDependentNode:
    """What a node computes, found out by importing it for the arrays at hand (`late.Meaning`)."""

    format = "onnx"

    def __init__(
        self,
        name: str,
        proto: NodeProto,
        forms: Sequence[TensorForm | None],
        opsets: Mapping[str, int],
        to_top: ToTop,
    ) -> None:
        """`proto`: the node, whose operands are called i0, i1 ... and results o0, o1 ...; `forms`:
        of its operands, None where one is left out."""
        self._to_top = to_top
        self.name = name
        self._proto = proto
        self._forms = forms
        self._opsets = opsets
        self._inputs = [_tensor(f"i{n}", form[0]) for n, form in enumerate(forms) if form]
        self.outputs: list[str] = []
        """Names of the tensors that it makes, once their types are known."""
        self._kept: OrderedDict[Hashable, list[_Imported]] = OrderedDict()

    @staticmethod
    def of(
        node: Node, proto: NodeProto, opsets: Mapping[str, int], to_top: ToTop
    ) -> DataDependentNode:
        """A node of a model that is imported."""
        forms = [None if o is None else _form_of_value(o) for o in node.operands]
        own = NodeProto()
        own.CopyFrom(proto)
        own.name = node.name
        del own.input[:], own.output[:]
        own.input.extend(f"i{n}" if form else "" for n, form in enumerate(forms))
        own.output.extend(f"o{n}" if name else "" for n, name in enumerate(proto.output))
        name = f"{node.operator} {node.name}"
        return DataDependentNode(name, own, forms, {**opsets, node.domain: node.opset}, to_top)

    @property
    def content(self) -> str:
        """A model of the node, in base 64."""
        return base64.b64encode(self._model(self._forms).SerializeToString()).decode()

    @staticmethod
    def read(name: str, content: str, to_top: ToTop) -> DataDependentNode:
        """The same node out of its content; ModelError where that is none."""
        try:
            model = onnx.ModelProto.FromString(base64.b64decode(content, validate=True))
            (proto,) = model.graph.node
            given = {value.name: _declared_form(value) for value in model.graph.input}
            forms = [given[operand] if operand else None for operand in proto.input]
        except (ValueError, KeyError, DecodeError) as error:
            raise ModelError(f"what {name} means cannot be read: {error}") from error
        opsets = {opset.domain: opset.version for opset in model.opset_import}
        found = DataDependentNode(name, proto, forms, opsets, to_top)
        if found.result_types() is None:
            raise ModelError(f"what {name} means cannot be read: its results have no types")
        return found

    def result_types(self) -> list[Attribute] | None:
        """As far as they are known before a run: element types and how many axes there are."""
        try:
            model = infer_shapes(self._model(self._forms), strict_mode=True)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
            return None
        inferred = {v.name: v.type for v in (*model.graph.value_info, *model.graph.output)}
        types = [self._result_type(inferred.get(name)) for name in self._proto.output if name]
        known = [kind for kind in types if kind is not None]
        if len(known) != len(types):
            return None
        names = [name for name in self._proto.output if name]
        self.outputs = [_tensor(name, inferred[name].tensor_type.elem_type) for name in names]
        return known

    def _result_type(self, inferred: TypeProto | None) -> Attribute | None:
        """The IR's type; None where ONNX does not say of what, or how many axes there are."""
        if inferred is None or not inferred.tensor_type.elem_type:
            return None
        tensor = inferred.tensor_type
        count = axes_count(self._proto, self._forms)
        if tensor.HasField("shape"):
            sizes = [d.dim_value if d.HasField("dim_value") else UNKNOWN for d in tensor.shape.dim]
        elif count is not None:
            sizes = [UNKNOWN] * count
        else:
            return None
        if tensor.elem_type == TensorProto.STRING:
            return tensor_type(ELEMENT_TYPES["int32"], [*sizes, UNKNOWN])
        try:
            dtype = dtype_of(tensor.elem_type, "a result")
        except ExplorerError:
            return None
        return tensor_type(element_type_from_numpy(dtype), sizes)

    def __call__(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        arrays = dict(zip(self._inputs, map(np.asarray, operands), strict=True))
        imported = self._imported(arrays)
        outputs = outputs_by_name(imported.snapshot.program, imported.snapshot.run(arrays))
        return tuple(outputs[name] for name in self.outputs)

    def _imported(self, arrays: Mapping[str, np.ndarray]) -> _Imported:
        """The node for these arrays, as it was imported for others of which it knew the same."""
        sizes = tuple((array.dtype.str, array.shape) for array in arrays.values())
        for known in self._kept.get(sizes, ()):
            if all(np.array_equal(arrays[n], held) for n, held in known.contents.items()):
                self._kept.move_to_end(sizes)
                return known
        given = iter(arrays.values())
        forms = [None if f is None else _form_of(next(given), f[0]) for f in self._forms]
        try:
            source = from_proto(self._model(forms), self.name)
            sizes_of_strings = {
                name.removesuffix(SUFFIX) + PLACES: array.shape[-1]
                for name, array in arrays.items()
                if name.endswith(SUFFIX)
            }
            assumed = replace(source, assumed=dict(arrays))
            module, weights = self._to_top(assumed, sizes_of_strings)
        except ExplorerError as error:
            problems = error.problems if isinstance(error, UnsupportedError) else ()
            raise ValueError("; ".join(problems) or error.message) from error
        decided = specialized_inputs(entry_function(module))
        made = _Imported({n: np.array(arrays[n]) for n in decided}, Snapshot(module, weights))
        self._kept.setdefault(sizes, []).append(made)
        while sum(map(len, self._kept.values())) > MAX_PROGRAMS:
            self._kept.popitem(last=False)
        return made

    def _model(self, forms: Sequence[TensorForm | None]) -> onnx.ModelProto:
        """A model of the node, for operands of certain types and sizes."""
        inputs = []
        for number, form in enumerate(forms):
            if form is None:
                continue
            kind, shape = form
            sizes = [None if size == UNKNOWN else size for size in shape]
            inputs.append(helper.make_tensor_value_info(f"i{number}", kind, sizes))
        outputs = [ValueInfoProto(name=name) for name in self._proto.output if name]
        graph = helper.make_graph([self._proto], "node", inputs, outputs)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self._opsets.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _declared_form(value: ValueInfoProto) -> TensorForm:
    tensor = value.type.tensor_type
    sizes = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or UNKNOWN for d in tensor.shape.dim
    ]
    return tensor.elem_type, sizes


def _form_of(array: np.ndarray, kind: int) -> TensorForm:
    return kind, array.shape[:-1] if kind == TensorProto.STRING else array.shape


def _form_of_value(value: Imported) -> TensorForm:
    if isinstance(value, StringTensor):
        return TensorProto.STRING, value.codes.shape[:-1]
    assert isinstance(value, Expr)
    return helper.np_dtype_to_tensor_dtype(value.dtype), value.shape


def _tensor(name: str, kind: int) -> str:
    """What the tensor of a value is called: of strings it has their code points."""
    return name + SUFFIX if kind == TensorProto.STRING else name


def axes_count(proto: NodeProto, forms: Sequence[TensorForm | None]) -> int | None:
    """How many axes a node's result has where ONNX infers none because contents are missing."""
    if not forms or forms[0] is None:
        return None
    own = len(forms[0][1])
    if proto.op_type in KEEPS_AXES:
        return own
    listed = forms[1] if len(forms) > 1 else None
    length = None if listed is None else prod(d if isinstance(d, int) else -1 for d in listed[1])
    if length is None or length < 0:
        return None
    if proto.op_type == "Unsqueeze":
        return own + length
    if proto.op_type == "Squeeze":
        return own - length
    if not proto.op_type.startswith("Reduce"):
        return None
    numbers = {a.name: a.i for a in proto.attribute}
    if numbers.get("keepdims", 1) or (not length and numbers.get("noop_with_empty_axes", 0)):
        return own
    return own - length if length else 0
