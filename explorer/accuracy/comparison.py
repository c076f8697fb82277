"""Comparing a compilation with its source model: after every pass, every tensor, in two modes.

accumulated   the program is run as it is: errors travel, as they do in use
isolated      every operation is fed the reference's values: an error shows where it is made

    report = compare(subjects, reference, tolerance)       -> results.AccuracyReport

A tensor that is off by more than the tolerance is measured against float64, too, and so is the
oracle's: what is as exact as the oracle is right (`metrics.is_right`).

A subject is a snapshot or a built program; what the two have in common is that they can be run
with all their values read, and with values replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.accuracy.exact import Judge, expected_values
from explorer.accuracy.measuring import MAX_DETAILS, Measurements
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.accuracy.steps import MAX_TIES
from explorer.accuracy.ties import (
    OUTPUT,
    QUANTIZER,
    SEARCHES,
    Tie,
    Values,
    after_ties,
    near_ties,
    returned_values,
)
from explorer.importers.building.code_points import SUFFIX, widened
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.operation import TopOperation
from explorer.ir.origins import Origin
from explorer.ir.padding import as_given
from explorer.ir.program import Snapshot
from explorer.ir.structure import value_name
from explorer.ir.valid_length import length_of
from explorer.results import AccuracyReport, PassAccuracy, TensorError

END_TO_END, ISOLATED = "end_to_end", "isolated"
"""What a verdict rests on: outputs as a user gets them, or, behind a tie, those of operations that
are each fed the reference's values."""

Runner = Callable[[Values, Values], Values]


@dataclass(frozen=True)
class Subject:
    """Something that can be executed and compared: a snapshot, or the binary on its device."""

    name: str
    snapshot: Snapshot
    """Its operations and origins."""
    run: Runner
    """(inputs, replaced values) -> all values by name."""
    is_same_as_before: bool = False
    """The pass changed nothing: the comparison of the one before holds."""


def compare(
    subjects: Sequence[Subject],
    inputs: Values,
    reference: Values,
    outputs: Sequence[tuple[str, str]],
    target: str,
    oracle: str,
    tolerance: float,
    with_isolated: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
    most_details: int = MAX_DETAILS,
    exact: Judge | None = None,
    may_tie: Collection[str] | None = None,
    most_ties: float = MAX_TIES,
) -> AccuracyReport:
    """Runs every subject and compares each value that has an origin.

    `reference`: tensors of the source model by name. `outputs`: (name of the source's output,
    name of the value in the last subject). `most_details`: histograms and worst elements are kept
    of so many tensors, those with the largest errors. `exact`: who is asked about tensors that
    are out of tolerance: the source in float64. `may_tie`: quantized tensors whose rounding may
    go either way, all where it is None; `most_ties`: share of a tensor's elements that may. Passed
    means: something was compared after every pass, all of it right (`is_right`) in both modes, and
    every output of the source was compared. A program's outputs are always compared, whatever
    values it shows besides.
    """
    accumulated: list[PassAccuracy] = []
    isolated: list[PassAccuracy] = []
    final: Values = {}
    searches: dict[str, TopOperation] = {}
    measurements = Measurements(reference, most_details)
    values, apart, ties, tied = {}, {}, (), ()

    def measured(subject: Subject, mode: str, values: Values, ties: Sequence[Tie]) -> PassAccuracy:
        errors = []
        for value in _compared(subject.snapshot, values, expected, reference, ties):
            actual, wanted = equally_wide(value.origin.tensor, values[value.name], value.expected)
            error = measurements.error(value.operation, actual, wanted, value.origin)
            if exact is not None and error.max_relative > tolerance:
                error = exact.judged(error, value.origin, actual, mode)
            errors.append(error)
        records = tuple(tie.record for tie in ties)
        operations = tuple(dict.fromkeys(record.operation for record in records))
        return PassAccuracy(subject.name, mode, tuple(errors), operations, records)

    for number, subject in enumerate(subjects):
        if progress is not None:
            progress(subject.name, number, len(subjects))
        if subject.is_same_as_before and accumulated:
            accumulated.append(replace(accumulated[-1], name=subject.name))
            if with_isolated:
                isolated.append(replace(isolated[-1], name=subject.name))
            continue
        values, apart, untied, final, expected = {}, {}, {}, {}, {}  # of the subject before
        snapshot = subject.snapshot
        told = (*SEARCHES, QUANTIZER)
        searches.update({k: op for k, op in snapshot.operations.items() if op.name in told})
        expected = expected_values(snapshot, reference)
        values = with_outputs(snapshot, inputs, subject.run(inputs, {}))
        ties = near_ties(snapshot, values, expected, searches, may_tie, most_ties)
        if with_isolated:
            apart = with_outputs(snapshot, inputs, subject.run(inputs, expected))
            tied = near_ties(snapshot, apart, expected, searches, may_tie, most_ties)
            names = {tie.value for tie in tied}
            untied = {name: array for name, array in apart.items() if name not in names}
            isolated.append(measured(subject, "isolated", untied, tied))
        final = after_ties(snapshot, values, untied, ties)
        accumulated.append(measured(subject, "accumulated", final, ties))
    judged = Judged(reference, outputs, tolerance)
    compared_outputs = judged.outputs(final, accumulated, tied)
    end_to_end = judged.outputs(values, accumulated) if ties else compared_outputs
    reason = judged.problem(accumulated, isolated, compared_outputs)
    is_right_as_it_is = all(is_right(error, tolerance) for error in end_to_end)
    return AccuracyReport(
        target=target,
        oracle=oracle,
        tolerance=tolerance,
        passes=tuple(measurements.settled(accuracy) for accuracy in accumulated),
        isolated=tuple(measurements.settled(accuracy) for accuracy in isolated),
        outputs=compared_outputs,
        passed=reason is None,
        details=measurements.details,
        details_left_out=measurements.left_out,
        end_to_end=end_to_end,
        isolated_outputs=judged.outputs(apart, isolated, tied) if with_isolated else (),
        rests_on=END_TO_END if is_right_as_it_is else ISOLATED if ties else END_TO_END,
        problem=reason or "",
    )


