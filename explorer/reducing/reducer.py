"""Makes a model and its inputs as small as possible while they still fail.

    reduced = reduce(candidate_of(load("net.onnx"), {"x": x}), differing(run))
    reduced.candidate.operations        2

First the guilty part of the graph is cut out, since only that makes trials cheap; then operations,
attributes, sizes and numbers, again and again until nothing helps.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.errors import InputError
from explorer.reducing.candidate import Candidate
from explorer.reducing.conditions import Condition
from explorer.reducing.steps.attributes import simplify_attributes
from explorer.reducing.steps.isolation import isolate
from explorer.reducing.steps.numbers import simplify_numbers
from explorer.reducing.steps.operations import drop_operations, drop_outputs, pass_by_operations
from explorer.reducing.steps.sizes import shrink_sizes
from explorer.reducing.trials import Folder, Report, Trials
from explorer.results.displayed import Displayed

STEPS = (
    isolate,
    drop_outputs,
    drop_operations,
    pass_by_operations,
    shrink_sizes,
    simplify_attributes,
    simplify_numbers,
)
MAX_ROUNDS = 4


@dataclass(frozen=True, kw_only=True, repr=False)
class Reduced(Displayed):
    """What is left, and how it was found."""

    candidate: Candidate
    whole: Candidate
    kind: str
    """How it fails: see `Outcome.kind`."""
    reason: str
    """What was expected and what came."""
    others: dict[str, str]
    """Other ways in which candidates failed, with a reason: faults of their own."""
    trials: int
    """Candidates that were tried, those of earlier runs not counted."""


def reduce(
    candidate: Candidate,
    condition: Condition,
    folder: Folder | None = None,
    report: Report | None = None,
) -> Reduced:
    """The smallest candidate that fails as this one does.

    folder: where the state is kept. Who has written the result removes it.

    Raises:
        InputError: for a candidate that does not fail, that hangs, or that the reference refuses.
    """
    if not candidate.expected:
        raise InputError(
            "nothing runs the model with this input, so nothing says what its parts compute: "
            f"{candidate.refusal or 'it has no output of numbers'}",
            hint="check the input's names, types and sizes, and that all operators are standard",
        )
    trials = Trials(condition, folder, report)
    trials.report("running the whole model", candidate)
    smallest = trials.begin(candidate)
    for _ in range(MAX_ROUNDS):
        before = smallest.digest
        for step in STEPS:
            smallest = step(trials, smallest)
        if smallest.digest == before:
            break
    return Reduced(
        candidate=smallest,
        whole=candidate,
        kind=trials.kind,
        reason=trials.reason,
        others=trials.others,
        trials=trials.count,
    )
