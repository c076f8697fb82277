"""Which rewrites led to an operation, through all the identities that its work had before.

import            node_conv                 -> conv2
import            node_norm                 -> norm2
fold-batch-norm   norm2, conv2              -> conv5
fuse-activation   relu2, conv5              -> conv8

lines_of_makers(trace)["conv8"]     all four, in the order in which they happened
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results import Trace

MAX_STEPS = 200
"""Most rewrites that are kept of one line; the oldest of longer ones are left out."""


@dataclass(frozen=True)
class Step:
    """One rewrite on the way to an operation."""

    index: int
    """Of the pass."""
    event: int
    """Of the rewrite among the pass's events."""
    made: str
    """The operation, or that of its ancestors, that the rewrite made or changed."""


def lines_of_makers(trace: Trace) -> dict[str, tuple[Step, ...]]:
    """By identity the rewrites that made or changed an operation, or what it was made of.

    In the order in which they happened. A rewrite that makes several operations stands in the
    line of each; one that only renamed an operand stands in none.
    """
    lines: dict[str, tuple[Step, ...]] = {}
    for index, record in enumerate(trace.passes):
        for number, event in enumerate(record.events):
            if not event.applied:
                continue
            of_removed = [lines.get(identity, ()) for identity, _ in event.delta.removed]
            made_now = {}
            for made in event.produced:
                # What several ancestors share happened once.
                before = {step for line in (*of_removed, lines.get(made, ())) for step in line}
                line = (*sorted(before, key=_when), Step(index, number, made))
                made_now[made] = line[-MAX_STEPS:]
            lines |= made_now
    return lines


def _when(step: Step) -> tuple[int, int, str]:
    return step.index, step.event, step.made
