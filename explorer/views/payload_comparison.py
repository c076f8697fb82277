"""Two compilations side by side: their passes, kernels and totals, and where they part.

    comparison_payload(side_of(trace_payload(trace)), side_of(trace_payload(fork)))
        -> {"labels": ["", "without fuse-activation"], "first": ["fuse-activation/...", ...], ...}

Works on what the explorer gets and not on traces, so that branches which were drawn earlier can
be compared when only their drawings are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from explorer.views.payload_text import Json

MOST_DECISIONS = 100
"""Most decisions that are listed; of the rest the number is given."""


@dataclass(frozen=True)
class Side:
    """What a comparison needs of one compilation."""

    head: Json
    kernels: Json
    decisions: Sequence[tuple[str, str]]
    """(address, value as JSON) in the order in which they were made."""
    profile: Json | None


def side_of(head: Json, chunk: Callable[[str], Json]) -> Side:
    """From a payload's head and what gives its chunks."""
    return Side(
        head=head,
        kernels=chunk("index")["kernels"],
        decisions=[(address, value) for address, value in chunk("decisions")],
        profile=chunk("profile") if head["has"]["profile"] else None,
    )


def comparison_payload(left: Side, right: Side) -> Json:
    differing = differing_decisions(left, right)
    return {
        "labels": [left.head["label"] or "first", right.head["label"] or "first"],
        "targets": [left.head["target"], right.head["target"]],
        "summaries": [left.head["summary"], right.head["summary"]],
        "operations": [side.head["passes"][-1]["after"] for side in (left, right)],
        "kernelCounts": [len(left.kernels), len(right.kernels)],
        "first": differing[0] if differing else None,
        "decisions": differing[:MOST_DECISIONS],
        "differing": len(differing),
        "passes": _passes(left, right),
        "kernels": _kernels(left, right),
    }


def differing_decisions(left: Side, right: Side) -> list[list[str]]:
    """[address, value on the left, value on the right] in the order of the passes.

    A value is "" where it was not decided. The same order as `Comparison.first_difference`.
    """
    ours, theirs = dict(left.decisions), dict(right.decisions)
    order: dict[str, int] = {}
    for name in [p["name"] for side in (left, right) for p in side.head["passes"]]:
        order.setdefault(name, len(order))
    addresses = sorted(
        dict.fromkeys([*ours, *theirs]), key=lambda a: order.get(a.split("/")[0], len(order))
    )
    return [
        [address, ours.get(address, ""), theirs.get(address, "")]
        for address in addresses
        if ours.get(address) != theirs.get(address)
    ]


def _passes(left: Side, right: Side) -> Json:
    """Rows of [name, numbers on the left or None, numbers on the right or None]."""
    ours = {p["name"]: p for p in left.head["passes"]}
    theirs = {p["name"]: p for p in right.head["passes"]}
    names = [*ours, *(name for name in theirs if name not in ours)]
    return [[name, _pass(ours.get(name)), _pass(theirs.get(name))] for name in names]


def _pass(record: Mapping[str, Json] | None) -> Json:
    keys = ("after", "rewrites", "peak", "worst", "check")
    return None if record is None else {key: record[key] for key in keys}


def _kernels(left: Side, right: Side) -> Json:
    """Rows of [name, kind, figures on the left or None, figures on the right or None]."""
    ours, theirs = (
        {kernel["name"]: _kernel(kernel, side) for kernel in side.kernels} for side in (left, right)
    )
    kinds = {k["name"]: k["kind"] for side in (left, right) for k in side.kernels}
    return [[name, kinds[name], ours.get(name), theirs.get(name)] for name in kinds]


def _kernel(kernel: Mapping[str, Json], side: Side) -> Json:
    spent = None
    if side.profile is not None:
        events = [e for e in side.profile["events"] if e[2] == kernel["name"]]
        spent = sum(end - start for _, _, _, _, start, end, *_ in events)
    prefix = f"schedule-loops/{kernel['name']}/"
    choices = [
        f"{address.removeprefix(prefix)} {json.loads(value)}"
        for address, value in side.decisions
        if address.startswith(prefix)
    ]
    return {"flops": kernel["flops"], "nanoseconds": spent, "choices": choices}
