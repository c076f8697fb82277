"""Where two compilations part: the decisions that differ, in the order in which they are taken.

differing_decisions({"a/r": "true"}, {"a/r": "false"}, ["a", "b"], ["a", "b"])
    -> [("a/r", "true", "false")]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from explorer.results import Trace

NOT_DECIDED = ""


def values_of(trace: Trace) -> dict[str, str]:
    """Values as JSON by address: knobs (passes that are off included), then single rewrites."""
    knobs = {knob.address: json.dumps(knob.value) for knob in trace.knobs}
    return {**knobs, **dict(trace.decisions)}


def differing_decisions(
    ours: Mapping[str, str],
    theirs: Mapping[str, str],
    our_passes: Sequence[str],
    their_passes: Sequence[str],
) -> list[tuple[str, str, str]]:
    """(address, value of ours, value of theirs), NOT_DECIDED where one has none.

    Settings first, then pass after pass; of each pass whether it runs, then its rules, then
    single places.
    """
    order = {name: number for number, name in enumerate(merged(our_passes, their_passes))}

    def place(address: str) -> tuple[int, int]:
        parts = address.split("/", 2)
        return order.get(parts[0], -1), len(parts)

    return [
        (address, ours.get(address, NOT_DECIDED), theirs.get(address, NOT_DECIDED))
        for address in sorted(dict.fromkeys([*ours, *theirs]), key=place)
        if ours.get(address) != theirs.get(address)
    ]


def merged(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """The passes of both: one that only theirs has stands behind what precedes it there."""
    names = list(ours)
    place = 0
    for name in theirs:
        if name in names:
            place = max(place, names.index(name) + 1)
        else:
            names.insert(place, name)
            place += 1
    return names
