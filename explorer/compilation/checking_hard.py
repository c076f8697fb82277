"""Checking with inputs that are constructed to break each operation.

    check_hard(compilation)        every operation alone, and some inputs of the whole model
    push(compilation, example)     inputs of the whole model alone, outputs first: cheap

An operation alone is a model of its own, compiled for the same target. The format's reference runs
the same model; the interpreter judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from explorer.accuracy.comparison import Subject, compare
from explorer.accuracy.exact import ExactReference
from explorer.accuracy.execution import TappedProgram
from explorer.accuracy.hard_inputs.documented import documented_of
from explorer.accuracy.hard_inputs.judging import (
    ALL,
    Compiler,
    PartProgram,
    judge_part,
)
from explorer.accuracy.hard_inputs.kinds import HardInput, inputs_of_a_model
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.accuracy.oracle import reference
from explorer.compilation.checking import imported_tensors, outputs_of, source_ties
from explorer.compilation.settings.settings import Progress
from explorer.errors import ModelError
from explorer.importers.model import SourceModel
from explorer.ir.origins import sources_of
from explorer.references.interface import reference_of
from explorer.references.parts import NoPart, Part
from explorer.results import TensorError
from explorer.results.hard import STATES, HardReport, HardVerdict

if TYPE_CHECKING:
    from explorer.compilation.compilation import Compilation

Arrays = Mapping[str, np.ndarray]
_BECOMES = {"infinities": ("NaN",)}


def check_hard(
    compilation: Compilation, tolerance: float = 1e-4, progress: Progress | None = None
) -> HardReport:
    """Judges every operation of the source model alone, and the binary on hard inputs of the model.

    Operations of one form are judged once.
    """
    model = compilation.model
    example = compilation.example_inputs()
    verdicts = push(compilation, example, tolerance)
    values = {**model.constants, **example, **_tensors(compilation, example)}
    forms, left_out = _forms(model, values)
    for number, parts in enumerate(forms):
        if progress is not None:
            progress(f"{parts[0].operator} {parts[0].node}", number, len(forms))
        verdicts += [
            replace(verdict, alike=len(parts))
            for verdict in judge_part(parts[0], _compiler(compilation), tolerance)
        ]
    verdicts += [
        HardVerdict(
            kind=ALL, operator=each.operator, node=each.node, alike=1, state="not judged",
            reason=each.reason,
        )
        for each in left_out
    ]  # fmt: skip
    return report_of(compilation, verdicts, tolerance)


def _tensors(compilation: Compilation, example: Arrays) -> Arrays:
    """Ordinary values of all operands: the imported program's where nobody else runs the model."""
    try:
        return reference(compilation.model, example)
    except ModelError:
        return imported_tensors(compilation.passes[0].after, example)


def report_of(
    compilation: Compilation, verdicts: list[HardVerdict], tolerance: float
) -> HardReport:
    """The broken ones first."""
    return HardReport(
        target=compilation.target.name,
        oracle=reference_of(compilation.model).title_of(compilation.model),
        tolerance=tolerance,
        verdicts=tuple(sorted(verdicts, key=lambda v: STATES.index(v.state))),
    )


def _forms(model: SourceModel, values: Arrays) -> tuple[list[list[Part]], list[NoPart]]:
    """Operations that differ in nothing that counts, together; and those that are not cut out."""
    forms: dict[str, list[Part]] = {}
    left_out = []
    try:
        for part in reference_of(model).parts(model, values):
            if isinstance(part, NoPart):
                left_out.append(part)
            else:
                forms.setdefault(part.form, []).append(part)
    except ModelError as error:
        left_out.append(NoPart(node="", operator="every operation", reason=error.message))
    return list(forms.values()), left_out


def _compiler(compilation: Compilation) -> Compiler:
    """Programs for the target of a compilation."""

    @contextmanager
    def compile(model: SourceModel) -> Iterator[PartProgram]:
        from explorer.compilation.compilation import compile_model

        alone = compile_model(model, compilation.target, tuned=compilation.settings.tuned)
        try:
            yield alone
        finally:
            alone.close()

    return compile


def push(compilation: Compilation, example: Arrays, tolerance: float = 1e-4) -> list[HardVerdict]:
    """The binary on hard inputs of the model: outputs first, all tensors where one is off."""
    try:
        has_special = reference_of(compilation.model).keeps_special
    except ModelError:  # nobody else runs such models
        return []
    hard = inputs_of_a_model(example, has_special)
    with np.errstate(all="ignore"):  # of host parts in NumPy, about infinities
        return [_pushed(compilation, each, tolerance) for each in hard]


def _pushed(compilation: Compilation, hard: HardInput, tolerance: float) -> HardVerdict:
    model = compilation.model
    whole = HardVerdict(
        kind=hard.kind, operator="the model", node="", alike=1, state="right", is_whole=True
    )
    names = [value.name for value in model.outputs]
    try:
        expected = reference(model, hard.arrays, names)
    except ModelError as error:
        return replace(whole, state="not judged", reason=error.message)
    found = compilation.run(hard.arrays)
    errors = [tensor_error(n, n, found[n], expected[n]) for n in expected if n in found]
    if not errors:
        return replace(whole, state="not judged", reason="the reference shows no output")
    if all(is_right(error, tolerance) for error in errors):
        return replace(whole, max_relative=max(error.max_relative for error in errors))
    if compilation.outside_indices(hard.arrays):
        return replace(whole, state="not judged", reason="an index lies outside")
    return _located(compilation, hard, whole, tolerance)


def _located(
    compilation: Compilation, hard: HardInput, whole: HardVerdict, tolerance: float
) -> HardVerdict:
    """Which operation is off, fed with the reference's values."""
    model, final = compilation.model, compilation.final
    wanted = {origin.tensor for origin in final.origins.values()}
    wanted |= {value.name for value in model.outputs}
    expected = reference(model, hard.arrays, sorted(wanted))
    imported = compilation.passes[0].after
    binary = TappedProgram(compilation.executable)
    report = compare(
        [Subject("binary", final, binary.values)],
        hard.arrays,
        expected,
        outputs_of(compilation),
        compilation.target.name,
        "",
        tolerance,
        most_details=0,
        exact=ExactReference(model, imported, hard.arrays, expected, tolerance),
        may_tie=source_ties(compilation),
    )
    if report.passed:
        return whole
    off = [t for p in report.isolated for t in p.tensors if not is_right(t, tolerance)]
    off = off or [t for p in report.passes for t in p.tensors if not is_right(t, tolerance)]
    if not off:
        return replace(whole, state="broken", reason=report.problem)
    found = whole
    operators = {node.name: node.operator for node in model.nodes}
    inner = {node.name: node.inner_operators for node in model.nodes}
    for error in off:
        nodes = sources_of(final.operations[error.operation])
        operator = " ".join(operators[node] for node in nodes if node in operators)
        # Infinity times 0 is NaN, so that one may become the other on the way.
        among = [*operator.split(), *(one for node in nodes for one in inner.get(node, ()))]
        known = documented_of(among, {hard.kind, *_BECOMES.get(hard.kind, ())})
        found = replace(
            whole, operator=operator or "?", node=" ".join(nodes), tensor=error.tensor,
            max_relative=error.max_relative, state="documented" if known else "broken",
            reason=known or _words(error),
        )  # fmt: skip
        if not known:
            return found
    return found


def _words(error: TensorError) -> str:
    place = ", ".join(map(str, error.worst_index))
    if not np.isfinite(error.max_relative):
        return "NaN and infinities do not stand where the reference has them"
    return f"[{place}]: {error.expected_value:g} expected, {error.worst_value:g} found"
