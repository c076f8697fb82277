"""Assignments that are quickly there: single devices, greedy rules, improvements over two devices.

    singles        all operations on one device
    device first   one device takes what it can, the others the rest in their order
    in order       each operation where it and what it reads cost least, makers first
    cheapest       each operation where it alone costs least

An assignment improves by the minimum cut over each pair of devices while the others stay: no step
makes it worse (the swap moves of Boykov, Veksler and Zabih, 2001).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from explorer.placement.cut import cheapest_of_two
from explorer.placement.problem import Problem

MAX_ROUNDS = 5
"""Rounds over all pairs of devices; most assignments rest after two."""


def singles(problem: Problem) -> dict[int, int]:
    """Units of every device that can run all operations."""
    count = len(problem.operations)
    totals = {device: problem.total([device] * count) for device in range(len(problem.devices))}
    return {device: total for device, total in totals.items() if total is not None}


def greedy(problem: Problem) -> Iterator[list[int]]:
    """The assignments of the greedy rules; some may be impossible for want of transfers."""
    devices = range(len(problem.devices))
    for first in devices:
        order = [first, *(device for device in devices if device != first)]
        yield [next(d for d in order if costs[d] is not None) for costs in problem.costs]
    yield _in_order(problem)
    yield [
        min((cost, device) for device, cost in enumerate(costs) if cost is not None)[1]
        for costs in problem.costs
    ]


def improved(problem: Problem, chosen: Sequence[int]) -> list[int]:
    """An assignment that no pair of devices can improve by itself; never worse."""
    best, total = list(chosen), problem.total(chosen)
    assert total is not None
    pairs = list(combinations(range(len(problem.devices)), 2))
    for _ in range(MAX_ROUNDS):
        before = total
        for first, second in pairs:
            found = cheapest_of_two(problem, first, second, best)
            units = problem.total(found)
            if units is not None and units < total:
                best, total = found, units
        if total == before:
            break
    return best


def _in_order(problem: Problem) -> list[int]:
    read: list[list[int]] = [[] for _ in problem.operations]
    for number, value in enumerate(problem.values):
        for reader in value.readers:
            read[reader].append(number)
    there: list[set[int]] = [set() for _ in problem.values]
    """Devices where each value is by now."""
    chosen: list[int] = []
    made: list[list[int]] = [[] for _ in problem.operations]
    for number, value in enumerate(problem.values):
        made[value.maker].append(number)
    for op, costs in enumerate(problem.costs):

        def added(device: int, op: int = op, costs: Sequence[int | None] = costs) -> float | int:
            total = costs[device]
            if total is None:
                return float("inf")
            for number in read[op]:
                if device not in there[number]:
                    value = problem.values[number]
                    sent = value.sent[chosen[value.maker]][device]
                    if sent is None:
                        return float("inf")
                    total += sent
            return total

        possible = [device for device, cost in enumerate(costs) if cost is not None]
        device = min(possible, key=added)
        chosen.append(device)
        for number in (*read[op], *made[op]):
            there[number].add(device)
    return chosen
