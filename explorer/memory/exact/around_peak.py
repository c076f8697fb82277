"""A plan that is tight where most bytes live, and too large elsewhere, is placed again around that.

    step 40 has all of its 96 bytes filled by a, b and c; d, of steps 42-44, ends at 112
        ->  a, b and c stay; d is placed before everything else, then the others, by first fit
        ->  what ends above 96 then comes first in the next round

Training takes most bytes where the backward pass begins. The plan of that step hardly depends on
what is born and dies before or after it, and there more room is left. That what fits badly comes
first in the next round is squeaky wheel optimization: Joslin and Clements (JAIR 10, 1999).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.memory.greedy import Columns, Key, sort_keys
from explorer.memory.pinned import place_around
from explorer.memory.planners import peak_of
from explorer.results.memory import BufferLifetime

MAX_ROUNDS = 8
ORDER: tuple[Key, ...] = ("lifetime", "size")
"""Of the buffers that have not ended too high yet."""


def placed_around_peak(
    buffers: Sequence[BufferLifetime],
    offsets: Sequence[int],
    live: Sequence[int],
    capacity: int,
) -> tuple[list[int], int]:
    """The offsets with the least peak of all rounds, in bytes, and the number of rounds.

    `live`: bytes by step. The rounds end with a plan within the capacity.
    """
    step = int(np.argmax(live))
    columns = Columns.of(buffers)
    keys = sort_keys(columns, live)
    places = zip(buffers, offsets, strict=True)
    fixed = {
        i: offset
        for i, (b, offset) in enumerate(places)
        if b.first <= step < b.last and offset + b.size_bytes <= capacity
    }
    order: list[int] = np.lexsort([keys[key] for key in reversed(ORDER)]).tolist()
    best = list(offsets)
    for count in range(1, MAX_ROUNDS + 1):
        found = place_around(columns, order, fixed, "first")
        if peak_of(buffers, found) < peak_of(buffers, best):
            best = found
        high = [i for i, b in enumerate(buffers) if found[i] + b.size_bytes > capacity]
        if not high:
            return best, count
        high.sort(key=lambda i: -buffers[i].size_bytes)
        order = list(dict.fromkeys([*high, *order]))
    return best, MAX_ROUNDS
