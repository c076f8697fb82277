"""Moves of ejection: a buffer that waits takes an offset, and what it meets there waits.

State is in arrays of integers, and random numbers are made here: `compiled.py` has the same
functions compiled by numba, which make the same moves.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from explorer.memory.exact.search import ANYWHERE, INFINITY

WAITING, PLACED, RANDOM, BITS = range(4)
"""How many buffers wait, how many do not, the state of the random numbers, and the bits of a
buffer's number."""
PICKS = 4
"""Of so many waiting buffers the most expensive one is placed next."""


class State(NamedTuple):
    """Buffers by number, in the unit of `Buffers`."""

    sizes: Any
    alignments: Any
    areas: Any
    """Square roots of size times steps."""
    firsts: Any
    lasts: Any
    offsets: Any
    """`ANYWHERE`: the buffer waits."""
    penalties: Any
    waiting: Any
    all_lows: Any
    """Keys of all placed buffers, ascending: the offset, and the number of the buffer in `BITS`."""
    all_highs: Any
    """The same of their ends."""
    lows: Any
    """The keys of `all_lows` of the neighbours of one buffer."""
    highs: Any
    counts: Any
    """By `WAITING`, `PLACED`, `RANDOM` and `BITS`."""


def find_key(keys, key, count):
    """The number of keys below this one, of the first `count`."""
    return bisect_left(keys, key, 0, count)


def insert_key(keys, key, count):
    """Adds a key to the first `count`, which ascend."""
    place = find_key(keys, key, count)
    keys[place + 1 : count + 1] = keys[place:count]
    keys[place] = key


def remove_key(keys, key, count):
    """Takes one of the first `count` keys away."""
    place = find_key(keys, key, count)
    keys[place : count - 1] = keys[place + 1 : count]


def put(state, buffer, offset):
    """Gives an offset to a buffer that has none."""
    counts = state.counts
    low = (offset << counts[BITS]) + buffer
    insert_key(state.all_lows, low, counts[PLACED])
    insert_key(state.all_highs, low + (state.sizes[buffer] << counts[BITS]), counts[PLACED])
    state.offsets[buffer] = offset
    counts[PLACED] += 1


def take_out(state, buffer):
    """Takes its offset from a buffer, which waits from now on."""
    counts = state.counts
    low = (state.offsets[buffer] << counts[BITS]) + buffer
    remove_key(state.all_lows, low, counts[PLACED])
    remove_key(state.all_highs, low + (state.sizes[buffer] << counts[BITS]), counts[PLACED])
    state.offsets[buffer] = ANYWHERE
    counts[PLACED] -= 1
    state.waiting[counts[WAITING]] = buffer
    counts[WAITING] += 1


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


def keep_neighbours(state, buffer, keys, kept):
    """Writes the keys of a buffer's neighbours to `kept`; how many there are."""
    firsts, lasts = state.firsts, state.lasts
    first, last = firsts[buffer], lasts[buffer]
    numbers, count = (1 << state.counts[BITS]) - 1, 0
    for k in range(state.counts[PLACED]):
        j = keys[k] & numbers
        kept[count] = keys[k]
        count += (firsts[j] < last) & (first < lasts[j])
    return count


def round_down(offset, alignment):
    """The offset rounded down to the alignment; skips the division for alignment 1."""
    return offset if alignment == 1 else offset // alignment * alignment


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
    top = round_down(capacity - size, alignment)
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
                under = round_down((lows[low] >> bits) - size, alignment)
            if high < count:
                over = -round_down(-(highs[high] >> bits), alignment)
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
        count = keep_neighbours(state, buffer, state.all_lows, state.lows)
        keep_neighbours(state, buffer, state.all_highs, state.highs)
        offset, cost = find_cheapest(state, buffer, capacity, count)
        put(state, buffer, offset)
        if cost == 0:
            continue
        for k in range(count):
            j = state.lows[k] & numbers
            if offsets[j] < offset + sizes[buffer] and offset < offsets[j] + sizes[j]:
                take_out(state, j)
                state.penalties[j] += 1
    return moves
