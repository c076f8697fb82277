"""Checking a compilation against its source model, and finding the first fault."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from explorer.accuracy.bisection import Suspect, bisect, first_bad_pass
from explorer.accuracy.comparison import ISOLATED, Runner, Subject, Values, compare
from explorer.accuracy.drawing import how_drawn
from explorer.accuracy.exact import ExactReference, Judge
from explorer.accuracy.execution import CompiledRunner, TappedProgram
from explorer.accuracy.oracle import reference
from explorer.accuracy.steps import MAX_TIES
from explorer.accuracy.ties import OUTPUT
from explorer.compilation.at_sizes import is_smaller, smaller_subject, with_lowest
from explorer.compilation.checking_quantized import (
    QuantizedReference,
    check_quantized,
    quantizing_pass,
)
from explorer.compilation.costliest_layer import costliest_layer
from explorer.compilation.data.attached import GIVEN, FittedData
from explorer.compilation.data.judging import judge_outputs
from explorer.compilation.settings.settings import Progress
from explorer.errors import ModelError
from explorer.importers.format import format_named
from explorer.ir.evaluation import EvaluationCache, outputs_by_name
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Fuel, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import RulePass, Working, run_pass
from explorer.ir.top.data import WeightOp
from explorer.logs import logger
from explorer.references.interface import reference_of
from explorer.results import AccuracyReport, Fault
from explorer.results.accuracy import output_errors
from explorer.results.data import DataRecord
from explorer.results.displayed import Displayed

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled

LOG = logger(__name__)

GOLDEN = "golden tensors"
IMPORTED = "the imported program"


@dataclass(repr=False)
class Accuracy(Displayed):
    """The comparison of a compilation with its source model."""

    report: AccuracyReport
    compilation: Compiled
    inputs: Mapping[str, np.ndarray]
    expected: Values
    exact: ExactReference | None = None
    """The source in float64; None where the reference is no oracle that rounds."""
    quantized: QuantizedReference | None = None
    """What is right from the quantization on."""

    @property
    def passed(self) -> bool:
        return self.report.passed

    def bisect(self) -> Fault | None:
        """The first pass, rule and operation that is wrong; None when everything is right.

        What is found becomes a part of the report, so that traces and pages show it.
        """
        fault = self._find_fault()
        self.report = replace(self.report, fault=fault)
        return fault

    def _find_fault(self) -> Fault | None:
        index = first_bad_pass(self.report)
        if index is None:
            return None
        if index >= len(self.compilation.passes):
            return bisect(self.report, (), None)
        expected = self.quantized.expected_at(index) if self.quantized else self.expected
        result = self.compilation.passes[index]
        suspects = [suspect(r) for r in result.rewrites if r.applied]
        pass_ = self.compilation.pipeline[index - 1] if index else None
        if not isinstance(pass_, RulePass):
            return bisect(self.report, suspects, None)

        def is_right_with(rewrites: int) -> bool:
            working = Working.at(result.before, self.compilation.passes[index - 1].names)
            options = RewriteOptions(self.compilation.settings.decisions, Fuel(rewrites))
            again = run_pass(pass_, working, options).after
            report = compare(
                [Subject("probe", again, snapshot_runner(again, None, None))],
                self.inputs,
                expected,
                outputs_of(self.compilation),
                self.report.target,
                self.report.oracle,
                self.report.tolerance,
                most_details=0,
                exact=self.exact if expected is self.expected else None,
                may_tie=self._ties_at(index),
                most_ties=self.quantized.most_ties_at(index) if self.quantized else MAX_TIES,
            )
            return report.passed

        return bisect(self.report, suspects, is_right_with)

    def _ties_at(self, index: int) -> Collection[str] | None:
        if self.quantized is not None:
            return self.quantized.ties_at(index)
        return source_ties(self.compilation)

    @cached_property
    def summary(self) -> str:
        """One line: the verdict and the worst tensor."""
        report = self.report
        passes = (*report.passes, *report.isolated)
        if report.problem:
            return f"NOT shown to be equal to the source model: {report.problem}"
        errors = [t for p in passes for t in p.tensors]
        worst = max(errors, key=lambda t: t.max_relative, default=None)
        what = "source model"
        if report.oracle_note:
            what = f"program as it was imported ({report.oracle_note})"
        if report.float_outputs:
            what += " up to the quantization, and to the quantized program"
        verdict = f"equal to the {what}" if self.passed else f"NOT equal to the {what}"
        count = len(report.passes)
        text = f"{verdict} after all {count} passes" if count > 1 else f"{verdict} as imported"
        if report.float_outputs:
            text += f", {_quantized_words(report)}"
        if worst is not None:
            text += f", worst tensor {worst.tensor} {worst.max_relative:.1e}"
        exact = {t.tensor for t in errors if t.from_exact is not None}
        if self.passed and report.rests_on == ISOLATED:
            off = max(report.end_to_end, key=lambda t: t.max_relative)
            text += (
                f"; operation by operation: end to end, behind ties, output {off.tensor} is off by "
                f"{off.max_relative:.1e}"
            )
        if self.passed and exact:
            text += f"; {len(exact)} tensors as exact as the oracle, which is itself further off"
        return text


def _quantized_words(report: AccuracyReport) -> str:
    far = report.from_float_words
    if report.bit_exact is None:
        what = report.rounded or "weights"
        return f"{what} quantized: outputs from the float's {far}"
    exact = "equal bit by bit" if report.bit_exact else "NOT equal bit by bit"
    source = "source" if report.integers_from else "float"
    return (
        f"quantized: integers {exact} to the quantized program's, outputs from the {source}'s {far}"
    )


def suspect(rewrite: Rewrite) -> Suspect:
    """What a rewrite made or changed, without weights: these are compared with nothing."""
    added = [r.identity for r in rewrite.added if r.name != WeightOp.name]
    changed = [after.identity for _, after in rewrite.changed]
    operations = tuple(dict.fromkeys([*added, *changed])) or (rewrite.site,)
    return Suspect(rewrite.rule, operations, rewrite.address)


def check(
    compilation: Compiled,
    inputs: Mapping[str, np.ndarray] | None,
    tolerance: float,
    progress: Progress | None,
    golden: Values | None = None,
    data: FittedData | None = None,
) -> Accuracy:
    """Compares every snapshot and the binary on its device with the source model.

    `golden`: tensors by name to compare with instead of the oracle's; empty for those that the
    imported program computes, which tells whether passes and code keep its meaning. These are also
    what a model is compared with that the oracle does not run: the report's `oracle_note` says so.
    `data`: attached to the model. Tensors are compared on their first run, outputs on all.
    """
    begin = time.perf_counter()
    if inputs is not None:
        chosen = dict(inputs)
    else:
        chosen = compilation.example_inputs() if data is None else data.at(0)
    wanted = sorted(
        {o.tensor for r in compilation.passes for o in r.after.origins.values()}
        | {o.name for o in compilation.model.outputs}
    )
    imported = compilation.passes[0].after
    compared_with = _reference(compilation, chosen, wanted, golden)
    oracle, expected = compared_with.name, compared_with.tensors
    exact: ExactReference | None = None
    if compared_with.is_oracle:
        exact = ExactReference(compilation.model, imported, chosen, expected, tolerance)
    cache = EvaluationCache()
    has_own = compilation.backend.executor(compilation.target) is not None
    runner = None if has_own else CompiledRunner()
    binary = TappedProgram(compilation.executable)
    is_quantized = quantizing_pass(compilation) is not None
    # Tensors of a quantized program are compared once more, with the float source's.
    last = binary.values if is_quantized else _releasing(binary, cache, runner)
    subjects = []
    for index, result in enumerate(compilation.passes):
        same = index > 0 and not result.changed
        snapshot = result.after
        run = snapshot_runner(snapshot, cache, runner)
        if not is_quantized:
            run = _forgetting(run, cache)
        if snapshot.level == "memory" and runner is not None:
            # The plan's addresses count: on the processor that is the binary itself.
            run = (
                last
                if compilation.backend.runs_snapshots
                else planned_runner(compilation, snapshot, runner)
            )
        subjects.append(Subject(result.name, snapshot, run, same))
    subjects.append(Subject(f"binary on {compilation.target.name}", compilation.final, last))
    if is_smaller(compilation, chosen):
        subjects = [smaller_subject(compilation)]
    outputs = outputs_of(compilation)

    def compared(
        subjects: Sequence[Subject],
        expected: Values,
        exact: Judge | None,
        may_tie: Collection[str] | None = None,
        most_ties: float = MAX_TIES,
    ) -> AccuracyReport:
        return compare(
            subjects,
            chosen,
            expected,
            outputs,
            compilation.target.name,
            oracle,
            tolerance,
            progress=progress,
            exact=exact,
            may_tie=may_tie,
            most_ties=most_ties,
        )

    quantized = None
    try:
        if len(subjects) > 1 and is_quantized:
            ties = source_ties(compilation)
            quantized = QuantizedReference.of(compilation, chosen, expected, ties)
            costliest = None
            if quantized.has_integers:
                costliest = costliest_layer(compilation, chosen, expected)
            report = check_quantized(quantized, subjects, compared, exact, costliest)
        else:
            report = compared(subjects, expected, exact, source_ties(compilation))
    finally:
        if runner is not None:
            runner.close()
    report = replace(report, oracle_note=compared_with.note)
    seconds = time.perf_counter() - begin
    LOG.info("checked %d passes against %s in %.2f s", len(report.passes), oracle, seconds)
    if inputs is None and golden is None and data is None:
        golden_too = {} if compared_with.note else None

        def at_other_sizes(inputs: Values, names: Sequence[str]) -> Values:
            return _reference(compilation, inputs, names, golden_too).tensors

        report = with_lowest(compilation, report, at_other_sizes)
    report = _judged(compilation, report, inputs is None, data, progress)
    return Accuracy(
        report=report,
        compilation=compilation,
        inputs=chosen,
        expected=expected,
        exact=exact,
        quantized=quantized,
    )


def _judged(
    compilation: Compiled,
    report: AccuracyReport,
    is_drawn: bool,
    data: FittedData | None,
    progress: Progress | None,
) -> AccuracyReport:
    """With the outputs' errors against the source, and the data on which they were measured."""
    if is_drawn and data is not None:
        found = judge_outputs(compilation, data, progress)
        examples = found.runs * data.examples_per_run
        left_out = data.record.left_out + data.record.examples - examples
        record = replace(data.record, examples=examples, left_out=left_out)
        return replace(report, data=record, against_source=found.outputs, task=found.task)
    record = DataRecord(name=GIVEN, examples=1)
    if is_drawn:
        record = DataRecord(drawn=how_drawn(compilation.model, compilation.known))
    return replace(
        report,
        data=record,
        against_source=output_errors(report.float_outputs or report.end_to_end),
    )


