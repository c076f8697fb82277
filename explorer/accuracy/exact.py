"""The yardstick of the yardstick: the source model in float64, where the oracle may be off.

    %y = top.unary(%x) {kind = "sigmoid"} : tensor<4xf32>
    ->
    %y = top.unary(%x) {kind = "sigmoid"} : tensor<4xf64>

The oracle rounds, too. Where a tensor differs from the oracle's by more than the tolerance, both
are compared with the imported program run in float64: it tells a mistake from an approximation of
the oracle's, and from a result that no float32 can have (a difference of nearly equal numbers).

The imported program is ours and could itself be wrong, so it is trusted only where others agree:
fed with the oracle's values, every tensor must equal the oracle's up to the tolerance, or else what
onnx's own reference implementation computes of that node in float64 (`certifying.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FunctionType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from explorer.accuracy.certifying import uncertified
from explorer.accuracy.metrics import tensor_error, with_exact
from explorer.accuracy.steps import are_ties_of_rows
from explorer.errors import ExplorerError
from explorer.importers.model import SourceModel
from explorer.ir.evaluation import evaluate_module
from explorer.ir.interfaces import KeepsNumbers
from explorer.ir.origins import Origin
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.structure import value_name
from explorer.ir.top.casting import BitcastOp, CastOp
from explorer.ir.top.data import WeightOp
from explorer.ir.top.support.quantized_scalars import stored_array
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_float_dtype,
    layout_of,
    numpy_dtype,
    shape_of,
    tensor_type,
)
from explorer.ir.weights import Weights
from explorer.results import TensorError

Values = Mapping[str, np.ndarray]
_ROUNDED = (Float16Type, BFloat16Type, Float32Type)
"""Float types of arithmetic. Narrower ones are storage: rounding to them is what a model means."""


class Judge(Protocol):
    """Who is asked about a tensor that is out of tolerance."""

    def judged(
        self, error: TensorError, origin: Origin, actual: np.ndarray, mode: str
    ) -> TensorError:
        """The error, with `as_exact` where it is none."""
        ...


@dataclass(frozen=True)
class Neighbours:
    """Where numbers are expected that were computed alike and then stored narrow: within the
    tolerance of one another, two of them may be rounded to neighbours."""

    expected: Values
    tolerance: float
    rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of tensors that are stored as bytes with a scale for each row, the axis of the rows and how
    many a call adds."""

    def judged(
        self, error: TensorError, origin: Origin, actual: np.ndarray, mode: str
    ) -> TensorError:
        """Off by at most a step of the type, where that is coarser than the tolerance."""
        known = self.expected.get(origin.key)
        if known is not None and origin.tensor in self.rows and not origin.steps:
            tied = are_ties_of_rows(actual, known, *self.rows[origin.tensor], self.tolerance)
            return replace(error, as_exact=tied)
        size = 0.0 if known is None else step(known.dtype)
        if size <= self.tolerance:
            return error
        return replace(error, as_exact=error.max_relative <= self.tolerance + size)


