"""What a comparison with the source model rests on, in words: the same in text, HTML and page.

grounds(report)     ["end to end y is off by 0.5: 1 rounding tie lies before it, and the ..."]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.results.accuracy import AccuracyReport, NearTie, TensorError
from explorer.views.numbers import format_count, format_error
from explorer.views.specification import Action, Link, Part, Text
from explorer.views.theme import judged_error

IMPORT_IS_NOT_CHECKED = (
    "so this tells whether passes and generated code keep the meaning of the program as it was "
    "imported, not whether the import is right; outputs that come with the model say that: "
    "explorer check MODEL --golden FILE.npz"
)


def grounds(report: AccuracyReport) -> list[str]:
    """Sentences for what a verdict alone does not say; none where it rests on the outputs as they
    are, compared with the reference that was wanted."""
    words = []
    if report.oracle_note:
        words.append(
            f"compared with {report.oracle} ({report.oracle_note}), {IMPORT_IS_NOT_CHECKED}"
        )
    if report.problem:
        words.append(report.problem)
    if report.float_outputs:
        exact = "equal bit by bit" if report.bit_exact else "NOT equal bit by bit"
        integers = f"integers are {exact} to the quantized program's"
        what = (report.rounded or "weights alone") if report.bit_exact is None else integers
        source = "the source model's" if report.integers_from else "the float model's"
        far = report.from_float_words
        words.append(f"quantized: {what}; outputs against {source} (not judged): {far}")
    if report.integers_from:
        words.append(f"from {report.integers_from} on {report.integers_note}")
    if report.rests_on == "isolated":
        words += [_end_to_end(report, error) for error in off_end_to_end(report)]
    return words


def worst_judged(errors: Sequence[TensorError], tolerance: float) -> TensorError | None:
    """The tensor that a verdict is about: the first that is no number, else the one that is
    farthest out of tolerance, else one that only float64 could judge, else the largest."""

    def place(error: TensorError) -> tuple[float, float]:
        worst = judged_error(error, tolerance)
        found, allowed = error.judged(tolerance)
        return (math.inf if math.isnan(worst) else worst, found / allowed if allowed else 0.0)

    return max(errors, key=place, default=None)


def judged_words(error: TensorError, tolerance: float) -> str:
    """`1.4e-6 of 1.0e-4 allowed`; `5.1e-6 of 0.024 allowed, from float64`."""
    found, allowed = error.judged(tolerance)
    measure = ", from float64" if error.is_judged_by_float64 else ""
    return f"{format_error(found)} of {format_error(allowed)} allowed{measure}"


def costliest_words(report: AccuracyReport | None) -> list[str]:
    """`costs the outputs most, by bisection: relu1, 22.5 dB with this layer alone ...`: one
    sentence of a quantized program, none of others. It is no fault."""
    found = report and report.quantization and report.quantization.costliest
    if not found:
        return []
    doubt = "" if found.is_certain else "; others cost about as much"
    judged = "what the last softmax reads" if found.is_before_softmax else "the outputs"
    return [
        f"costs {judged} most, by bisection: {found.tensor}, {found.alone_db:.1f} dB with this "
        f"layer alone quantized, {found.all_db:.1f} dB with all, {found.without_db:.1f} dB with "
        f"all but this one{doubt}"
    ]


def costliest_parts(report: AccuracyReport | None) -> tuple[Part, ...]:
    """That sentence, and the decision that keeps the layer a float."""
    found = report and report.quantization and report.quantization.costliest
    if not found:
        return ()
    (words,) = costliest_words(report)
    link = Link(selection=found.operation)
    decisions = {found.address: "F32"}
    named = Text(text=words, link=link, layers=(found.tensor,))
    return named, Action(title="keep it float", decisions=decisions)


def off_end_to_end(report: AccuracyReport) -> list[TensorError]:
    """The outputs that a user gets and that are out of tolerance."""
    tolerance = report.tolerance
    return [e for e in report.end_to_end if not judged_error(e, tolerance) <= tolerance]


def _end_to_end(report: AccuracyReport, error: TensorError) -> str:
    ties = report.passes[-1].near_ties if report.passes else ()
    isolated = next((e for e in report.isolated_outputs if e.tensor == error.tensor), None)
    apart = "" if isolated is None else f" ({format_error(isolated.max_relative)} for this output)"
    count = format_count(len(ties), "operation")
    return (
        f"end to end output {error.tensor} is off by {format_error(error.max_relative)} of its "
        f"largest element: {count} before it met a tie, where either of two values is right; the "
        f"verdict rests on every operation by itself, fed the reference's values{apart}"
    )


def tie_words(tie: NearTie) -> str:
    """`matmul6: a rounding tie; 1 element of hq, first 6 instead of 7 at [0, 0] ...`."""
    named, gap = {
        "index": ("a near-tie of an index", "scores {} apart"),
        "rounding": ("a rounding tie", "a step is {} of the largest"),
    }.get(tie.kind, ("a tie", "{} apart"))
    return (
        f"{tie.operation}: {named}; {format_count(tie.elements, 'element')} of {tie.tensor}, "
        f"first {tie.found} instead of {tie.expected} at [{', '.join(map(str, tie.index))}], "
        f"{gap.format(format_error(tie.gap))}; what follows is compared in isolation."
    )