@dataclass(frozen=True)
class _Reference:
    """What is right, and who says so."""

    name: str
    tensors: Values
    note: str = ""
    """Why it is not who was asked first."""
    is_oracle: bool = False
    """Another program, which rounds like ours."""


def _reference(
    compilation: Compiled, inputs: Values, wanted: Sequence[str], golden: Values | None
) -> _Reference:
    """The golden tensors; without any the oracle's; the imported program's where these are empty,
    and where the oracle does not load the model, refuses to run it, or dies of it."""
    if golden:
        return _Reference(GOLDEN, dict(golden))
    note = ""
    if golden is None:
        try:
            title = reference_of(compilation.model).title_of(compilation.model)
            tensors = reference(compilation.model, inputs, wanted)
            return _Reference(title, tensors, is_oracle=True)
        except ModelError as error:
            note = error.message
    imported = compilation.passes[0].after
    return _Reference(IMPORTED, imported_tensors(imported, inputs), note)


def source_ties(compilation: Compiled) -> Collection[str] | None:
    """Tensors of the source of which rounding may go either way; None: all of them."""
    if format_named(compilation.model.format).reference is None:
        return None
    return reference_of(compilation.model).may_tie(compilation.model)


def outputs_of(compilation: Compiled) -> list[tuple[str, str]]:
    """Names of the source's outputs, and of the values that they are in a run."""
    length = compilation.program.length
    scales = frozenset() if length is None else length.scales
    return [(n, f"{OUTPUT}{n}") for n in compilation.port_names[1] if n not in scales]


