"""Finds the guilty operations: a window of the graph, with the reference's values as its inputs.

    175 operations -> the first 88? the last 87? those in the middle? -> ... -> 2 operations

Each part computes what it computed in the whole model, so a fault of one operation is found with
programs that together are some three times as large as the model.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.reducing.candidate import Candidate
from explorer.reducing.graphs import part
from explorer.reducing.trials import Trials


def isolate(trials: Trials, candidate: Candidate) -> Candidate:
    """The smallest window of nodes that still fails."""
    while True:
        trials.report("isolating", candidate)
        found = next(
            (smaller for smaller in _windows(candidate) if trials.fails(smaller)), candidate
        )
        if found is candidate:
            return candidate
        candidate = found


def _windows(candidate: Candidate) -> Iterator[Candidate]:
    """Halves, the middle, then all but a part at one of the ends, ever smaller."""
    count = candidate.operations
    half, quarter = count // 2, count // 4
    bounds = [(0, half), (half, count), (quarter, count - quarter)]
    cut = quarter
    while cut:
        bounds += [(cut, count), (0, count - cut)]
        cut //= 2
    for low, high in dict.fromkeys(bounds):
        if 0 < high - low < count:
            found = part(candidate, range(low, high))
            if found is not None:
                yield found
