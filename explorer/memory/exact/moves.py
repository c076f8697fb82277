"""Moves of ejection: a buffer that waits takes an offset, and what it meets there waits.

State is in arrays of integers, and random numbers are made here: `compiled.py` has the same
functions compiled by numba, which make the same moves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from explorer.memory.exact.search import ANYWHERE, INFINITY

WAITING, RANDOM, BITS = range(3)
"""How many buffers wait, the state of the random numbers, and the bits of a buffer's number."""
PICKS = 4
"""Of so many waiting buffers the most expensive one is placed next."""


class State(NamedTuple):
    """Buffers by number, in the unit of `Buffers`."""

    sizes: Any
    alignments: Any
    areas: Any
    """Square roots of size times steps."""
    starts: Any
    """The neighbours of buffer i are `neighbours[starts[i]:starts[i + 1]]`."""
    neighbours: Any
    offsets: Any
    """`ANYWHERE`: the buffer waits."""
    penalties: Any
    waiting: Any
    lows: Any
    """Of the placed neighbours of one buffer, ascending: the offset, and its number in `BITS`."""
    highs: Any
    """The same of their ends."""
    counts: Any
    """By `WAITING`, `RANDOM` and `BITS`."""


def sort_keys(keys, count):
    """Sorts the first `count` keys in place."""
    keys[:count] = sorted(keys[:count])


def draw(counts):
    """A pseudorandom number below 2^24 (a linear congruential generator modulo 2^31)."""
    counts[RANDOM] = (counts[RANDOM] * 1103515245 + 12345) & 0x7FFFFFFF
    return counts[RANDOM] >> 7


def take_waiting(state):
    """The waiting buffer that is placed next, which no longer waits."""
    waiting, counts, areas = state.waiting, state.counts, state.areas
    place = draw(counts) % counts[WAITING]
    for _ in range(PICKS - 1):
        other = draw(counts) % counts[WAITING]
        if areas[waiting[other]] > areas[waiting[place]]:
            place = other
    buffer = waiting[place]
    counts[WAITING] -= 1
    waiting[place] = waiting[counts[WAITING]]
    return buffer


def sort_neighbours(state, buffer):
    """Fills `lows` and `highs`; how many neighbours are placed."""
    bits, count = state.counts[BITS], 0
    for k in range(state.starts[buffer], state.starts[buffer + 1]):
        j = state.neighbours[k]
        if state.offsets[j] != ANYWHERE:
            state.lows[count] = (state.offsets[j] << bits) + j
            state.highs[count] = ((state.offsets[j] + state.sizes[j]) << bits) + j
            count += 1
    sort_keys(state.lows, count)
    sort_keys(state.highs, count)
    return count


def find_cheapest(state, buffer, capacity, count):
    """(offset, cost) within the capacity: the lowest offset that is free, or any one of those where
    the buffers that it meets cost least.

    The cost changes only where the buffer begins at the end of a neighbour, or ends at the begin of
    one; the offsets are tried from below.
    """
    bits = state.counts[BITS]
    numbers = (1 << bits) - 1
    lows, highs, areas, penalties = state.lows, state.highs, state.areas, state.penalties
    size, alignment = state.sizes[buffer], state.alignments[buffer]
    top = (capacity - size) // alignment * alignment
    low, high, below, above = 0, 0, 0, 0
    offset, cost = 0, 0
    best, least, equal = 0, INFINITY, 1
    while True:
        while below < count and lows[below] >> bits < offset + size:
            j = lows[below] & numbers
            cost += areas[j] * penalties[j]
            below += 1
        while above < count and highs[above] >> bits <= offset:
            j = highs[above] & numbers
            cost -= areas[j] * penalties[j]
            above += 1
        if cost < least:
            best, least, equal = offset, cost, 1
        elif cost == least:
            equal += 1
            if draw(state.counts) % equal == 0:
                best = offset
        if cost == 0 or offset == top:
            return best, least
        following = offset
        while following <= offset:
            under, over = top, top
            if low < count:
                under = ((lows[low] >> bits) - size) // alignment * alignment
            if high < count:
                over = -(-(highs[high] >> bits) // alignment) * alignment
            if low < count and under <= over:
                following = under
                low += 1
            elif high < count:
                following = over
                high += 1
            else:
                following = top
        offset = min(following, top)


def eject(state, capacity, moves):
    """The number of moves until no buffer waits, at most `moves`."""
    sizes, offsets, counts = state.sizes, state.offsets, state.counts
    numbers = (1 << counts[BITS]) - 1
    for move in range(moves):
        if counts[WAITING] == 0:
            return move
        buffer = take_waiting(state)
        count = sort_neighbours(state, buffer)
        offset, cost = find_cheapest(state, buffer, capacity, count)
        offsets[buffer] = offset
        if cost == 0:
            continue
        for k in range(count):
            j = state.lows[k] & numbers
            if offsets[j] < offset + sizes[buffer] and offset < offsets[j] + sizes[j]:
                offsets[j] = ANYWHERE
                state.penalties[j] += 1
                state.waiting[counts[WAITING]] = j
                counts[WAITING] += 1
    return moves
