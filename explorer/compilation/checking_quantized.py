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
computes floats, and equals it within the tolerance. So does `compute-in-integers` where rows become
bytes that are multiplied with weights in blocks (`quantize-rows`), and `narrow-past` where rows of
a past are stored in fewer bytes.

A model that arrives quantized has integers of its own. Where the target scales by another scheme
than the file states (`choose-scheme`), or by powers of two (`round-scales`), they become others:

    passes before that                against the source, integers bit by bit
    choose-scheme                     operation by operation against the source, but for ties of
                                      rounding: a step in few places (`accuracy/steps.py`)
    every later pass, the binary      against the NumPy meaning of the program, bit by bit
    the outputs                       against the source: measured, not judged

What is right about integers is decided by the program behind `compute-in-integers`, on targets
without floats behind `compute-without-floats`: from there on no rounding is anybody's choice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from explorer.accuracy.comparison import ISOLATED, Subject, with_outputs
from explorer.accuracy.exact import ExactReference, Judge, Neighbours
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.accuracy.stages import quantization_errors
from explorer.accuracy.steps import MAX_TIES
from explorer.accuracy.ties import OUTPUT, Values
from explorer.compilation.data.judging import output_kinds
from explorer.ir.evaluation import entry_function, outputs_by_name
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.passes import PassResult
from explorer.ir.top.quantization.quantized import DequantizeOp, RequantizeOp
from explorer.ir.top.support.quantized_scalars import real_array
from explorer.ir.types import QuantizedType, is_float_dtype
from explorer.ir.valid_length import length_of
from explorer.passes import QUANTIZATION
from explorer.passes.quantize.rules.pairs import ChooseScheme
from explorer.passes.quantize.rules.quantize_rows import QuantizeRows
from explorer.passes.states.narrow_past import NarrowPast, stored_types
from explorer.quantization.corrections.correct_bias import CorrectBias
from explorer.quantization.corrections.moments import Linear
from explorer.quantization.corrections.round_weights import RoundWeights
from explorer.quantization.quantize_tensors import QuantizeTensors
from explorer.quantization.quantize_weights import QuantizeWeights
from explorer.quantization.round_scales import RoundScales
from explorer.results import AccuracyReport, CostliestLayer, PassAccuracy, TensorDetail, TensorError

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled


class Compared(Protocol):
    """Compares subjects with tensors; `may_tie`: of which rounding may go either way, all of them
    where it is None; `most_ties`: for what share of their elements."""

    def __call__(
        self,
        subjects: Sequence[Subject],
        expected: Values,
        exact: Judge | None,
        may_tie: Collection[str] | None = None,
        most_ties: float = MAX_TIES,
    ) -> AccuracyReport: ...


TOLERATED = 1 + 1e-5
"""Steps that the literal pairs may be off by."""
QUANTIZING = (QuantizeTensors.name, QuantizeWeights.name, RoundScales.name)
"""Passes that quantize, or do so more coarsely: a program has one of them, if any."""
CHOOSING = tuple(kind.name for kind in QUANTIZATION)
"""Passes that choose how a model's own integers are scaled."""
CHOOSE, ROWS = ChooseScheme().name, QuantizeRows().name
"""The rules that do: how integers are scaled, and rows of products with weights in blocks."""
ROUNDED_SCALES = (
    "scales are powers of two, coarser than the file's, so that requantizations are shifts: all "
    "passes are held to the program with these scales"
)
"""What `round-scales` makes of a model that arrives quantized."""
ROUNDED_ROWS = "rows as bytes in blocks, where they are multiplied with weights in blocks"
TWICE_ROUNDED = 0.25
"""Share of numbers that a scheme of two roundings, the second of a bit, has a step beside those of
one: fractions from a quarter to a half are rounded up to a half first. Truncation has half of all.
"""
LOSSY = (RoundWeights.name, CorrectBias.name, QuantizeWeights.name)
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
    is_measured: bool
    """Whether the values between are not judged: integers are scaled by powers of two, whatever the
    ratios of scales are, or rows become bytes later."""
    changed_scheme: str = ""
    """How the target scales, and how the file says it, where these differ: the pass `first`
    changes it then. Empty elsewhere."""
    source_ties: Collection[str] | None = None
    """Tensors of the source of which rounding may go either way; all of them where it is None."""
    rounded: str = ""
    """What is quantized besides weights, where no integers are compared."""
    has_integers: bool
    """Whether anything is computed in integers: not where weights alone are quantized."""
    outputs: Mapping[str, QuantizedType] = field(default_factory=dict)
    """Scales of outputs that the source stores as integers."""

    @staticmethod
    def of(
        compilation: Compiled,
        inputs: Values,
        floats: Values,
        source_ties: Collection[str] | None = None,
    ) -> QuantizedReference:
        names = compilation.names
        quantizing = quantizing_pass(compilation)
        assert quantizing is not None
        first = names.index(quantizing)
        # Whoever leaves the integers out has the pairs for a meaning, and weights alone make none.
        deciding = [kind.name for kind in QUANTIZATION if kind.name in names]
        has_bytes = any(map(quantizes_rows, compilation.passes))
        narrowed = NarrowPast.name if narrows_past(compilation) else ""
        scheme_change = _changed_scheme_at(compilation, first)
        is_of_weights = quantizing in (QuantizeWeights.name, narrowed) or (
            has_bytes and not scheme_change
        )
        is_first = is_of_weights and not has_bytes
        meaning = names.index(deciding[-1]) if deciding and not is_first else first
        snapshot = compilation.passes[meaning].after
        values = snapshot.run(inputs)
        scheme = compilation.target.requantization
        return QuantizedReference(
            inputs=inputs,
            floats=floats,
            integers=real_tensors(snapshot, values, floats),
            corrected=min(names.index(n) for n in (*LOSSY, names[first], narrowed) if n in names),
            first=first,
            meaning=meaning,
            is_measured=has_bytes or (scheme is not None and scheme.scheme == SHIFT),
            changed_scheme=scheme_change,
            source_ties=source_ties,
            rounded=" and ".join(_rounded_words(compilation, has_bytes)),
            has_integers=not is_of_weights,
            outputs=output_kinds(compilation),
        )

    def expected_at(self, index: int) -> Values:
        """The tensors that the program behind a pass is compared with."""
        is_chosen = bool(self.changed_scheme) and index <= self.meaning
        return self.floats if index < self.corrected or is_chosen else self.integers

    def ties_at(self, index: int) -> Collection[str] | None:
        """Tensors of which rounding may go either way in the program behind a pass; None: all."""
        if not self.changed_scheme:
            return None
        if index < self.first:
            return self.source_ties
        return None if index <= self.meaning else ()

    def most_ties_at(self, index: int) -> float:
        """Share of a tensor's elements that may differ by a step in the program behind a pass."""
        is_chosen = bool(self.changed_scheme) and self.first <= index <= self.meaning
        return TWICE_ROUNDED if is_chosen else MAX_TIES


