"""A model under construction: what recipes of nodes draw with.

Numbers are well conditioned: inputs lie near 1, and an operator that jumps (rounding, comparing,
sorting) reads inputs only, never computed values, whose last bits may rightly differ. Types that
NumPy does not have stay inside: such a tensor is a `Cast` of an input, and results of such a type
are cast back. What onnx's own shape inference or onnxruntime does not accept is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, helper, numpy_helper

from verification.conformance.coverage import read_by
from verification.conformance.oracle import accepts

DOMAINS = {"ai.onnx.ml": 5, "com.microsoft": 1}
IR_VERSION = 10
MAX_ELEMENTS = 4096
"""Of one value: small enough to compare in milliseconds."""
ZERO_SHARE = 0.03
"""Of the shapes have a dimension of no elements."""
ATTEMPTS = 60
"""Draws for one node before the model is taken as it is."""

FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
TYPES = (*FLOATS, "float32", *INTEGERS, "bool")
FLOATS8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
INTEGERS4 = ("int4", "uint4")
STORED = (*FLOATS8, *INTEGERS4)
"""Types that are stored and converted; onnxruntime does not compute with them."""
INNER = ("bfloat16", *STORED)
"""Types that NumPy does not have: no inputs and outputs of a model."""
PRECISIONS = ("float64", "float32", "float16", "bfloat16")
"""From the finest to the coarsest."""


class NotPossible(Exception):
    """A recipe finds no operands that fit, or what it made is not valid: another draw."""


@dataclass(frozen=True)
class Value:
    """A tensor of the model under construction.

    `depth`: nodes between it and the inputs. `precision`: the coarsest of the floating-point types
    that it was computed in, by its place in PRECISIONS.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    depth: int = 0
    precision: int = 0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype


class Drawable(Protocol):
    """A recipe as a draft knows it: how a node is drawn, and since which opset there is one."""

    @property
    def since(self) -> int: ...

    @property
    def draw(self) -> Callable[[Draft], None]: ...


