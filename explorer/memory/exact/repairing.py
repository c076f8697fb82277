"""A plan that exceeds a capacity in few places is searched again around these alone.

    capacity 96, of 500 buffers one ends at 112 in steps 40-48
        ->  all buffers that meet these steps are taken out, the others stay where they are
        ->  a search places them within 96, or more of them are taken out

Greedy orders miss the live bound of a long network at few of its steps. A search of the whole
network takes a node or more for each of its buffers, one around these steps for tens of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.memory.exact.minimizing import Minimizer
from explorer.memory.exact.problem import ORDERS, Buffers
from explorer.memory.exact.search import FOUND
from explorer.results.memory import BufferLifetime

MAX_TAKEN = 96
"""Buffers that are taken out at once."""
MIN_BUFFERS = 2 * MAX_TAKEN
"""With fewer, a search of the whole takes no longer."""
NODES_PER_BUFFER = 2
"""Of every order of a search around some steps."""
QUICK_ORDERS = ORDERS[:2]
"""Those that find nearly all: where they do not, more buffers are taken out."""


@dataclass(frozen=True)
class Repaired:
    """What searching in some places came to."""

    offsets: tuple[int, ...] | None
    """In bytes by buffer, all within the capacity; None where none were found."""
    nodes: int
    places: int = 0
    """In which something was searched again."""


def repaired(
    buffers: Sequence[BufferLifetime], offsets: Sequence[int], capacity: int, max_nodes: int
) -> Repaired:
    """The plan with other offsets where it exceeds the capacity in bytes; few buffers are left to
    a search of the whole."""
    if len(buffers) < MIN_BUFFERS:
        return Repaired(None, 0)
    current, nodes, found = list(offsets), 0, 0
    while over := [i for i, b in enumerate(buffers) if current[i] + b.size_bytes > capacity]:
        taken = {max(over, key=lambda i: current[i] + buffers[i].size_bytes)}
        places: dict[int, int] | None = None
        while places is None:
            more = meeting(buffers, taken)
            if len(more) > MAX_TAKEN or more == taken or nodes >= max_nodes:
                return Repaired(None, nodes)
            taken = more
            places, tried = search_again(buffers, current, taken, capacity, max_nodes - nodes)
            nodes += tried
        for i, offset in places.items():
            current[i] = offset
        found += 1
    return Repaired(tuple(current), nodes, found)


def meeting(buffers: Sequence[BufferLifetime], taken: set[int]) -> set[int]:
    """The buffers that live in some step from the first one of those until their last one."""
    first = min(buffers[i].first for i in taken)
    last = max(buffers[i].last for i in taken)
    return {i for i, b in enumerate(buffers) if b.first < last and b.last > first}


def search_again(
    buffers: Sequence[BufferLifetime],
    offsets: Sequence[int],
    taken: set[int],
    capacity: int,
    max_nodes: int,
) -> tuple[dict[int, int] | None, int]:
    """Offsets of what is taken out, next to what stays; and the nodes that were tried."""
    around = meeting(buffers, taken) - taken
    if any(offsets[i] + buffers[i].size_bytes > capacity for i in around):
        return None, 0  # what exceeds the capacity is taken out, too
    numbers = sorted(taken | around)
    first = min(buffers[i].first for i in taken)
    last = max(buffers[i].last for i in taken)
    # What they do outside of these steps is the same in every plan.
    own = [
        replace(buffers[i], first=max(buffers[i].first, first), last=min(buffers[i].last, last))
        for i in numbers
    ]
    fixed = {at: offsets[i] for at, i in enumerate(numbers) if i in around}
    columns = Buffers(own, fixed)
    search = Minimizer(columns, max_nodes, orders=QUICK_ORDERS)
    limit = NODES_PER_BUFFER * len(numbers)
    if search.within(capacity // columns.unit, limit) != FOUND:
        return None, search.nodes
    found = {numbers[columns.numbers[k]]: columns.unit * o for k, o in search.plan().items()}
    return {i: offset for i, offset in found.items() if i in taken}, search.nodes