@dataclass
class ExactReference:
    """Tensors of the source model in float64, computed when first asked for."""

    model: SourceModel
    imported: Snapshot
    """The program before any pass."""
    inputs: Values
    oracle: Values
    """The oracle's tensors by their names in the source model."""
    tolerance: float

    def judged(
        self, error: TensorError, origin: Origin, actual: np.ndarray, mode: str
    ) -> TensorError:
        """The error with its distance from float64, where it is out of tolerance and that is known.

        `mode`: accumulated, or isolated: then every operation is fed the oracle's values here too.
        """
        if error.max_relative <= self.tolerance or self.refusal:
            return error
        tensors = self._isolated if mode == "isolated" else self._accumulated
        if origin.tensor not in tensors:
            return error
        exact = np.asarray(origin.apply(tensors[origin.tensor]))
        oracle = np.asarray(origin.apply(self.oracle[origin.tensor]))
        reachable = tensor_error("", "", oracle, exact).max_relative
        coarse = max(step(oracle.dtype), self._steps.get(origin.tensor, 0.0))
        if coarse > self.tolerance:
            reachable = max(reachable, coarse / 2)
        if mode != "isolated":
            rounded = np.asarray(origin.apply(self._rounded[origin.tensor]))
            reachable = max(reachable, tensor_error("", "", rounded, exact).max_relative)
        ours = tensor_error("", "", actual, exact).max_relative
        return with_exact(error, ours, reachable, self.tolerance)

    @cached_property
    def refusal(self) -> str:
        """Why the float64 run cannot be trusted; empty where it can."""
        bitcasts = [op for op in self.imported.program.walk() if isinstance(op, BitcastOp)]
        seen = [element_type_of(v) for op in bitcasts for v in (op.input, op.output)]
        if any(isinstance(kind, AnyFloat) for kind in seen):
            return "the model looks at the bits of floats"
        try:
            off = [name for name, array in self._isolated.items() if self._is_off(name, array)]
        except ExplorerError as error:  # a meaning that is bound to its float type
            return f"the model has no run in float64: {error.message}"
        results = {name: self._isolated[name] for name in off}
        return uncertified(self.model, self.inputs, self.oracle, results)

    def _is_off(self, name: str, array: np.ndarray) -> bool:
        return not tensor_error("", "", array, self.oracle[name]).max_relative <= self.tolerance

    @cached_property
    def _accumulated(self) -> Values:
        return self._run({})

    @cached_property
    def _rounded(self) -> Values:
        """The imported program in its own types: every tensor is rounded once.

        A second run beside the oracle's that is right in each step, and so a second sample of how
        exact these types can be where errors travel. Single steps have no such excuse.
        """
        return self._by_tensor(self.imported.run(self.inputs))

    @cached_property
    def _isolated(self) -> Values:
        values = expected_values(self.imported, self.oracle)
        return self._run({name: _wide(array) for name, array in values.items()})

    @cached_property
    def _steps(self) -> Mapping[str, float]:
        """Of tensors that a cast from a narrower float made, moved or not, that float's step: they
        have no other numbers, whatever their type."""
        found: dict[SSAValue, float] = {}
        for op in self.imported.walked:
            is_cast = isinstance(op, CastOp) and isinstance(element_type_of(op.input), _ROUNDED)
            if not is_cast and not (isinstance(op, KeepsNumbers) and op.keeps_numbers):
                continue
            coarse = max((found.get(operand, 0.0) for operand in op.operands), default=0.0)
            if is_cast:
                coarse = max(coarse, step(numpy_dtype(element_type_of(op.operands[0]))))
            found.update(dict.fromkeys(op.results, coarse))
        origins = self.imported.origins
        named = {value_name(value): coarse for value, coarse in found.items() if coarse}
        return {origins[n].tensor: coarse for n, coarse in named.items() if n in origins}

    def _run(self, fed: Values) -> Values:
        inputs = {name: _wide(array) for name, array in self.inputs.items()}
        return self._by_tensor(evaluate_module(self._program, self._weights, inputs, None, fed))

    def _by_tensor(self, values: Values) -> Values:
        return {
            origin.tensor: values[name]
            for name, origin in self.imported.origins.items()
            if origin.tensor in self.oracle and not origin.steps
        }

    @cached_property
    def _program(self) -> ModuleOp:
        return widened_program(self.imported.program)

    @cached_property
    def _weights(self) -> Weights:
        program, weights = self.imported.program, self.imported.weights
        used = {op.weight.data for op in program.walk() if isinstance(op, WeightOp)}
        return Weights({name: _wide(weights[name]) for name in sorted(used)})


def step(dtype: np.dtype) -> float:
    """The distance of neighbouring numbers of a float type, relative to them; 0 for integers."""
    if not is_float_dtype(dtype):
        return 0.0
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def _wide(array: np.ndarray) -> np.ndarray:
    is_rounded = is_float_dtype(array.dtype) and array.dtype.itemsize in (2, 4)
    return array.astype(np.float64) if is_rounded else array


def expected_values(snapshot: Snapshot, reference: Values) -> dict[str, np.ndarray]:
    """What every value with an origin should be: the source tensor in the value's form.

    That is the stored numbers where a tensor of floats was quantized.
    """
    expected = {}
    for name, origin in snapshot.origins.items():
        found = origin.found_in(reference)
        if found is not None:
            array = np.asarray(found, order="C")
            kind = snapshot.quantized.get(name)
            expected[name] = array if kind is None else as_stored(array, kind)
    return expected


def as_stored(array: np.ndarray, kind: QuantizedType) -> np.ndarray:
    """The integers that stand for real numbers; what is stored already stays as it is."""
    return stored_array(array, kind) if is_float_dtype(array.dtype) else array


def widened_program(program: ModuleOp) -> ModuleOp:
    """A copy of a program of level `top` in which every float of arithmetic is a float64."""
    copy = copy_operation(program)
    for op in copy.walk():
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            _widen_value(value)
        # New dictionaries: a copied operation shares its properties with the original.
        if isinstance(op.properties.get("to"), _ROUNDED):
            op.properties = {**op.properties, "to": Float64Type()}
        if isinstance(op, func.FuncOp):
            op.properties = {**op.properties, "function_type": _wide_signature(op.function_type)}
    return copy


def _widen_value(value: SSAValue) -> None:
    # In place: nobody else has seen the copy yet, and its uses need not be found.
    value._type = _wide_type(value.type)  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


def _wide_type(kind: Attribute) -> Attribute:
    if not isinstance(kind, TensorType) or not isinstance(kind.element_type, _ROUNDED):
        return kind
    return tensor_type(Float64Type(), shape_of(kind), layout_of(kind))


def _wide_signature(signature: FunctionType) -> FunctionType:
    return FunctionType.from_lists(
        [_wide_type(kind) for kind in signature.inputs],
        [_wide_type(kind) for kind in signature.outputs],
    )
