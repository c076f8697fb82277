"""Comparing a compilation with its source model: after every pass, every tensor, in two modes.

accumulated   the program is run as it is: errors travel, as they do in use
isolated      every operation is fed the reference's values: an error shows where it is made

    report = compare(subjects, reference, tolerance)       -> results.AccuracyReport

A subject is a snapshot or a built program; what the two have in common is that they can be run
with all their values read, and with values replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.accuracy.metrics import tensor_error
from explorer.ir.operation import TopOperation
from explorer.ir.origins import Origin
from explorer.ir.program import Snapshot
from explorer.ir.structure import value_name
from explorer.results import AccuracyReport, PassAccuracy, TensorError

Values = Mapping[str, np.ndarray]
Runner = Callable[[Values, Values], Values]
TIE = 1e-5
"""Two candidates of an argmax that are this close, relative to the largest, are a tie."""


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
) -> AccuracyReport:
    """Runs every subject and compares each value that has an origin.

    `reference`: tensors of the source model by name. `outputs`: (name of the source's output,
    name of the value in the last subject). Passed means: something was compared after every pass,
    all of it within the tolerance in both modes, and every output of the source was compared.
    """
    accumulated: list[PassAccuracy] = []
    isolated: list[PassAccuracy] = []
    final: Values = {}
    searches: dict[str, TopOperation] = {}
    for number, subject in enumerate(subjects):
        if progress is not None:
            progress(subject.name, number, len(subjects))
        if subject.is_same_as_before and accumulated:
            accumulated.append(_renamed(accumulated[-1], subject.name))
            if with_isolated:
                isolated.append(_renamed(isolated[-1], subject.name))
            continue
        snapshot = subject.snapshot
        searches.update({k: op for k, op in snapshot.operations.items() if op.name == "top.arg"})
        expected = expected_values(snapshot, reference)
        values = subject.run(inputs, {})
        ties = near_ties(snapshot, values, expected, searches)
        apart: Values = {}
        if with_isolated:
            apart = subject.run(inputs, expected)
            tied = near_ties(snapshot, apart, expected, searches)
            untied = {name: array for name, array in apart.items() if name not in tied}
            isolated.append(
                PassAccuracy(subject.name, "isolated", _errors(untied, expected, subject), tied)
            )
        final = _after_ties(snapshot, values, apart, ties)
        accumulated.append(
            PassAccuracy(subject.name, "accumulated", _errors(final, expected, subject), ties)
        )
    compared_outputs = tuple(
        _output_error(name, value, final, reference) for name, value in outputs
    )
    passed = _is_within(accumulated, isolated, compared_outputs, tolerance, len(outputs))
    return AccuracyReport(
        target, oracle, tolerance, tuple(accumulated), tuple(isolated), compared_outputs, passed
    )


def expected_values(snapshot: Snapshot, reference: Values) -> dict[str, np.ndarray]:
    """What every value with an origin should be: the source tensor in the value's form."""
    expected = {}
    for name, origin in snapshot.origins.items():
        source = reference.get(origin.tensor)
        if source is not None:
            expected[name] = _apply(origin, source)
    return expected


def _apply(origin: Origin, source: np.ndarray) -> np.ndarray:
    return np.asarray(origin.apply(source), order="C")


def _errors(values: Values, expected: Values, subject: Subject) -> tuple[TensorError, ...]:
    """Errors in program order. A value that the subject does not show (fused away) is left out."""
    origins = subject.snapshot.origins
    return tuple(
        tensor_error(origins[name].tensor, name.split(".")[0], values[name], expected[name])
        for name in expected
        if name in values
    )


def _output_error(name: str, value: str, values: Values, reference: Values) -> TensorError:
    if value not in values or name not in reference:
        return TensorError(name, value, np.inf, np.inf, 0.0, -np.inf)
    return tensor_error(name, value, values[value], reference[name])


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
    return all(t.max_relative <= tolerance for t in (*tensors, *outputs))


def _renamed(accuracy: PassAccuracy, name: str) -> PassAccuracy:
    return PassAccuracy(name, accuracy.mode, accuracy.tensors, accuracy.ties)


# -- ties of indices -------------------------------------------------------------------------------


def near_ties(
    snapshot: Snapshot,
    values: Values,
    expected: Values,
    searches: Mapping[str, TopOperation] | None = None,
) -> tuple[str, ...]:
    """Operations whose index (argmax, argmin) differs where the candidates are equally good.

    `searches`: the `top.arg` operations of earlier snapshots by identity, for launches that were
    made of them; by default the snapshot's own.
    """
    known = snapshot.operations if searches is None else searches
    ties = []
    for identity, op in snapshot.operations.items():
        search = known.get(identity)
        if search is None or search.name != "top.arg":
            continue
        found, wanted = values.get(identity), expected.get(identity)
        scores = expected.get(value_name(op.operands[0]))
        if found is None or wanted is None or scores is None or np.array_equal(found, wanted):
            continue
        if _are_equally_good(found, wanted, scores, search.get("axis"), search.get("keepdims")):
            ties.append(identity)
    return tuple(ties)


def _are_equally_good(
    found: np.ndarray, wanted: np.ndarray, scores: np.ndarray, axis: int, keepdims: bool
) -> bool:
    """Do both indices pick scores that are the same up to rounding? No, if one picks nothing."""
    if found.shape != wanted.shape or not np.all((found >= 0) & (found < scores.shape[axis])):
        return False
    picked = [
        np.take_along_axis(scores, i if keepdims else np.expand_dims(i, axis), axis)
        for i in (found, wanted)
    ]
    scale = max(float(np.max(np.abs(scores))), 1e-6)
    return float(np.max(np.abs(picked[0] - picked[1]))) / scale <= TIE


def _after_ties(
    snapshot: Snapshot, values: Values, isolated: Values, ties: Sequence[str]
) -> Values:
    """Values (and outputs) that depend on a tied index are taken from the isolated run, or left
    out where there was none; the index itself is left out.
    """
    if not ties:
        return values
    tainted = set(ties)
    for identity, op in snapshot.operations.items():
        if any(value_name(o).split(".")[0] in tainted for o in op.operands):
            tainted.add(identity)
    origins = snapshot.origins
    tensors = {origins[name].tensor for name in origins if name.split(".")[0] in tainted}
    chosen: dict[str, np.ndarray] = {}
    for name, array in values.items():
        is_output = name.startswith("output:") and name.removeprefix("output:") in tensors
        if name in ties:
            continue
        if not is_output and name.split(".")[0] not in tainted:
            chosen[name] = array
        elif name in isolated:
            chosen[name] = isolated[name]
    return chosen
