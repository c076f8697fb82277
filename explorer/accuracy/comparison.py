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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.accuracy.exact import ExactReference, expected_values
from explorer.accuracy.measuring import MOST_DETAILS, Measurements
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.accuracy.ties import QUANTIZER, SEARCHES, Tie, Values, after_ties, near_ties
from explorer.ir.operation import TopOperation
from explorer.ir.program import Snapshot
from explorer.results import AccuracyReport, PassAccuracy, TensorError

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
    most_details: int = MOST_DETAILS,
    exact: ExactReference | None = None,
) -> AccuracyReport:
    """Runs every subject and compares each value that has an origin.

    `reference`: tensors of the source model by name. `outputs`: (name of the source's output,
    name of the value in the last subject). `most_details`: histograms and worst elements are kept
    of so many tensors, those with the largest errors. `exact`: the source in float64, for tensors
    that are out of tolerance. Passed means: something was compared after
    every pass, all of it right (`is_right`) in both modes, and every output of the source was
    compared.
    """
    accumulated: list[PassAccuracy] = []
    isolated: list[PassAccuracy] = []
    final: Values = {}
    searches: dict[str, TopOperation] = {}
    measurements = Measurements(reference, most_details)

    def measured(subject: Subject, mode: str, values: Values, ties: Sequence[Tie]) -> PassAccuracy:
        errors = _errors(values, expected, subject, measurements)
        if exact is not None and any(e.max_relative > tolerance for e in errors):
            errors = tuple(
                exact.judged(e, subject.snapshot.origins[name], values[name], mode)
                for e, name in zip(errors, [n for n in expected if n in values], strict=True)
            )
        records = tuple(tie.record for tie in ties)
        operations = tuple(dict.fromkeys(record.operation for record in records))
        return PassAccuracy(subject.name, mode, errors, operations, records)

    for number, subject in enumerate(subjects):
        if progress is not None:
            progress(subject.name, number, len(subjects))
        if subject.is_same_as_before and accumulated:
            accumulated.append(replace(accumulated[-1], name=subject.name))
            if with_isolated:
                isolated.append(replace(isolated[-1], name=subject.name))
            continue
        snapshot = subject.snapshot
        told = (*SEARCHES, QUANTIZER)
        searches.update({k: op for k, op in snapshot.operations.items() if op.name in told})
        expected = expected_values(snapshot, reference)
        values = subject.run(inputs, {})
        ties = near_ties(snapshot, values, expected, searches)
        untied: Values = {}
        if with_isolated:
            apart = subject.run(inputs, expected)
            tied = near_ties(snapshot, apart, expected, searches)
            names = {tie.value for tie in tied}
            untied = {name: array for name, array in apart.items() if name not in names}
            isolated.append(measured(subject, "isolated", untied, tied))
        final = after_ties(snapshot, values, untied, ties)
        accumulated.append(measured(subject, "accumulated", final, ties))
    compared_outputs = tuple(
        _output_error(name, value, final, reference, accumulated) for name, value in outputs
    )
    passed = _is_within(accumulated, isolated, compared_outputs, tolerance, len(outputs))
    return AccuracyReport(
        target,
        oracle,
        tolerance,
        tuple(measurements.settled(accuracy) for accuracy in accumulated),
        tuple(measurements.settled(accuracy) for accuracy in isolated),
        compared_outputs,
        passed,
        measurements.details,
        measurements.left_out,
    )


def _errors(
    values: Values, expected: Values, subject: Subject, measurements: Measurements
) -> tuple[TensorError, ...]:
    """Errors in program order. A value that the subject does not show (fused away) is left out."""
    origins = subject.snapshot.origins
    return tuple(
        measurements.error(name.split(".")[0], values[name], expected[name], origins[name])
        for name in expected
        if name in values
    )


def _output_error(
    name: str, value: str, values: Values, reference: Values, passes: Sequence[PassAccuracy]
) -> TensorError:
    """The error of an output; where it is what the last pass computed, that is known already."""
    if value not in values or name not in reference:
        return TensorError(name, value, np.inf, np.inf, 0.0, -np.inf)
    error = tensor_error(name, value, values[value], reference[name])
    for tensor in passes[-1].tensors if passes else ():
        if tensor.tensor == name and tensor.max_absolute == error.max_absolute:
            distances = {n: getattr(tensor, n) for n in ("from_exact", "reachable", "as_exact")}
            return replace(error, **distances)
    return error


def _is_within(
    accumulated: Sequence[PassAccuracy],
    isolated: Sequence[PassAccuracy],
    outputs: Sequence[TensorError],
    tolerance: float,
    output_count: int,
) -> bool:
    """Nothing compared is a failure; so is NaN, which no comparison with <= lets through."""
    everything = [*accumulated, *isolated]
    if not accumulated or any(not p.tensors for p in everything) or len(outputs) < output_count:
        return False
    tensors = [t for p in everything for t in p.tensors]
    return all(is_right(t, tolerance) for t in (*tensors, *outputs))