@dataclass
class Draft:
    """A model under construction, or a graph inside one, and the numbers that decide it."""

    random: np.random.Generator
    opset: int
    recipes: Sequence[Drawable] = ()
    values: list[Value] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    results: list[Value] = field(default_factory=list)
    """Of nodes whose results have sizes that only a run knows: outputs, read by no node."""
    outer: Draft | None = None
    prefix: str = ""
    zero_share: float = ZERO_SHARE

    # -- drawing ---------------------------------------------------------------------------------
    def one_of(self, choices: Sequence):
        """One of the choices; `NotPossible` where there are none."""
        if not len(choices):
            raise NotPossible
        return choices[int(self.random.integers(len(choices)))]

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def flag(self) -> bool:
        return bool(self.random.integers(2))

    def sizes(self, rank: int, largest: int = 6) -> tuple[int, ...]:
        """A shape; now and then a dimension of one element or of none."""
        sizes = [self.number(1, largest) for _ in range(rank)]
        if rank and self.random.random() < self.zero_share:
            sizes[self.number(0, rank - 1)] = 0
        return tuple(sizes)

    def array(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """Numbers around 1 of either sign; small integers; no zero among integers."""
        if dtype == "bool":
            return np.asarray(self.random.integers(0, 2, shape)).astype(bool)
        if "float" in dtype:
            return np.asarray(self.random.uniform(-2, 2, shape)).astype(dtype)
        low = 1 if dtype.startswith("u") else -7
        numbers = self.random.integers(low, 8, shape)
        return np.asarray(np.where(numbers == 0, 1, numbers)).astype(dtype)

    # -- building --------------------------------------------------------------------------------
    def operand(
        self,
        dtypes: Sequence[str],
        ranks: Sequence[int] = tuple(range(6)),
        is_exact: bool = False,
    ) -> Value:
        """A value of one of the types and ranks: a present one, or a new input.

        `is_exact`: an input, whose bits are the same for everyone.
        """
        fitting = [
            v
            for v in self.values
            if v.dtype in dtypes and v.rank in ranks and (v.depth == 0 or not is_exact)
        ]
        if fitting and self.random.random() < 0.8:
            return self.one_of(fitting)
        return self.input(self.one_of(dtypes), self.sizes(self.one_of(ranks)))

    def input(self, dtype: str, shape: Sequence[int], array: np.ndarray | None = None) -> Value:
        """A new input of the model; `NotPossible` where it would be too large.

        `array`: what it holds; numbers as of `array()` otherwise.
        """
        if int(np.prod(shape)) > MAX_ELEMENTS:
            raise NotPossible
        if dtype in INNER:
            whole = self.array(dtype, shape).astype(np.float32)
            source = self.input("float32", shape, whole)
            return self.add("Cast", [source.name], to=_element(dtype))[0]
        if self.outer is not None:
            value = self.outer.input(dtype, shape, array)
        else:
            name = f"x{len(self.inputs)}"
            self.inputs[name] = self.array(dtype, shape) if array is None else array
            value = Value(name, dtype, tuple(shape), 0, _precision(dtype))
        self.values.append(value)
        return value

    def like(self, value: Value, shape: Sequence[int]) -> Value:
        """An operand of a value's type and exactly a shape: a present one, an input, a constant."""
        fitting = [v for v in self.values if (v.dtype, v.shape) == (value.dtype, tuple(shape))]
        if fitting and self.flag():
            return self.one_of(fitting)
        if self.flag():
            return self.input(value.dtype, shape)
        array = self.array(value.dtype, shape)
        return Value(self.constant(array), value.dtype, tuple(shape))

    def weight(self, dtype: str, shape: Sequence[int]) -> str:
        """The name of a new initializer with numbers as of `array()`."""
        return self.constant(self.array(dtype, shape))

    def constant(self, array: np.ndarray | Sequence[int]) -> str:
        """The name of a new initializer; whole numbers are int64."""
        name = f"{self.prefix}c{len(self.constants)}"
        is_array = isinstance(array, np.ndarray)
        self.constants[name] = array if is_array else np.array(array, np.int64)
        return name

    def broadcast_to(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another: leading dimensions left out, others made 1."""
        kept = tuple(shape)[self.number(0, len(shape)) :]
        return tuple(1 if self.random.random() < 0.3 else size for size in kept)

    def fresh(self, count: int = 1) -> list[str]:
        """Names for the results of the next node."""
        return [f"{self.prefix}v{len(self.nodes)}_{i}" for i in range(count)]

    def add(
        self,
        operator: str,
        operands: Sequence[str],
        results: int = 1,
        /,
        **attributes: Any,  # what onnx.helper takes
    ) -> list[Value]:
        """Adds a node; its results. NotPossible as for `add_nodes`."""
        outputs = self.fresh(results)
        node = helper.make_node(operator, list(operands), outputs, **attributes)
        return self.add_nodes([node], outputs)

    def add_last(
        self,
        operator: str,
        operands: Sequence[str],
        results: int = 1,
        /,
        **attributes: Any,  # what onnx.helper takes
    ) -> list[Value]:
        """Adds a node whose results may have sizes that only a run knows; no node reads them."""
        outputs = self.fresh(results)
        node = helper.make_node(operator, list(operands), outputs, **attributes)
        return self.add_nodes([node], outputs, is_last=True)

    def add_typed(
        self,
        operator: str,
        operands: Sequence[str],
        types: Sequence[tuple[str, tuple[int, ...]]],
        domain: str = "",
        /,
        **attributes: Any,  # what onnx.helper takes
    ) -> list[Value]:
        """Adds a node that onnx cannot infer the types of, such as one of another domain."""
        outputs = self.fresh(len(types))
        node = helper.make_node(operator, list(operands), outputs, domain=domain, **attributes)
        return self.add_nodes([node], outputs, types=types)

    def add_nodes(
        self,
        nodes: Sequence[NodeProto],
        outputs: Sequence[str],
        *,
        types: Sequence[tuple[str, tuple[int, ...]]] | None = None,
        is_last: bool = False,
    ) -> list[Value]:
        """Adds nodes of which `outputs` (tensors) may be read by others.

        `types` are those of the outputs where onnx cannot infer them. `is_last`: sizes may be known
        by a run only, and no node reads the results. NotPossible where onnx or onnxruntime does not
        accept the nodes, or a result is too large.
        """
        model = self._model(nodes, outputs)
        types = self._infer(model, is_last) if types is None else types
        typed = [_info(n, dtype, shape) for n, (dtype, shape) in zip(outputs, types, strict=True)]
        del model.graph.output[:]
        model.graph.output.extend(typed)
        if not accepts(model):
            raise NotPossible
        read = {name for node in nodes for name in read_by(node)}
        sources = [v for v in self.values if v.name in read]
        depth = 1 + max((v.depth for v in sources), default=0)
        precision = max((v.precision for v in sources), default=0)
        is_exact = nodes[0].op_type == "Cast" and types[0][0] in INNER and depth == 1
        new = [
            Value(n, dtype, shape, 0 if is_exact else depth, max(precision, _precision(dtype)))
            for n, (dtype, shape) in zip(outputs, types, strict=True)
        ]
        self.nodes += nodes
        if is_last:
            self.results += new
        else:
            self.values += new
        return new

    def _infer(self, model: ModelProto, is_last: bool) -> list[tuple[str, tuple[int, ...]]]:
        """Types and shapes of a model's outputs; -1 for sizes that are not known."""
        try:
            inferred = onnx.shape_inference.infer_shapes(
                model, check_type=True, strict_mode=True, data_prop=True
            )
        except onnx.shape_inference.InferenceError as error:
            raise NotPossible from error
        found = []
        for output in inferred.graph.output:
            tensor = output.type.tensor_type
            if not tensor.elem_type:
                raise NotPossible
            sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
            if not is_last and (not tensor.HasField("shape") or -1 in sizes):
                raise NotPossible
            if int(np.prod(sizes)) > MAX_ELEMENTS:
                raise NotPossible
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
            found.append((dtype, tuple(sizes)))
        return found

    def _model(self, nodes: Sequence[NodeProto], outputs: Sequence[str]) -> ModelProto:
        """These nodes alone; values that they read become inputs."""
        made = {name for node in nodes for name in node.output}
        read = {name for node in nodes for name in read_by(node)} - made
        known = {v.name: v for v in (*self.values, *self.results)}
        inputs = [_info(n, known[n].dtype, known[n].shape) for n in sorted(read) if n in known]
        results = [
            _info(n, known[n].dtype, known[n].shape)
            if n in known
            else helper.make_value_info(n, TypeProto())
            for n in outputs
        ]
        graph = helper.make_graph(nodes, "generated", inputs, results, self.initializers(read))
        domains = {node.domain for node in with_inner(nodes) if node.domain}
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid(d, DOMAINS[d]) for d in sorted(domains)]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)

    def initializers(self, read: set[str]) -> list[onnx.TensorProto]:
        found = [n for n in sorted(read) if n in self.constants]
        return [numpy_helper.from_array(self.constants[n], n) for n in found]

    # -- whole graphs ----------------------------------------------------------------------------
    def inside(self, arguments: Sequence[Value]) -> Draft:
        """The draft of a graph inside: it reads its arguments and what is known here."""
        prefix = f"{self.prefix}g{len(self.nodes)}_{self.number(0, 10**6)}_"
        values = [*self.values, *arguments]
        return Draft(self.random, self.opset, self.recipes, values, outer=self, prefix=prefix)

    def graph(self, arguments: Sequence[Value], outputs: Sequence[Value]) -> GraphProto:
        """The draft as a graph inside another; values that it was given are passed on by nodes."""
        own = {name for node in self.nodes for name in node.output}
        names = []
        nodes = list(self.nodes)
        for number, output in enumerate(outputs):
            names.append(f"{self.prefix}r{number}")
            nodes.append(helper.make_node("Identity", [output.name], [names[-1]]))
        assert not own & set(names)
        results = [_info(n, v.dtype, v.shape) for n, v in zip(names, outputs, strict=True)]
        read = {name for node in nodes for name in read_by(node)}
        return helper.make_graph(
            nodes,
            f"{self.prefix}graph",
            [_info(v.name, v.dtype, v.shape) for v in arguments],
            results,
            self.initializers(read),
        )

    def grow(self, most_nodes: int, least_nodes: int = 1) -> None:
        """Adds so many nodes at least and at most, each by a recipe."""
        wanted = len(self.nodes) + self.number(least_nodes, most_nodes)
        for _ in range(ATTEMPTS):
            if len(self.nodes) >= wanted:
                break
            recipe = self.one_of(self.recipes)
            if self.opset < recipe.since:
                continue
            before = self._state()
            try:
                recipe.draw(self)
            except NotPossible:
                self._restore(before)

    def _state(self) -> list[tuple[Draft, list[Value], int, int, int, int]]:
        outer = [] if self.outer is None else self.outer._state()
        counts = [len(x) for x in (self.nodes, self.constants, self.inputs, self.results)]
        return [*outer, (self, list(self.values), *counts)]  # pyright: ignore[reportReturnType]

    def _restore(self, state: list[tuple[Draft, list[Value], int, int, int, int]]) -> None:
        for draft, values, nodes, constants, inputs, results in state:
            draft.values = values
            del draft.nodes[nodes:], draft.results[results:]
            draft.constants = dict(list(draft.constants.items())[:constants])
            draft.inputs = dict(list(draft.inputs.items())[:inputs])

    def finished(self) -> tuple[ModelProto, dict[str, str]]:
        """The whole model; every result that no node reads is an output. Their precisions."""
        read = {name for node in self.nodes for name in read_by(node)}
        values = {v.name: v for v in (*self.values, *self.results)}
        unread = [n for node in self.nodes for n in node.output if n in values and n not in read]
        for index, name in enumerate(unread):
            if values[name].dtype in INNER:
                cast = self.add("Cast", [name], to=_element("float32"))[0]
                values[cast.name] = cast
                unread[index] = cast.name
        precisions = {n: PRECISIONS[values[n].precision] for n in unread}
        return self._model(self.nodes, unread), precisions


def _element(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _info(name: str, dtype: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
    """Sizes of -1 are not known."""
    sizes = [None if size < 0 else size for size in shape]
    return helper.make_tensor_value_info(name, _element(dtype), sizes)


def _precision(dtype: str) -> int:
    return PRECISIONS.index(dtype) if dtype in PRECISIONS else 0


def with_inner(nodes: Iterable[NodeProto]) -> list[NodeProto]:
    """The nodes, and behind each those of the graphs inside it."""
    found: list[NodeProto] = []
    for node in nodes:
        found.append(node)
        for attribute in node.attribute:
            found += with_inner(attribute.g.node)
    return found


assert ml_dtypes.bfloat16  # the import gives NumPy the names of these types
