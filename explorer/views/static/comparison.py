"""Two compilations side by side: what they reach, and the passes in which they part.

tiny_resnet -> cpu          first    no fusion
  operations                   14           17   1.2× more
  latency                  122 µs       150 µs   1.2× more
  passes
  = fold-batch-norm        17 ops       17 ops
  ≠ fuse-activation        14 ops       17 ops
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher

from explorer.results.passes import PassRecord
from explorer.results.trace import Trace
from explorer.views.numbers import (
    format_amount,
    format_bytes,
    format_count,
    format_error,
    format_exact,
    format_milliseconds,
    format_ratio,
    format_seconds,
)
from explorer.views.static.markup import (
    badge,
    card,
    code,
    escape,
    note,
    plain,
    quiet,
    section,
    table,
)
from explorer.views.static.passes import accuracy_by_pass, verdict_of, worst_error
from explorer.views.static.plain import columns
from explorer.views.theme import CHANGED, NOT_RUN, Look

LISTED_DECISIONS = 12
MISSING = "–"


@dataclass(frozen=True)
class _Side:
    record: PassRecord
    verdict: Look


@dataclass(frozen=True)
class _PassPair:
    """The same pass in both; None where one compilation has no such pass."""

    left: _Side | None
    right: _Side | None

    @property
    def name(self) -> str:
        side = self.left or self.right
        return side.record.name if side else ""

    @property
    def differs(self) -> bool:
        if self.left is None or self.right is None:
            return True
        first, second = self.left.record, self.right.record
        return (
            first.operations_after != second.operations_after
            or first.rules != second.rules
            or first.peak_bytes != second.peak_bytes
        )


def comparison_text(left: Trace, right: Trace) -> str:
    """Numbers and passes of two compilations side by side."""
    first, second = _names(left, right)
    metrics = columns(_metrics(left, right), ("", first, second, ""), "lrrl")
    rows = [
        (
            "≠" if pair.differs else "=",
            pair.name,
            _pass_cell(pair.left),
            _pass_cell(pair.right),
        )
        for pair in _pair_passes(left, right)
    ]
    lines = [_title(left, right), *metrics, *columns(rows, ("", "pass", first, second), "llrr")]
    decisions = _decisions(left, right)
    lines += [
        f"  decided otherwise: {plain(address)}: {plain(a)} / {plain(b)}"
        for address, a, b in decisions[:LISTED_DECISIONS]
    ]
    if len(decisions) > LISTED_DECISIONS:
        lines.append(f"  and {len(decisions) - LISTED_DECISIONS} more: trace.decisions")
    return "\n".join(lines)


def comparison_html(left: Trace, right: Trace) -> str:
    """A card of the same."""
    first, second = _names(left, right)
    body = table(
        [[escape(cell) for cell in row] for row in _metrics(left, right)],
        ("", first, second, ""),
        "nrrn",
    )
    body += section("Passes")
    rows: list[list[str]] = []
    same: list[int] = []
    for index, pair in enumerate(_pair_passes(left, right)):
        if not pair.differs:
            same.append(index)
        rows.append(
            [
                badge(_DIFFERS) if pair.differs else quiet("="),
                escape(pair.name),
                *(_pass_html(side) for side in (pair.left, pair.right)),
            ]
        )
    body += table(rows, ("", "pass", first, second), "nlrr", same)
    decisions = _decisions(left, right)
    if decisions:
        body += section("Decided otherwise")
        body += table(
            [[code(address), code(a), code(b)] for address, a, b in decisions[:LISTED_DECISIONS]],
            ("address", first, second),
        )
        if len(decisions) > LISTED_DECISIONS:
            body += note(f"and {len(decisions) - LISTED_DECISIONS} more: trace.decisions")
    return card(_title(left, right), body)


_DIFFERS = Look(
    "differs", "the two compilations part here", "≠", CHANGED.hue, CHANGED.light, CHANGED.dark
)


def _title(left: Trace, right: Trace) -> str:
    models = dict.fromkeys(plain(trace.model.name) for trace in (left, right))
    targets = dict.fromkeys(plain(trace.target) for trace in (left, right))
    return f"{' / '.join(models)} → {' / '.join(targets)}"


def _names(left: Trace, right: Trace) -> tuple[str, str]:
    """What tells the two apart: the forks' labels, else the targets, else their order."""
    labels = (plain(left.label or "first"), plain(right.label or "second"))
    if left.label == right.label:
        return ("left", "right") if left.target == right.target else (left.target, right.target)
    return labels


