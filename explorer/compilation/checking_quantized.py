"""Checking a float model that was quantized: against two references.

    passes before the quantization    against the float source, within the tolerance; but for what
                                      corrects it (`LOSSY`): floats that are wrong on purpose, so
                                      that integers are right
    quantize-tensors                  operation by operation against the integers that are made of
                                      it, within one step: the order of multiplication is another
    every later pass, the binary      against the NumPy meaning of the quantized program; what is
                                      quantized bit by bit, floats within the tolerance
    all from the quantization on      against the float source in real numbers: measured, not judged

Where sums are scaled by shifts alone, ratios of scales become powers of two in the integers, and
what is literally quantized has others: it is measured like what corrects floats, not judged.

Where weights alone are quantized, the pass that does it says the meaning itself: every later one
computes floats, and equals it within the tolerance.

What is right about integers is decided by the program behind `compute-in-integers`, on targets
without floats behind `compute-without-floats`: from there on no rounding is anybody's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from explorer.accuracy.comparison import ISOLATED, Subject, with_outputs
from explorer.accuracy.exact import ExactReference, Judge, Neighbours
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.accuracy.stages import quantization_errors
from explorer.accuracy.ties import OUTPUT, Values
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.ir.top.support.quantized_scalars import real_array
from explorer.ir.types import is_float_dtype
from explorer.passes import QUANTIZATION
from explorer.quantization.corrections.correct_bias import CorrectBias
from explorer.quantization.corrections.moments import Linear
from explorer.quantization.corrections.round_weights import RoundWeights
from explorer.quantization.quantize_tensors import QuantizeTensors
from explorer.quantization.quantize_weights import QuantizeWeights
from explorer.quantization.round_scales import RoundScales
from explorer.results import AccuracyReport, CostliestLayer, PassAccuracy, TensorDetail, TensorError

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled

Compared = Callable[[Sequence[Subject], Values, "Judge | None"], AccuracyReport]
TOLERATED = 1 + 1e-5
"""Steps that the literal pairs may be off by."""
QUANTIZING = (QuantizeTensors.name, QuantizeWeights.name, RoundScales.name)
"""Passes that quantize, or do so more coarsely: a program has one of them, if any."""
LOSSY = (RoundWeights.name, CorrectBias.name)
"""Passes that change what floats are."""
SHIFT = "shift"
"""Scheme of requantization that has no multipliers."""
FLOAT = "float"
"""Mode of the comparison with the float source."""


@dataclass(frozen=True, kw_only=True)
class QuantizedReference:
    """What is right before and behind the quantization."""

    inputs: Values
    floats: Values
    """Tensors of the float source."""
    integers: Values
    """Tensors of the quantized program, in real numbers, by the same names."""
    corrected: int
    """Number of the first pass behind which floats are not the source's any more."""
    first: int
    """Number of the pass that quantizes."""
    meaning: int
    """Number of the pass whose program says what integers are right."""
    rounds_ratios: bool
    """Whether integers are scaled by powers of two, whatever the ratios of scales are."""
    has_integers: bool
    """Whether anything is computed in integers: not where weights alone are quantized."""

    @staticmethod
    def of(compilation: Compiled, inputs: Values, floats: Values) -> QuantizedReference:
        names = compilation.names
        quantizing = quantizing_pass(compilation)
        assert quantizing is not None
        first = names.index(quantizing)
        # Whoever leaves the integers out has the pairs for a meaning, and weights alone make none.
        deciding = [kind.name for kind in QUANTIZATION if kind.name in names]
        is_of_weights = quantizing == QuantizeWeights.name
        meaning = names.index(deciding[-1]) if deciding and not is_of_weights else first
        snapshot = compilation.passes[meaning].after
        values = snapshot.run(inputs)
        scheme = compilation.target.requantization
        return QuantizedReference(
            inputs=inputs,
            floats=floats,
            integers=real_tensors(snapshot, values),
            corrected=min(names.index(name) for name in (*LOSSY, names[first]) if name in names),
            first=first,
            meaning=meaning,
            rounds_ratios=scheme is not None and scheme.scheme == SHIFT,
            has_integers=not is_of_weights,
        )

    def expected_at(self, index: int) -> Values:
        """The tensors that the program behind a pass is compared with."""
        return self.floats if index < self.corrected else self.integers


def quantizing_pass(compilation: Compiled) -> str | None:
    """The pass from which on what is computed is not what the source computes."""
    for result in compilation.passes:
        if result.name in QUANTIZING and (result.name != RoundScales.name or result.changed):
            return result.name
    return None


def real_tensors(snapshot: Snapshot, values: Values) -> dict[str, np.ndarray]:
    """Tensors of the source, as the program has them, in real numbers; outputs by their names."""
    found = dict(outputs_by_name(snapshot.program, values))
    for name, origin in snapshot.origins.items():
        if name in values and origin.only_scaled:
            found[origin.key] = real_value(snapshot, name, values[name])
    return found


def real_value(snapshot: Snapshot, name: str, array: np.ndarray) -> np.ndarray:
    """The numbers that a value stands for."""
    kind = snapshot.quantized.get(name)
    return array if kind is None else real_array(array, kind)


