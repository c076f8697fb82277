"""A case: an example of an operator with another element type, other sizes and hostile numbers.

    draw(Pair("Add", "int8"), seed=7, templates)
    -> Case(model: Add of int8 [3, 0, 5] and [5], inputs: ends of int8)

The element type of one type variable of the schema changes everywhere: inputs, results, attributes
that hold a type or a tensor. Types that NumPy lacks stay inside, between `Cast`s from and to
float32. Results are inferred again. `NotPossible` where no valid model comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, helper, numpy_helper
from onnx.defs import OpSchema

from verification.operators.numbers import hostile, kinds
from verification.operators.pairs import Pair, element_types, schemas, type_variables
from verification.operators.templates import Template

ATTEMPTS = 12
MAX_ELEMENTS = 20_000
RUNTIME_OPSET = 26
"""The newest that onnxruntime knows."""
IR_VERSION = 10
INNER = (
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
    "float6_e2m3fn",
    "float6_e3m2fn",
)
"""Types that NumPy lacks."""
INSIDE = "_inside"
"""Ends the names of values of these types."""
TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")
PLAIN_SHARE = 0.3
"""Of the inputs keep the numbers of the example, as far as the type holds them."""
RESIZED_SHARE = 0.35
DECIDE_SIZES = {
    "BlackmanWindow": ("T1",),
    "CenterCropPad": ("Tind",),
    "HammingWindow": ("T1",),
    "HannWindow": ("T1",),
    "MelWeightMatrix": ("T1",),
    "OneHot": ("T2",),
    "Range": ("T",),
}
"""Operators that make as many elements as the operands of a type variable say: these keep the
example's numbers."""
EQUAL_SHAPES = {"MaxUnpool": (0, 1)}
"""Inputs that must have one shape."""
MAX_PIXELS = 3_000
"""That a DeformConv reads of each channel: onnx's reference takes 40 microseconds for each."""
SIZES = (0, 0, 1, 2, 3, 7, 17)


class NotPossible(Exception):
    """No valid model comes of the example with this type."""


@dataclass(frozen=True)
class Case:
    """`kind`: of its numbers, and of what else was changed, in words."""

    pair: Pair
    seed: int
    model: ModelProto
    inputs: dict[str, Any]
    kind: str
    opset: int


def draw(pair: Pair, seed: int, templates: Sequence[Template]) -> Case:
    """The case of a seed; the same numbers give the same case."""
    problem = "onnx has no example of it with a single node"
    for attempt in range(ATTEMPTS if templates else 0):
        name = f"{pair.operator} {pair.element_type}"
        random = np.random.default_rng([seed, crc32(name.encode()), attempt])
        template = templates[int(random.integers(len(templates)))]
        try:
            return _Change(pair, template, random).case(seed)
        except NotPossible as error:
            problem = str(error)
    raise NotPossible(problem)