def _metrics(left: Trace, right: Trace) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []

    def add(
        name: str, first: float | None, second: float | None, show: Callable[[float], str]
    ) -> None:
        if first is None and second is None:
            return
        cells = [MISSING if value is None else show(value) for value in (first, second)]
        ratio = "" if first is None or second is None else format_ratio(first, second)
        rows.append((name, cells[0], cells[1], ratio))

    def last(trace: Trace) -> PassRecord | None:
        return trace.passes[-1] if trace.passes else None

    a, b = last(left), last(right)
    add(
        "operations",
        a and a.operations_after,
        b and b.operations_after,
        lambda v: format_exact(int(v)),
    )
    add("multiply-accumulates", a and a.macs, b and b.macs, format_amount)
    add("kernels", len(left.kernels), len(right.kernels), lambda v: format_exact(int(v)))
    add(
        "peak memory",
        left.memory and left.memory.peak_bytes,
        right.memory and right.memory.peak_bytes,
        format_bytes,
    )
    add(
        "weights",
        left.program and left.program.weights_bytes,
        right.program and right.program.weights_bytes,
        format_bytes,
    )
    add(
        "latency",
        left.profile and left.profile.milliseconds,
        right.profile and right.profile.milliseconds,
        format_milliseconds,
    )
    add("worst relative error", worst_error(left), worst_error(right), format_error)
    add("compile time", _seconds(left), _seconds(right), format_seconds)
    return rows


def _seconds(trace: Trace) -> float:
    return sum(record.seconds for record in trace.passes)


def _pair_passes(left: Trace, right: Trace) -> list[_PassPair]:
    """Passes of both in order, equal names side by side (longest common subsequence)."""
    first, second = _sides(left), _sides(right)
    names = ([side.record.name for side in first], [side.record.name for side in second])
    pairs: list[_PassPair] = []
    matcher = SequenceMatcher(None, *names, autojunk=False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "equal":
            pairs += [_PassPair(x, y) for x, y in zip(first[a:a_end], second[b:b_end], strict=True)]
        else:
            pairs += [_PassPair(side, None) for side in first[a:a_end]]
            pairs += [_PassPair(None, side) for side in second[b:b_end]]
    return pairs


def _sides(trace: Trace) -> list[_Side]:
    tolerance = trace.accuracy.tolerance if trace.accuracy else 0.0
    return [
        _Side(record, verdict_of(accuracy, tolerance))
        for record, accuracy in zip(trace.passes, accuracy_by_pass(trace), strict=True)
    ]


def _pass_cell(side: _Side | None) -> str:
    if side is None:
        return MISSING
    mark = "" if side.verdict is NOT_RUN else f" {side.verdict.glyph}"
    return f"{format_count(side.record.operations_after)}{mark}"


def _pass_html(side: _Side | None) -> str:
    if side is None:
        return quiet(MISSING)
    return f"{escape(format_count(side.record.operations_after))} {badge(side.verdict)}"


def _decisions(left: Trace, right: Trace) -> list[tuple[str, str, str]]:
    """(address, left value, right value) of overrides that are not the same in both."""
    first, second = dict(left.decisions), dict(right.decisions)
    return [
        (address, first.get(address, MISSING), second.get(address, MISSING))
        for address in dict.fromkeys((*first, *second))
        if first.get(address) != second.get(address)
    ]
