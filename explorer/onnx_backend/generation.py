"""Random valid ONNX models of a few nodes, for comparing implementations with each other.

    generated = generate(seed=7)
    generated.model          onnx.ModelProto, checked and with inferred shapes
    generated.inputs         {"x0": array, ...}

The same seed gives the same model. Each node is drawn from `recipes.RECIPES`; what onnx's own shape
inference does not accept is drawn again. A model is made so that its numbers are well conditioned:
inputs lie near 1, and an operator that jumps (rounding, comparing, sorting) reads inputs only,
never computed values, whose last bits may rightly differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

OPSET = 21
IR_VERSION = 10
MOST_ELEMENTS = 4096
"""Of one value: small enough to compare in milliseconds."""
ATTEMPTS = 60
"""Draws for one node before the model is taken as it is."""

FLOATS = ("float32", "float32", "float32", "float64", "float16")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16", "uint32")
TYPES = (*FLOATS, "float32", *INTEGERS, "bool")


class NotPossible(Exception):
    """A recipe finds no operands that fit, or what it made is not valid: another draw."""


@dataclass(frozen=True)
class Value:
    """A tensor of the model under construction. `depth`: nodes between it and the inputs."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    depth: int = 0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")


@dataclass
class Draft:
    """A model under construction, and the numbers that decide it."""

    random: np.random.Generator
    values: list[Value] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)

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
        if rank and self.random.random() < 0.03:
            sizes[self.number(0, rank - 1)] = 0
        return tuple(sizes)

    def array(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """Numbers around 1 of either sign; small integers; no zero among integers."""
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype.startswith("float"):
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

    def input(self, dtype: str, shape: Sequence[int]) -> Value:
        """A new input of the model; `NotPossible` where it would be too large."""
        if int(np.prod(shape)) > MOST_ELEMENTS:
            raise NotPossible
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.array(dtype, shape)
        value = Value(name, dtype, tuple(shape))
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

    def constant(self, array: np.ndarray | Sequence[int]) -> str:
        """The name of a new initializer; whole numbers are int64."""
        name = f"c{len(self.constants)}"
        is_array = isinstance(array, np.ndarray)
        self.constants[name] = array if is_array else np.array(array, np.int64)
        return name

    def broadcast_to(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another: leading dimensions left out, others made 1."""
        kept = tuple(shape)[self.number(0, len(shape)) :]
        return tuple(1 if self.random.random() < 0.3 else size for size in kept)

    def add(
        self,
        operator: str,
        operands: Sequence[str],
        results: int = 1,
        **attributes: Any,  # what onnx.helper takes
    ) -> None:
        """Adds a node; `NotPossible` where onnx does not accept it or a result is too large."""
        outputs = [f"v{len(self.nodes)}_{i}" for i in range(results)]
        node = helper.make_node(operator, list(operands), outputs, **attributes)
        types = self._infer(node)
        depths = {v.name: v.depth for v in self.values}
        depth = 1 + max((depths.get(name, 0) for name in operands), default=0)
        new = [
            Value(n, dtype, shape, depth) for n, (dtype, shape) in zip(outputs, types, strict=True)
        ]
        self.nodes.append(node)
        self.values += new

    def _infer(self, node: NodeProto) -> list[tuple[str, tuple[int, ...]]]:
        """Types and shapes of a node's results."""
        model = self._model([node], list(node.output))
        try:
            inferred = onnx.shape_inference.infer_shapes(
                model, check_type=True, strict_mode=True, data_prop=True
            )
        except onnx.shape_inference.InferenceError as error:
            raise NotPossible from error
        found = []
        for output in inferred.graph.output:
            tensor = output.type.tensor_type
            if not tensor.elem_type or not tensor.HasField("shape"):
                raise NotPossible
            if not all(d.HasField("dim_value") for d in tensor.shape.dim):
                raise NotPossible
            shape = tuple(d.dim_value for d in tensor.shape.dim)
            if int(np.prod(shape)) > MOST_ELEMENTS:
                raise NotPossible
            found.append((helper.tensor_dtype_to_np_dtype(tensor.elem_type).name, shape))
        return found

    def _model(self, nodes: Sequence[NodeProto], outputs: Sequence[str]) -> ModelProto:
        """A model of some nodes; what none of them makes is an input."""
        made = {name for node in nodes for name in node.output}
        read = {name for node in nodes for name in node.input if name}
        known = {v.name: v for v in self.values}
        inputs = [
            helper.make_tensor_value_info(n, _element(known[n].dtype), known[n].shape)
            for n in sorted(read - made)
            if n not in self.constants
        ]
        constants = [
            numpy_helper.from_array(self.constants[n], n)
            for n in sorted(read)
            if n in self.constants
        ]
        results = [
            helper.make_tensor_value_info(n, _element(known[n].dtype), known[n].shape)
            if n in known
            else helper.make_empty_tensor_value_info(n)
            for n in outputs
        ]
        graph = helper.make_graph(list(nodes), "generated", inputs, results, constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )

    def model(self) -> ModelProto:
        """The whole model; every result that no node reads is an output."""
        read = {name for node in self.nodes for name in node.input}
        unread = [n for node in self.nodes for n in node.output if n and n not in read]
        return self._model(self.nodes, unread)


def _element(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@dataclass(frozen=True)
class Generated:
    """A model with inputs that fit it."""

    seed: int
    model: ModelProto
    inputs: dict[str, np.ndarray]

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(node.op_type for node in self.model.graph.node)


def generate(seed: int, most_nodes: int = 4) -> Generated:
    """The model of a seed, of 1 to `most_nodes` nodes."""
    from explorer.onnx_backend.recipes import RECIPES

    draft = Draft(np.random.default_rng(seed))
    wanted = draft.number(1, most_nodes)
    for _ in range(ATTEMPTS):
        if len(draft.nodes) >= wanted:
            break
        names = set(draft.constants), set(draft.inputs), list(draft.values)
        try:
            draft.one_of(RECIPES)(draft)
        except NotPossible:
            draft.constants = {n: a for n, a in draft.constants.items() if n in names[0]}
            draft.inputs = {n: a for n, a in draft.inputs.items() if n in names[1]}
            draft.values = names[2]
    model = draft.model()
    given = {i.name for i in model.graph.input}
    onnx.checker.check_model(model)
    return Generated(seed, model, {n: a for n, a in draft.inputs.items() if n in given})