def quantizing_pass(compilation: Compiled) -> str | None:
    """The pass from which on what is computed is not what the source computes."""
    for result in compilation.passes:
        if result.name in QUANTIZING and (result.name != RoundScales.name or result.changed):
            return result.name
    changed = (
        r.name
        for r in compilation.passes
        if r.name in CHOOSING and (changed_scheme(r) or quantizes_rows(r))
    )
    narrowed = NarrowPast.name if narrows_past(compilation) else None
    return next(changed, narrowed)


def narrows_past(compilation: Compiled) -> bool:
    """Whether rows of a past are stored in fewer bytes than the source has."""
    return bool(stored_types(compilation.final.program))


def meaning_of_stored(compilation: Compiled) -> Snapshot | None:
    """The program that says what is right of rows that are stored in fewer bytes, and of rows of
    products that are rounded after that; None where the source says it."""
    if not narrows_past(compilation):
        return None
    later = [r for r in compilation.passes if r.name == NarrowPast.name or quantizes_rows(r)]
    return later[-1].after


def _rounded_words(compilation: Compiled, has_bytes: bool) -> list[str]:
    found = [f"rows of the past as {kind}" for kind in stored_types(compilation.final.program)]
    return found + ([ROUNDED_ROWS] if has_bytes else [])


def quantizes_rows(result: PassResult) -> bool:
    """Whether a pass makes bytes of rows that weights in blocks are multiplied with."""
    return any(rewrite.rule == ROWS and rewrite.applied for rewrite in result.rewrites)


def _changed_scheme_at(compilation: Compiled, index: int) -> str:
    """See `changed_scheme`; empty of passes that quantize."""
    result = compilation.passes[index]
    return changed_scheme(result) if result.name in CHOOSING else ""


def changed_scheme(result: PassResult) -> str:
    """How a pass scales integers that the file scales in another way; empty where it does not."""
    before, after = result.before.operations, result.after.operations
    for rewrite in result.rewrites:
        op = before.get(rewrite.site)
        if rewrite.rule != CHOOSE or not rewrite.applied or not isinstance(op, RequantizeOp):
            continue
        if op.by.how.scheme != "float":
            made = (after.get(record.identity) for record in rewrite.added)
            own = next((m.by.how for m in made if isinstance(m, RequantizeOp)), None)
            return f"{own} instead of the file's {op.by.how}"
    return ""