def check_quantized(
    reference: QuantizedReference,
    subjects: Sequence[Subject],
    compared: Compared,
    exact: ExactReference | None,
    costliest: CostliestLayer | None = None,
) -> AccuracyReport:
    """One report of all three comparisons; its verdict is that of the first two."""
    corrected, first, meaning = reference.corrected, reference.first, reference.meaning
    judged = meaning if reference.rounds_ratios else first
    before = compared(subjects[:corrected], reference.floats, exact)
    literal = [
        in_steps(compared([subject], reference.integers, None), subject)
        for subject in subjects[judged:meaning]
    ]
    neighbours = Neighbours(reference.integers, before.tolerance)
    behind = compared(subjects[meaning:], reference.integers, neighbours)
    behind = _with_details_behind(before.details, behind)
    parts = [before, *literal, behind]
    against = tuple(against_float(subject, reference) for subject in subjects[corrected:])
    measured = [PassAccuracy(s.name, "accumulated", ()) for s in subjects[corrected:judged]]
    bit_exact = None
    if reference.has_integers:
        bit_exact = all(is_bit_exact(behind, subject) for subject in subjects[meaning:])
    by_layer = None
    if subjects[first].name != RoundScales.name:
        by_layer = quantization_errors(
            subjects[first - 1].snapshot, subjects[first].snapshot, reference.inputs
        )
        by_layer = replace(by_layer, costliest=costliest)
    return replace(
        behind,
        passes=(*before.passes, *measured, *(p for part in parts[1:] for p in part.passes)),
        isolated=(
            *before.isolated,
            *(replace(p, mode=ISOLATED) for p in measured),
            *(p for part in parts[1:] for p in part.isolated),
        ),
        passed=all(part.passed for part in parts),
        problem=next((part.problem for part in parts if part.problem), ""),
        details_left_out=before.details_left_out + behind.details_left_out,
        against_float=against,
        float_outputs=float_outputs(subjects[-1], reference, behind.outputs),
        quantization=by_layer,
        bit_exact=bit_exact,
    )


def _with_details_behind(
    others: tuple[TensorDetail, ...], report: AccuracyReport
) -> AccuracyReport:
    """The report with its details behind those of another one."""

    def moved(accuracy: PassAccuracy) -> PassAccuracy:
        tensors = (
            t if t.detail is None else replace(t, detail=t.detail + len(others))
            for t in accuracy.tensors
        )
        return replace(accuracy, tensors=tuple(tensors))

    return replace(
        report,
        passes=tuple(map(moved, report.passes)),
        isolated=tuple(map(moved, report.isolated)),
        details=(*others, *report.details),
    )


def in_steps(report: AccuracyReport, subject: Subject) -> AccuracyReport:
    """Of the literal pairs: each operation by itself may be off by a step of what it makes."""
    isolated = tuple(
        replace(p, tensors=tuple(_in_steps(t, report.tolerance, subject) for t in p.tensors))
        for p in report.isolated
    )
    together = tuple(replace(p, mode="accumulated") for p in isolated)
    passed = all(is_right(t, report.tolerance) for p in isolated for t in p.tensors)
    return replace(report, passes=together, isolated=isolated, passed=passed, problem="")


def _in_steps(error: TensorError, tolerance: float, subject: Subject) -> TensorError:
    """Stored numbers may differ by 1, what is dequantized of them by a scale, and the sums of a
    product by half of theirs: its bias becomes a whole number of them."""
    if error.max_relative <= tolerance:
        return replace(error, detail=None)
    snapshot = subject.snapshot
    most = TOLERATED if error.operation in snapshot.quantized else 0.0
    op = snapshot.operations.get(error.operation)
    if isinstance(op, DequantizeOp) and op.parameters.is_per_tensor:
        most = TOLERATED * float(op.parameters.scale_array[0])
    if isinstance(op, Linear) and op.bias is not None:
        of_reference = error.max_absolute / error.max_relative
        most = TOLERATED * _scale_of_sums(op) / 2 + tolerance * of_reference
    return replace(error, as_exact=error.max_absolute <= most, detail=None)


def _scale_of_sums(op: Linear) -> float:
    """The largest scale of the sums of a product of dequantized operands; 0 of others."""
    index, _ = op.quantized_weight()
    pairs = [op.operands[0].owner, op.operands[index].owner]
    scales = [float(p.parameters.scale_array.max()) for p in pairs if isinstance(p, DequantizeOp)]
    return scales[0] * scales[1] if len(scales) == len(pairs) else 0.0


def against_float(subject: Subject, reference: QuantizedReference) -> PassAccuracy:
    """Every tensor in real numbers against the float source."""
    values = subject.run(reference.inputs, {})
    snapshot = subject.snapshot
    errors = []
    for name, origin in snapshot.origins.items():
        source = reference.floats.get(origin.tensor)
        if name in values and source is not None and is_float_dtype(source.dtype):
            real = real_value(snapshot, name, values[name])
            wanted = np.asarray(origin.apply(source))
            errors.append(tensor_error(origin.tensor, name.split(".")[0], real, wanted))
    return PassAccuracy(subject.name, FLOAT, tuple(errors))


def float_outputs(
    subject: Subject, reference: QuantizedReference, outputs: Sequence[TensorError]
) -> tuple[TensorError, ...]:
    """The outputs of the last subject against the float source's."""
    inputs = reference.inputs
    values = with_outputs(subject.snapshot, inputs, subject.run(inputs, {}))
    found = []
    for output in outputs:
        key = f"{OUTPUT}{output.tensor}"
        if key in values and output.tensor in reference.floats:
            wanted = reference.floats[output.tensor]
            found.append(tensor_error(output.tensor, output.operation, values[key], wanted))
    return tuple(found)


def is_bit_exact(report: AccuracyReport, subject: Subject) -> bool:
    """Whether all quantized tensors of a subject are the expected ones, where errors travel."""
    quantized = subject.snapshot.quantized
    accuracy = next(p for p in report.passes if p.name == subject.name)
    return all(t.max_relative == 0 for t in accuracy.tensors if t.operation in quantized)
