"""More than two devices: dynamic programming over the devices of what is still to be read.

Operations are decided in their order. Two beginnings that agree on all that later operations read
have the same continuations, so that the cheaper one represents both; one with a cost and a bound of
the rest that reach the best assignment's is cut off (branch and bound). A graph that is narrow in
this sense is solved exactly. Where more beginnings are left than `width`, the dearest are dropped,
and the smallest bound of what was dropped is the bound of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.placement.messages import Model

FIRST_WIDTH, WIDENING = 32, 8
MAX_STEPS = 80_000
"""Beginnings that one search extends, of all widths together; one with much that is live counts
several times."""
LIVE_OF_A_STEP = 16
"""Live variables whose labels are copied in the time of one step."""


@dataclass(frozen=True)
class Found:
    """`labels` by variable, None where nothing is cheaper than what was known."""

    labels: tuple[int, ...] | None
    units: int
    bound: int
    """No assignment costs less; `units` where it is exact."""


def search(model: Model, known: int) -> Found:
    """The cheapest assignment below `known` units, looked for with growing width."""
    width, left, best = FIRST_WIDTH, MAX_STEPS, Found(None, known, model.bound())
    while True:
        found, steps = _search(model, best.units, width, left)
        labels = best.labels if found.labels is None else found.labels
        bound = min(found.units, max(best.bound, found.bound))
        best, left = Found(labels, found.units, bound), left - steps
        if best.bound >= best.units or left < steps * WIDENING:
            return best
        width *= WIDENING


def _search(model: Model, known: int, width: int, most_steps: int) -> tuple[Found, int]:
    behind, ahead = model.edges_of()
    last_use = [
        max((model.edges[e].second for e in ahead[v]), default=v) for v in range(len(model.labels))
    ]
    least_of = [min(map(min, edge.costs)) for edge in model.edges]
    rest = model.bound()
    """Of variables and edges that are not decided."""
    live: list[int] = []
    states: dict[tuple[int, ...], tuple[int, tuple]] = {(): (0, ())}
    """By the labels of what is live: units, and all labels as nested pairs, the last first."""
    dropped, steps = known, 0
    for variable, costs in enumerate(model.costs):
        rest -= min(costs) + sum(least_of[e] for e in behind[variable])
        places = [
            (live.index(model.edges[e].first), model.edges[e].costs) for e in behind[variable]
        ]
        following = [v for v in (*live, variable) if last_use[v] > variable]
        kept = [place for place, v in enumerate(live) if last_use[v] > variable]
        is_kept = last_use[variable] > variable
        found: dict[tuple[int, ...], tuple[int, tuple]] = {}
        for state, (units, labels) in states.items():
            rows = [table[state[place]] for place, table in places]
            head = tuple([state[place] for place in kept])
            for label, cost in enumerate(costs):
                total = units + cost + sum([row[label] for row in rows])
                if total + rest >= known:
                    continue
                key = (*head, label) if is_kept else head
                other = found.get(key)
                if other is None or total < other[0]:
                    found[key] = total, (label, labels)
            steps += len(costs) * (1 + len(live) // LIVE_OF_A_STEP)
        live = following
        ranked = _ranked(model, found, live, variable, ahead, rest, least_of)
        ranked = [entry for entry in ranked if entry[0] < known]
        if len(ranked) > width:
            dropped = min(dropped, ranked[width][0])
            ranked = ranked[:width]
        states = {key: found[key] for _, key in ranked}
        if not states or steps > most_steps:
            bound = dropped if not states else model.bound()
            return Found(None, known, min(bound, known)), steps
    units, labels = min(states.values(), key=lambda entry: entry[0])
    return Found(_unfolded(labels), units, min(units, dropped)), steps


def _ranked(
    model: Model,
    found: dict[tuple[int, ...], tuple[int, tuple]],
    live: Sequence[int],
    variable: int,
    ahead: Sequence[Sequence[int]],
    rest: int,
    least_of: Sequence[int],
) -> list[tuple[int, tuple[int, ...]]]:
    """The beginnings with what they cost at least in the end, the cheapest first."""
    extra = []
    for v in live:
        pending = [e for e in ahead[v] if model.edges[e].second > variable]
        extra.append([
            sum(min(model.edges[e].costs[label]) - least_of[e] for e in pending)
            for label in range(len(model.costs[v]))
        ])  # fmt: skip
    ranked = [
        (units + rest + sum([own[label] for own, label in zip(extra, key, strict=True)]), key)
        for key, (units, _) in found.items()
    ]
    ranked.sort()
    return ranked


def _unfolded(labels: tuple) -> tuple[int, ...]:
    found = []
    while labels:
        label, labels = labels
        found.append(label)
    return tuple(reversed(found))