def real_tensors(snapshot: Snapshot, values: Values, source: Values) -> dict[str, np.ndarray]:
    """Tensors of the source, as the program has them, in real numbers; outputs by their names.

    `source`: the tensors themselves, of which shapes are taken.
    """
    found = dict(outputs_by_name(snapshot.program, values))
    for name, origin in snapshot.origins.items():
        if name not in values:
            continue
        real = real_value(snapshot, name, values[name])
        known = source.get(origin.tensor)
        shape = real.shape if known is None else known.shape
        restored = origin.undone(real, shape) if known is not None or origin.only_scaled else None
        if restored is not None:
            found[origin.key] = restored
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
    if reference.changed_scheme:
        return _check_scheme(reference, subjects, compared, exact)
    corrected, first, meaning = reference.corrected, reference.first, reference.meaning
    judged = meaning if reference.is_measured else first
    before = compared(subjects[:corrected], reference.floats, exact)
    literal = [
        in_steps(compared([subject], reference.integers, None), subject)
        for subject in subjects[judged:meaning]
    ]
    neighbours = Neighbours(reference.integers, before.tolerance, _rows_as_bytes(subjects[-1]))
    behind = compared(subjects[meaning:], reference.integers, neighbours)
    behind = _with_details_behind(before.details, behind)
    parts = [before, *literal, behind]
    against = tuple(against_float(subject, reference) for subject in subjects[corrected:])
    measured = [PassAccuracy(s.name, "accumulated", ()) for s in subjects[corrected:judged]]
    bit_exact = None
    if reference.has_integers:
        bit_exact = all(is_bit_exact(behind, subject) for subject in subjects[meaning:])
    by_layer, is_rounded = None, subjects[first].name == RoundScales.name
    if not is_rounded and subjects[first].name != NarrowPast.name:
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
        integers_from=RoundScales.name if is_rounded else "",
        integers_note=ROUNDED_SCALES if is_rounded else "",
        rounded=reference.rounded,
        float_outputs=float_outputs(subjects[-1], reference, behind.outputs),
        quantization=by_layer,
        bit_exact=bit_exact,
    )


def _rows_as_bytes(subject: Subject) -> dict[str, tuple[int, int]]:
    """The axis of rows that are stored as bytes, and how many a call adds, by output."""
    length = length_of(entry_function(subject.snapshot.program))
    if length is None:
        return {}
    return {value.name: (value.axis, length.rows) for value in length.outputs if value.scale}


def _check_scheme(
    reference: QuantizedReference,
    subjects: Sequence[Subject],
    compared: Compared,
    exact: ExactReference | None,
) -> AccuracyReport:
    """Of integers that the target scales in another way than the file states."""
    first, meaning = reference.first, reference.meaning
    before, chosen, behind = (
        compared(
            subjects[start:end],
            reference.expected_at(start),
            judge,
            reference.ties_at(start),
            most_ties,
        )
        for start, end, judge, most_ties in (
            (0, first, exact, MAX_TIES),
            (first, meaning + 1, exact, TWICE_ROUNDED),
            (meaning + 1, len(subjects), None, MAX_TIES),
        )
    )
    chosen = _without_details(chosen)
    behind = _with_details_behind(before.details, behind)
    parts = (before, chosen, behind)
    return replace(
        behind,
        passes=tuple(p for part in parts for p in part.passes),
        isolated=tuple(p for part in parts for p in part.isolated),
        passed=all(part.passed for part in parts),
        problem=next((part.problem for part in parts if part.problem), ""),
        details_left_out=before.details_left_out + behind.details_left_out,
        float_outputs=float_outputs(subjects[-1], reference, behind.outputs),
        bit_exact=all(is_bit_exact(behind, subject) for subject in subjects[meaning + 1 :]),
        integers_from=subjects[first].name,
        integers_note=f"integers are scaled by {reference.changed_scheme}: each operation, fed the "
        f"source's values, differs by ties of rounding alone{_ties_in(chosen)}; every later pass "
        "is held to these integers",
    )


def _ties_in(report: AccuracyReport) -> str:
    """How many elements differ by a step, of the last pass that was compared with the source."""
    counts = [tie.elements for tie in report.isolated[-1].near_ties]
    return f" (one step in {sum(counts):,} elements of {len(counts)} tensors)" if counts else ""


def _without_details(report: AccuracyReport) -> AccuracyReport:
    """The errors alone, for a report that has details of other passes."""

    def plain(accuracy: PassAccuracy) -> PassAccuracy:
        return replace(accuracy, tensors=tuple(replace(t, detail=None) for t in accuracy.tensors))

    passes, isolated = map(plain, report.passes), map(plain, report.isolated)
    return replace(report, passes=tuple(passes), isolated=tuple(isolated), details=())


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
    """The outputs of the last subject against the source's, in the numbers that they stand for."""
    inputs = reference.inputs
    values = with_outputs(subject.snapshot, inputs, subject.run(inputs, {}))
    found = []
    for output in outputs:
        key = f"{OUTPUT}{output.tensor}"
        if key in values and output.tensor in reference.floats:
            own, wanted = values[key], reference.floats[output.tensor]
            kind = reference.outputs.get(output.tensor)
            if kind is not None and {own.dtype.kind, wanted.dtype.kind} <= set("iu"):
                own, wanted = real_array(own, kind), real_array(wanted, kind)
            found.append(tensor_error(output.tensor, output.operation, own, wanted))
    return tuple(found)


def is_bit_exact(report: AccuracyReport, subject: Subject) -> bool:
    """Whether all quantized tensors of a subject are the expected ones, where errors travel."""
    quantized = subject.snapshot.quantized
    accuracy = next(p for p in report.passes if p.name == subject.name)
    return all(t.max_relative == 0 for t in accuracy.tensors if t.operation in quantized)