class _Change:
    """One example on its way to a case."""

    def __init__(self, pair: Pair, template: Template, random: np.random.Generator) -> None:
        self.pair, self.random = pair, random
        self.schema = schemas()[pair.operator]
        self.model = ModelProto()
        self.model.CopyFrom(template.model)
        self.node = self.model.graph.node[0]
        self.inputs = list(template.inputs)
        self.words: list[str] = []
        fitting = [v for v, ts in type_variables(self.schema).items() if pair.element_type in ts]
        self.variable = fitting[int(random.integers(len(fitting)))]

    def case(self, seed: int) -> Case:
        parameters = self._parameters()
        changed = [
            i for i, name in enumerate(self._names()) if parameters.get(name) == self.variable
        ]
        if not changed and not self._retype_attributes():
            raise NotPossible(f"{self.variable} is of no input and no attribute")
        if self.random.random() < RESIZED_SHARE:
            self._resize(changed)
        self._count_axes_from_the_end()
        kind = str(self.random.choice(kinds(self.pair.element_type)))
        for index in changed:
            self.inputs[index] = self._contents(self.inputs[index], kind)
        self._keep_casts_defined()
        opset = self._choose_opset()
        self._declare(changed)
        names = self._names()
        arrays = dict(zip(names, self.inputs, strict=True))
        return Case(self.pair, seed, self.model, arrays, " ".join([kind, *self.words]), opset)

    def _names(self) -> list[str]:
        return [value.name for value in self.model.graph.input]

    def _parameters(self) -> dict[str, str]:
        """The type strings of the node's inputs, by the names of the model's."""
        formal = list(self.schema.inputs)
        found = {}
        for index, name in enumerate(self.node.input):
            parameter = formal[min(index, len(formal) - 1)] if formal else None
            if name and parameter is not None:
                found[name] = parameter.type_str
        for name in captured(self.node):  # branches of one type
            found.setdefault(name, self.schema.outputs[0].type_str)
        return found

    def _retype_attributes(self) -> bool:
        """Sets the attribute that decides the type of a result; whether there is one."""
        number = _element(self.pair.element_type)
        for attribute in self.node.attribute:
            if attribute.type == AttributeProto.TENSOR and attribute.t.data_type != number:
                array = numpy_helper.to_array(attribute.t)
                attribute.t.CopyFrom(numpy_helper.from_array(_as(array, self.pair.element_type)))
                return True
        if not any(p.type_str == self.variable for p in self.schema.outputs):
            return False
        for name in TYPE_ATTRIBUTES:
            if name in self.schema.attributes:
                kept = [a for a in self.node.attribute if a.name != name]
                del self.node.attribute[:]
                self.node.attribute.extend([*kept, helper.make_attribute(name, number)])
                return True
        return any(a.type == AttributeProto.TENSOR for a in self.node.attribute)

    def _resize(self, changed: Sequence[int]) -> None:
        """Replaces one size, wherever inputs of the variable have it."""
        arrays = [self.inputs[i] for i in changed if isinstance(self.inputs[i], np.ndarray)]
        sizes = sorted({size for array in arrays for size in array.shape})
        if not sizes:
            return
        old = sizes[int(self.random.integers(len(sizes)))]
        new = SIZES[int(self.random.integers(len(SIZES)))]
        for index in changed:
            array = self.inputs[index]
            if isinstance(array, np.ndarray):
                shape = [new if size == old else size for size in array.shape]
                if int(np.prod(shape)) > MAX_ELEMENTS:
                    raise NotPossible("too large")
                self.inputs[index] = (
                    np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
                )
        self.words.append(f"size {old} is {new}")
        self._require_fitting_sizes()

    def _require_fitting_sizes(self) -> None:
        """What no schema says: sizes that inputs and attributes have in common."""
        equal = EQUAL_SHAPES.get(self.node.op_type, ())
        if len({np.shape(self.inputs[index]) for index in equal}) > 1:
            raise NotPossible("inputs of different shapes")
        hidden = [a.i for a in self.node.attribute if a.name == "hidden_size"]
        if hidden and np.shape(self.inputs[2])[-1] != hidden[0]:
            raise NotPossible("another hidden size")
        if self.node.op_type == "DeformConv":
            (batch, channels), filters = self.inputs[0].shape[:2], self.inputs[1]
            places = self.inputs[2].shape[2:]
            if batch * channels * filters.size * int(np.prod(places)) > MAX_PIXELS * channels:
                raise NotPossible("too large for onnx's reference")
        if self.node.op_type == "CenterCropPad":
            axes = [len(a.ints) for a in self.node.attribute if a.name == "axes"]
            if np.size(self.inputs[1]) != (axes or [np.ndim(self.inputs[0])])[0]:
                raise NotPossible("sizes of other axes")
        if self.node.op_type == "SplitToSequence" and len(self.inputs) > 1:
            axis = next((a.i for a in self.node.attribute if a.name == "axis"), 0)
            parts, size = np.asarray(self.inputs[1]), np.shape(self.inputs[0])[axis]
            if parts.ndim and parts.sum() != size:
                raise NotPossible("parts of another size")

    def _count_axes_from_the_end(self) -> None:
        ranks = [a.ndim for a in self.inputs if isinstance(a, np.ndarray)]
        for attribute in self.node.attribute:
            is_axis = attribute.name == "axis" and attribute.type == AttributeProto.INT
            if is_axis and ranks and 0 <= attribute.i < ranks[0] and self.random.random() < 0.4:
                attribute.i -= ranks[0]
                self.words.append("negative axis")

    def _contents(self, value: Any, kind: str) -> Any:
        if isinstance(value, list):
            return [self._contents(item, kind) for item in value]
        if value is None:
            return None
        array, dtype = np.asarray(value), self.pair.element_type
        is_size = self.variable in DECIDE_SIZES.get(self.node.op_type, ())
        is_plain = self.random.random() < PLAIN_SHARE or is_size
        if is_plain and dtype != "string":
            return _as(array, dtype)
        return hostile(self.random, dtype, array.shape, kind)

    def _keep_casts_defined(self) -> None:
        """ONNX leaves open what becomes of floats that a whole number cannot hold."""
        target = None
        if self.node.op_type == "CastLike":
            target = np.asarray(self.inputs[1]).dtype
        elif self.node.op_type == "Cast":
            number = next(a.i for a in self.node.attribute if a.name == "to")
            target = None if number == onnx.TensorProto.STRING else _dtype(number)
        array = self.inputs[0] if self.inputs else None
        if target is None or target.kind == "O" or not isinstance(array, np.ndarray):
            return
        if "float" in array.dtype.name and "int" in target.name:
            low, high = _limits(target.name)
            wide = np.nan_to_num(array.astype(np.float64), posinf=0, neginf=0)
            within = np.where((wide > low - 1) & (wide < high), wide, 0)
            self.inputs[0] = within.astype(array.dtype)

    def _choose_opset(self) -> int:
        """onnxruntime's newest, the example's own, or the newest: the first that has the type."""
        if self.schema.domain:
            return self.model.opset_import[0].version
        own = next(o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx"))
        newest = onnx.defs.onnx_opset_version()
        wanted = [RUNTIME_OPSET, own, newest]
        if self.random.random() < 0.2:
            wanted = [own, newest]
        for version in wanted:
            if self._is_known_in(version):
                for entry in self.model.opset_import:
                    if entry.domain in ("", "ai.onnx"):
                        entry.version = version
                return version
        raise NotPossible("no opset has this type")

    def _is_known_in(self, version: int) -> bool:
        """Whether the operator has the type and its attributes in an opset."""
        try:
            schema = onnx.defs.get_schema(self.node.op_type, version, "")
        except onnx.defs.SchemaError:
            return False
        if any(attribute.name not in schema.attributes for attribute in self.node.attribute):
            return False
        return self.pair.element_type in _types_of(schema, self.variable)

    def _declare(self, changed: Sequence[int]) -> None:
        """Writes the inputs' types, infers the results' types and casts what is INNER."""
        graph, number = self.model.graph, _element(self.pair.element_type)
        self.model.ir_version = min(self.model.ir_version, IR_VERSION)
        for index, value in enumerate(graph.input):
            if index in changed:
                _set_element(value.type, number)
            _set_shape(value.type, self.inputs[index])
        for value in graph.output:
            value.ClearField("type")
        casts = (self._cast_input(index) for index in range(len(graph.input)))
        before = [node for node in casts if node is not None]
        if before:
            nodes = [*before, *graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
            self.node = graph.node[-1]
        try:
            self.model = onnx.shape_inference.infer_shapes(self.model, strict_mode=True)
        except Exception as error:  # onnx raises various
            raise NotPossible(" ".join(str(error).split())[:200]) from error
        for value in self.model.graph.output:
            if not value.HasField("type"):
                raise NotPossible(f"the type of {value.name} is not inferred")
            _forget_shape(value.type)
        self._cast_outputs()

    def _cast_input(self, index: int) -> NodeProto | None:
        """Makes the input float32 with a Cast where its type is INNER."""
        value, array = self.model.graph.input[index], self.inputs[index]
        if isinstance(array, list) and array and array[0].dtype.name in INNER:
            raise NotPossible("a sequence of a type that NumPy lacks")
        if not isinstance(array, np.ndarray) or array.dtype.name not in INNER:
            return None
        inside = f"{value.name}{INSIDE}"
        _rename(self.node, value.name, inside)
        _set_element(value.type, _element("float32"))
        number = _element(array.dtype.name)
        self.inputs[index] = array.astype(np.float32)
        return helper.make_node("Cast", [value.name], [inside], to=number)

    def _cast_outputs(self) -> None:
        graph = self.model.graph
        inner = {_element(name) for name in INNER}
        for value in graph.output:
            if value.type.tensor_type.elem_type not in inner:
                continue
            inside = f"{value.name}{INSIDE}"
            for node in graph.node:
                for place, name in enumerate(node.output):
                    if name == value.name:
                        node.output[place] = inside
            to = _element("float32")
            graph.node.append(helper.make_node("Cast", [inside], [value.name], to=to))
            value.type.tensor_type.elem_type = to


def captured(node: NodeProto) -> Iterator[str]:
    """Names that nested graphs take from around the node."""
    for graph in _graphs(node):
        yield from _free(graph)


def _graphs(node: NodeProto) -> Iterator[GraphProto]:
    yield from (a.g for a in node.attribute if a.type == AttributeProto.GRAPH)


def _free(graph: GraphProto) -> list[str]:
    own = {v.name for v in (*graph.input, *graph.initializer)}
    own |= {name for node in graph.node for name in node.output}
    used = [n for node in graph.node for n in (*node.input, *captured(node))]
    used += [value.name for value in graph.output]
    return [name for name in used if name and name not in own]


def _rename(node: NodeProto, old: str, new: str) -> None:
    """What the node and its nested graphs read."""
    node.input[:] = [new if name == old else name for name in node.input]
    for graph in _graphs(node):
        for inner in graph.node:
            _rename(inner, old, new)


def _types_of(schema: OpSchema, variable: str) -> tuple[str, ...]:
    for constraint in schema.type_constraints:
        if constraint.type_param_str == variable:
            return element_types(constraint.allowed_type_strs)
    return element_types([variable])


def _element(dtype: str) -> int:
    if dtype == "string":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _dtype(number: int) -> np.dtype:
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


def _as(array: np.ndarray, dtype: str) -> np.ndarray:
    """The example's numbers in another type, as near as it has them."""
    if dtype == "string" or array.dtype == object:
        raise NotPossible("strings are no numbers")
    if array.dtype == np.dtype(dtype):
        return array
    with np.errstate(all="ignore"):
        if dtype != "bool" and "float" not in dtype and "complex" not in dtype:
            limits = _limits(dtype)
            wide = np.nan_to_num(array.astype(np.float64)).clip(*limits)
            return wide.astype(np.int64).astype(dtype)
        return array.astype(np.float64).astype(dtype)


def _limits(dtype: str) -> tuple[float, float]:
    limits = ml_dtypes.iinfo(np.dtype(dtype))
    return float(limits.min), min(float(limits.max), 2.0**62)


def _set_element(type_: TypeProto, number: int) -> None:
    match type_.WhichOneof("value"):
        case "tensor_type":
            type_.tensor_type.elem_type = number
        case "sequence_type":
            _set_element(type_.sequence_type.elem_type, number)
        case "optional_type":
            _set_element(type_.optional_type.elem_type, number)
        case _:
            raise NotPossible("an input that is no tensor and no sequence")


def _set_shape(type_: TypeProto, value: Any) -> None:
    if type_.WhichOneof("value") == "tensor_type":
        del type_.tensor_type.shape.dim[:]
        for size in np.asarray(value).shape:
            type_.tensor_type.shape.dim.add().dim_value = size


def _forget_shape(type_: TypeProto) -> None:
    if type_.WhichOneof("value") == "tensor_type":
        type_.tensor_type.ClearField("shape")
