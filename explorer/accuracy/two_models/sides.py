"""One of two models: its nodes, and its tensors as real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType

from explorer.accuracy.oracle import reference
from explorer.errors import ModelError
from explorer.importers import SourceModel, examine, open_program, program_inputs
from explorer.importers.model import OpenedProgram, bind_dimensions
from explorer.ir.dialects.source import ConstantOp, NodeOp
from explorer.ir.evaluation import evaluate_module
from explorer.ir.origins import origin_of, sources_of
from explorer.ir.structure import functions, operations, value_name
from explorer.ir.top.casting import BitcastOp
from explorer.ir.types import QuantizedType
from explorer.references.interface import reference_of


@dataclass(frozen=True)
class SideNode:
    """One node of the outermost graph; `inputs` are tensors that other nodes or the caller give."""

    name: str
    operator: str
    family: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    has_small_weights: bool
    """Whether the file holds weights of it in bytes or less."""


class Side:
    """A model with sizes for its dimensions. ModelError where no reference runs it."""

    def __init__(self, model: SourceModel, sizes: Mapping[str, int]):
        self.model = model
        self.sizes = bind_dimensions(model, sizes)
        self.judge = reference_of(model).title_of(model)

    @cached_property
    def source(self) -> ModuleOp:
        return examine(self.model, self.sizes).source

    @cached_property
    def nodes(self) -> tuple[SideNode, ...]:
        """The nodes that depend on the inputs, in the order of the file, which is topological."""
        (function,) = functions(self.source)
        names = {
            id(argument): name
            for argument, name in zip(
                function.body.block.args, (value.name for value in self.model.inputs), strict=False
            )
        }
        depending = set(names)
        small: set[int] = set()
        found = []
        for op in function.body.block.ops:
            if isinstance(op, ConstantOp) and _is_small(op.output.type):
                small.add(id(op.output))
            if not isinstance(op, NodeOp):
                continue
            operands = list(op.inputs)
            has_small = any(id(operand) in small for operand in operands)
            if operands and not any(id(operand) in depending for operand in operands):
                if has_small:  # weights on their way: dequantized, transposed
                    small.update(id(result) for result in op.results)
                continue
            for result, name in zip(op.results, op.tensor_names(), strict=True):
                names[id(result)] = name
                depending.add(id(result))
            found.append(
                SideNode(
                    name=next(iter(sources_of(op)), op.operator.data),
                    operator=op.operator.data,
                    family=op.family.data,
                    inputs=tuple(names[id(o)] for o in operands if names.get(id(o))),
                    outputs=tuple(name for name in op.tensor_names() if name),
                    # Zero points are no weights.
                    has_small_weights=has_small and op.family.data != "quantization",
                )
            )
        return tuple(found)

    @cached_property
    def scales(self) -> dict[str, QuantizedType]:
        """How numbers are quantized, of each quantized tensor or input."""
        found: dict[str, QuantizedType] = {}
        for op in operations(self.source):
            if isinstance(op, NodeOp):
                for result, name in zip(op.results, op.tensor_names(), strict=True):
                    _note(found, name, result.type)
        return found | self._scales_of_program

    @cached_property
    def _program(self) -> OpenedProgram | None:
        try:
            return open_program(self.model, self.sizes)
        except ModelError:
            return None

    @cached_property
    def _scales_of_program(self) -> dict[str, QuantizedType]:
        """What the importer knows: a file may state the scale of a tensor at its readers."""
        found: dict[str, QuantizedType] = {}
        if self._program is None:
            return found
        function = functions(self._program.module)[0]
        names = [value.name for value in self.model.inputs]
        inputs = {id(a): n for a, n in zip(function.body.block.args, names, strict=False)}
        for op in operations(self._program.module):
            if isinstance(op, BitcastOp):
                _note(found, inputs.get(id(op.operands[0]), ""), op.results[0].type)
            for result in op.results:
                origin = origin_of(result)
                if origin is not None and not origin.steps:
                    _note(found, origin.tensor, result.type)
        return found

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The tensors of the outermost graph that hold real numbers, as float32.

        Integers without a scale (indices, shapes) are left out. Where no reference runs the model
        the imported program is interpreted, and `judge` names it with the reason.
        """
        try:
            tensors = reference(self.model, inputs)
        except ModelError as error:
            if self._program is None:
                raise
            self.judge = f"the imported program, because of: {error.message}"
            tensors = self._interpreted(self._program, inputs)
        real = {name: self.as_real(name, np.asarray(array)) for name, array in tensors.items()}
        return {name: array for name, array in real.items() if array is not None}

    def _interpreted(
        self, program: OpenedProgram, inputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        given = program_inputs(self.model, dict(inputs), self.sizes)
        values = evaluate_module(program.module, program.weights, given)
        found: dict[str, np.ndarray] = {}
        for op in operations(program.module):
            for result in op.results:
                origin = origin_of(result)
                if origin is not None and not origin.steps and value_name(result) in values:
                    found[origin.tensor] = np.asarray(values[value_name(result)])
        return found

    def as_real(self, name: str, array: np.ndarray) -> np.ndarray | None:
        """A tensor as float32; None for one of integers without a scale, booleans, text."""
        if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
            return array.astype(np.float32)
        kind = self.scales.get(name)
        if kind is None or array.dtype.kind not in "iu":
            return None
        scale = kind.along(kind.double_scales, array.ndim)
        zero = kind.along(kind.zero_point_array, array.ndim)
        return ((array.astype(np.float64) - zero) * scale).astype(np.float32)

    def step(self, name: str) -> float:
        """The largest distance of two neighbouring numbers of a tensor; 0 for floats."""
        kind = self.scales.get(name)
        return 0.0 if kind is None else float(kind.double_scales.max())

    def ends(self, name: str) -> tuple[float, float] | None:
        """The least and the greatest number that a quantized tensor holds; None for floats."""
        kind = self.scales.get(name)
        if kind is None or not kind.is_per_tensor:
            return None
        bits = kind.storage.width.data
        low = -(1 << bits - 1) if kind.storage.signedness.data != Signedness.UNSIGNED else 0
        zero, scale = int(kind.zero_point_array[0]), float(kind.double_scales[0])
        return (low - zero) * scale, (low + (1 << bits) - 1 - zero) * scale


def _is_small(kind: object) -> bool:
    """Whether a tensor's elements are quantized, or integers of at most eight bits."""
    if not isinstance(kind, TensorType):
        return False
    element = kind.element_type
    return isinstance(element, QuantizedType) or (
        isinstance(element, IntegerType) and 1 < element.width.data <= 8
    )


def _note(found: dict[str, QuantizedType], name: str, kind: object) -> None:
    if name and isinstance(kind, TensorType):
        element = kind.element_type
        if isinstance(element, QuantizedType) and not element.block_size:
            found.setdefault(name, element)