def with_outputs(snapshot: Snapshot, inputs: Values, values: Values) -> Values:
    """The values, with the program's outputs as `output:NAME`, as built programs have them. An
    output may be an input that is passed on."""
    function = entry_function(snapshot.program)
    length = length_of(function)
    names = zip(function.body.block.args, input_names(function), strict=True)
    known = {value_name(v): inputs[name] for v, name in names if name in inputs} | dict(values)
    found = {}
    for name, value in returned_values(snapshot):
        if (array := known.get(value_name(value))) is not None:
            found[name] = array
    found = found if length is None else as_given(length, found)
    return {**{f"{OUTPUT}{name}": array for name, array in found.items()}, **values}


def equally_wide(
    tensor: str, actual: np.ndarray, expected: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Strings as code points: how many zeros stand behind them means nothing."""
    if not tensor.endswith(SUFFIX) or not actual.ndim == expected.ndim > 0:
        return actual, expected
    places = max(actual.shape[-1], expected.shape[-1])
    return widened(actual, places), widened(expected, places)


@dataclass(frozen=True)
class Compared:
    """A value of a subject, and what it stands for."""

    name: str
    operation: str
    expected: np.ndarray
    origin: Origin


def _compared(
    snapshot: Snapshot, values: Values, expected: Values, reference: Values, ties: Sequence[Tie]
) -> list[Compared]:
    """Values with an origin, in program order, then outputs of the program for which no such value
    stands: a view of another value, an input that is passed on. What is tied is left out, and so is
    a value that the subject does not show (fused away).
    """
    origins = snapshot.origins
    found = [
        Compared(name, name.split(".")[0], expected[name], origins[name])
        for name in expected
        if name in values
    ]
    known = {value.origin.tensor for value in found}
    known |= {origins[tie.value].tensor for tie in ties if tie.value in origins}
    makers = {name: value_name(value).split(".")[0] for name, value in returned_values(snapshot)}
    for key in values:
        name = key.removeprefix(OUTPUT)
        if key.startswith(OUTPUT) and name in reference and name not in known:
            maker = makers.get(name, key)
            found.append(Compared(key, maker, np.asarray(reference[name]), Origin(name)))
    return found


@dataclass(frozen=True)
class Judged:
    """What of the source's outputs can be said, and what a comparison comes to."""

    reference: Values
    names: Sequence[tuple[str, str]]
    """(name of the source's output, name of the value in the last subject)."""
    tolerance: float

    def outputs(
        self, values: Values, passes: Sequence[PassAccuracy], ties: Sequence[Tie] = ()
    ) -> tuple[TensorError, ...]:
        """The errors of all outputs. One that is tied itself is as exact as can be had."""
        tied = {tie.record.tensor for tie in ties}
        errors = []
        for name, value in self.names:
            error = _output_error(name, value, values, self.reference, passes)
            is_tied = name in tied and not is_right(error, self.tolerance) and value in values
            errors.append(replace(error, as_exact=True) if is_tied else error)
        return tuple(errors)

    def problem(
        self,
        accumulated: Sequence[PassAccuracy],
        isolated: Sequence[PassAccuracy],
        outputs: Sequence[TensorError],
    ) -> str | None:
        """None where all is right; what is wrong in words, or "" where a tensor's error says it.

        NaN, which no comparison with <= lets through, is wrong; so is nothing compared.
        """
        everything = [*accumulated, *isolated]
        tensors = [t for p in everything for t in p.tensors]
        if not all(is_right(t, self.tolerance) for t in tensors):
            return ""
        if not everything:
            return "nothing was run, so that nothing could be compared"
        for accuracy in everything:
            if not accuracy.tensors:
                return (
                    f"nothing could be compared after {accuracy.name} ({accuracy.mode}): the "
                    "reference has none of the tensors and outputs that are left there"
                )
        for output, (name, _) in zip(outputs, self.names, strict=True):
            if name not in self.reference:
                return f"output {name} could not be compared: the reference does not have it"
            if not is_right(output, self.tolerance):
                return f"output {name} is off by {output.max_relative:.2g}"
        return None


def _output_error(
    name: str, value: str, values: Values, reference: Values, passes: Sequence[PassAccuracy]
) -> TensorError:
    """The error of an output; where it is what the last pass computed, that is known already."""
    if value not in values or name not in reference:
        return TensorError(
            tensor=name,
            operation=value,
            max_absolute=np.inf,
            max_relative=np.inf,
            cosine=0.0,
            sqnr_db=-np.inf,
        )
    actual, expected = equally_wide(name, values[value], reference[name])
    error = tensor_error(name, value, actual, expected)
    for tensor in passes[-1].tensors if passes else ():
        if tensor.tensor == name and tensor.max_absolute == error.max_absolute:
            distances = {n: getattr(tensor, n) for n in ("from_exact", "reachable", "as_exact")}
            return replace(error, **distances)
    return error