def imported_tensors(imported: Snapshot, inputs: Values) -> Values:
    """The source's tensors as the imported program computes them."""
    values = imported.run(inputs)
    tensors = {
        origin.tensor: values[name]
        for name, origin in imported.origins.items()
        if name in values and not origin.steps
    }
    return {**outputs_by_name(imported.program, values), **tensors}


def snapshot_runner(
    snapshot: Snapshot, cache: EvaluationCache | None, runner: CompiledRunner | None
) -> Runner:
    """How a snapshot is executed: NumPy meanings at level top, generated code below; without a
    runner, as the snapshot itself knows."""
    if snapshot.level == "top" or runner is None:
        return lambda inputs, replaced: snapshot.run(inputs, cache, replaced)
    return lambda inputs, replaced: runner.run(snapshot, inputs, replaced)


def _forgetting(run: Runner, cache: EvaluationCache) -> Runner:
    """The same; what the subjects before the last one computed is dropped when it runs first."""
    has_run = False

    def forgetting(inputs: Values, replaced: Values) -> Values:
        nonlocal has_run
        if not has_run:
            cache.forget_unused()
            has_run = True
        return run(inputs, replaced)

    return forgetting


def _releasing(
    binary: TappedProgram, cache: EvaluationCache, runner: CompiledRunner | None
) -> Runner:
    """The binary, behind which no snapshot runs again: what these have kept is dropped."""

    def releasing(inputs: Values, replaced: Values) -> Values:
        cache.forget_unused()
        if runner is not None:
            runner.close()
        return binary.values(inputs, replaced)

    return releasing


def planned_runner(compilation: Compiled, snapshot: Snapshot, runner: CompiledRunner) -> Runner:
    """The snapshot as C at the addresses of the memory plans."""
    return lambda inputs, replaced: runner.run(snapshot, inputs, replaced, compilation.plans)
