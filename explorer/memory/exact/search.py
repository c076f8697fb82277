"""The search: every buffer at an offset below a capacity, or the proof that there is no such plan.

Buffers are placed from the bottom up: each on top of what is placed, at offsets that never
decrease. After every placement what is left falls into parts that share no section; each is
solved by itself, and its buffers are ranked anew by the bytes that are still live in it. The frame
of canonical solutions, section floors, dominance and decomposition is that of Moffitt, "MiniMalloc:
A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023). A branch is
cut where

- an offset and the bytes that are still to be placed in one section exceed the capacity;
- in some section the lowest offset that any unplaced buffer can have, and all its unplaced bytes,
  exceed it. A buffer below the level must rest on another one that is not placed yet;
- another unplaced buffer would fit completely below: it may lie there in every such plan;
- equal buffers, and buffers of the same sections that lie on one another, are in another order
  than that of their static ranks: the plans are the same but for their names;
- a buffer lies on one that lives in some of its sections only, and the two could be exchanged.

All state is in arrays of integers, and frames stand on a stack of their own. `compiled.py` has the
same functions compiled by numba; here they run on lists. A search that reached its limit of nodes
goes on where it was when it is called again with a larger one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

FOUND, IMPOSSIBLE, LIMIT = 1, 0, -1
"""A plan was found; there is none; the limit of nodes, or of the pools, was reached."""
INFINITY = 1 << 62
ANYWHERE = -1
"""Of a buffer that has no fixed offset."""


class Problem(NamedTuple):
    """Buffers by number."""

    sizes: Any
    firsts: Any
    """Sections [first, last)."""
    lasts: Any
    alignments: Any
    fixed: Any
    """Their offset, or `ANYWHERE`."""
    static: Any
    """Rank among all buffers by the keys that stay the same."""
    twins: Any
    """The equal buffer of the next lower static rank, or -1."""
    classes: Any
    """The same number for the same sections; -1 for those that are not exchanged."""
    starts: Any
    """The neighbours of buffer i are `neighbours[starts[i]:starts[i + 1]]`."""
    neighbours: Any
    options: Any
    """[capacity, 1 where buffers with more live bytes in their sections come first]."""


class State(NamedTuple):
    offsets: Any
    """By buffer: the lowest offset on top of its placed neighbours, or the one that is fixed."""
    placed: Any
    results: Any
    """By buffer: its offset once it is placed."""
    ranks: Any
    """By buffer: its rank in its part. Of equal offsets the lower rank is tried first."""
    pressures: Any
    """By buffer: most live bytes in its sections when its part was ranked."""
    floors: Any
    """By section: the end of the highest placed buffer."""
    owners: Any
    """By section: that buffer."""
    live: Any
    """By section: bytes that are not placed yet."""
    cuts: Any
    """By section: unplaced buffers that live in this one and in the next one."""
    least: Any
    """By section: the lowest offset that an unplaced buffer can have."""
    tops: Any
    """By class: the buffer that was placed last, or -1."""
    tops_before: Any
    trail: Any
    """What was written, to be restored: [where, former value] one after the other."""
    counts: Any
    """[entries of the trail, numbers in `pool`, numbers in `parts`, nodes, numbers in
    `candidates`, depth]."""
    pool: Any
    """Members of the parts of all frames, each part by rank."""
    parts: Any
    """[first in the pool, members, first section, end] of the parts of all frames."""
    candidates: Any
    """Of all frames, by offset and rank."""


class Frames(NamedTuple):
    """By depth."""

    first: Any
    """Members of the frame's part: `pool[first:first + size]`."""
    size: Any
    begin: Any
    """Sections [begin, end) of the part."""
    end: Any
    level: Any
    """The offset that was placed last: no lower one follows."""
    level_rank: Any
    """Its rank: at the same offset only higher ones follow."""
    candidate: Any
    """Its candidates are `candidates[candidate:candidate_end]`; the first of them is next."""
    candidate_end: Any
    candidate_begin: Any
    trail: Any
    """Entries of the trail before its candidate."""
    pool: Any
    """Numbers in the pool before its candidate."""
    offset: Any
    """Of its candidate."""
    rank: Any
    parts: Any
    """Where its parts begin."""
    part_count: Any
    part: Any
    """Those that are solved."""
    is_split: Any
    """Whether its parts are ranked anew."""


TRAIL, POOL, PARTS, NODES, CANDIDATES, DEPTH = range(6)
COUNTS = 6
CAPACITY, BY_PRESSURE = range(2)


def begin_search(problem, state, frames, members):
    """`members` live in one connected range of sections, all of which they fill."""
    begin, end = INFINITY, 0
    for k in range(len(members)):
        i = members[k]
        state.pool[k] = i
        begin, end = min(begin, problem.firsts[i]), max(end, problem.lasts[i])
    for k in range(COUNTS):
        state.counts[k] = 0
    for i in range(len(problem.fixed)):
        state.offsets[i] = max(0, problem.fixed[i])
    state.counts[POOL] = len(members)
    rank_members(problem, state, 0, len(members))
    open_frame(problem, state, frames, 0, 0, len(members), 0, -1, begin, end)


def search(problem, state, frames, node_limit):
    """FOUND, with offsets in `state.results`; IMPOSSIBLE; or LIMIT."""
    depth = state.counts[DEPTH]
    while True:
        at = frames.candidate[depth]
        if at >= frames.candidate_end[depth]:  # nothing is left to try
            state.counts[CANDIDATES] = frames.candidate_begin[depth]
            depth -= 1
            if depth < 0:
                return IMPOSSIBLE
            undo(problem, state, frames.trail[depth])
            state.counts[POOL] = frames.pool[depth]
            state.counts[PARTS] = frames.parts[depth]
            continue
        buffer = state.candidates[at]
        offset = state.offsets[buffer]
        if is_same_plan(problem, state, buffer, offset):
            frames.candidate[depth] = at + 1
            continue
        if state.counts[NODES] >= node_limit or is_full(state, frames.size[depth]):
            state.counts[DEPTH] = depth
            return LIMIT
        frames.candidate[depth] = at + 1
        state.counts[NODES] += 1
        frames.trail[depth] = state.counts[TRAIL]
        frames.offset[depth] = offset
        frames.rank[depth] = state.ranks[buffer]
        if not (put(problem, state, buffer, offset) and is_possible(problem, state, frames, depth)):
            undo(problem, state, frames.trail[depth])
            continue
        split(problem, state, frames, depth, buffer)
        while frames.part[depth] == frames.part_count[depth]:  # this part is solved
            state.counts[CANDIDATES] = frames.candidate_begin[depth]
            depth -= 1
            if depth < 0:
                return FOUND
            frames.part[depth] += 1
            if frames.is_split[depth]:
                last = frames.parts[depth] + 4 * (frames.part_count[depth] - 1)
                state.counts[POOL] = state.parts[last] + state.parts[last + 1]
        at = frames.parts[depth] + 4 * frames.part[depth]
        open_frame(
            problem,
            state,
            frames,
            depth + 1,
            state.parts[at],
            state.parts[at + 1],
            frames.offset[depth],
            -1 if frames.is_split[depth] else frames.rank[depth],
            state.parts[at + 2],
            state.parts[at + 3],
        )
        depth += 1


def is_full(state, size):
    """Whether a part of so many members may have no room in the pools."""
    return (
        state.counts[POOL] + size > len(state.pool)
        or state.counts[CANDIDATES] + size > len(state.candidates)
        or 2 * (state.counts[TRAIL] + size) > len(state.trail)
    )


def rank_members(problem, state, first, size):
    """Sorts a part of the pool: most live bytes first, where these count, then static ranks."""
    by_pressure = problem.options[BY_PRESSURE] > 0
    for k in range(first, first + size):
        i = state.pool[k]
        pressure = 0
        if by_pressure:
            for section in range(problem.firsts[i], problem.lasts[i]):
                pressure = max(pressure, state.live[section])
        state.pressures[i] = pressure
        at = k - 1
        while at >= first:
            other = state.pool[at]
            more = state.pressures[other] - pressure
            if more > 0 or (more == 0 and problem.static[other] < problem.static[i]):
                break
            state.pool[at + 1] = other
            at -= 1
        state.pool[at + 1] = i
    ranks = 2 * len(problem.sizes) + 2 * len(state.floors)
    for k in range(first, first + size):
        i = state.pool[k]
        note(state, ranks + i, state.ranks[i])
        state.ranks[i] = k - first


def open_frame(problem, state, frames, depth, first, size, level, level_rank, begin, end):
    """A frame for a part, with its candidates by offset and rank."""
    frames.first[depth] = first
    frames.size[depth] = size
    frames.begin[depth] = begin
    frames.end[depth] = end
    frames.level[depth] = level
    frames.level_rank[depth] = level_rank
    live, ceiling, fixed_offset = 0, INFINITY, INFINITY
    for section in range(begin, end):
        live = max(live, state.live[section])
    for k in range(first, first + size):
        i = state.pool[k]
        if state.placed[i]:
            continue
        if problem.fixed[i] >= 0:
            fixed_offset = min(fixed_offset, state.offsets[i])
        else:
            ceiling = min(ceiling, state.offsets[i] + problem.sizes[i])
    highest = min(problem.options[CAPACITY] - live, fixed_offset)
    start = state.counts[CANDIDATES]
    stop = start
    for k in range(first, first + size):
        i = state.pool[k]
        if state.placed[i]:
            continue
        offset = state.offsets[i]
        if offset > highest or (offset >= ceiling and problem.fixed[i] < 0):
            continue
        if offset < level or (offset == level and state.ranks[i] <= level_rank):
            continue
        at = stop - 1
        while at >= start and state.offsets[state.candidates[at]] > offset:
            state.candidates[at + 1] = state.candidates[at]
            at -= 1
        state.candidates[at + 1] = i
        stop += 1
    frames.candidate_begin[depth] = start
    frames.candidate[depth] = start
    frames.candidate_end[depth] = stop
    state.counts[CANDIDATES] = stop


def is_same_plan(problem, state, buffer, offset):
    """Whether a plan with the buffer at this offset is like another one that is tried as well."""
    twin = problem.twins[buffer]
    if twin >= 0 and not state.placed[twin]:
        return True
    kind = problem.classes[buffer]
    if kind < 0 or offset == 0:
        return False
    below = state.tops[kind]
    if (
        below >= 0
        and problem.static[buffer] < problem.static[below]
        and state.results[below] + problem.sizes[below] == offset
    ):
        return True
    # It would lie on a buffer of some of its sections only, and could lie below that.
    first, last = problem.firsts[buffer], problem.lasts[buffer]
    below = -1
    for section in range(first, last):
        if state.floors[section] == offset:
            below = state.owners[section]
            break
    if below < 0 or problem.classes[below] < 0:
        return False
    inner, end = problem.firsts[below], problem.lasts[below]
    if inner < first or end > last or end - inner == last - first:
        return False
    for section in range(first, last):
        if (section < inner or section >= end) and state.floors[section] > state.results[below]:
            return False
    return True


def put(problem, state, buffer, offset):
    """Places a buffer; False where something has no room any more."""
    capacity = problem.options[CAPACITY]
    size = problem.sizes[buffer]
    top = offset + size
    n, sections = len(problem.sizes), len(state.floors)
    first, last = problem.firsts[buffer], problem.lasts[buffer]
    state.placed[buffer] = 1
    state.results[buffer] = offset
    kind = problem.classes[buffer]
    if kind >= 0:
        state.tops_before[buffer] = state.tops[kind]
        state.tops[kind] = buffer
    note(state, n + 2 * sections + buffer, 0)
    fits = top <= capacity
    for section in range(first, last):
        state.live[section] -= size
        if section + 1 < last:
            state.cuts[section] -= 1
        note(state, n + section, state.floors[section])
        note(state, n + sections + section, state.owners[section])
        state.floors[section] = top
        state.owners[section] = buffer
        if state.live[section] > 0 and top + state.live[section] > capacity:
            fits = False
    if not fits:
        return False
    for k in range(problem.starts[buffer], problem.starts[buffer + 1]):
        i = problem.neighbours[k]
        if state.placed[i]:
            continue
        lowest = top + -top % problem.alignments[i]
        if lowest <= state.offsets[i]:
            continue
        if lowest + problem.sizes[i] > capacity or problem.fixed[i] >= 0:
            return False
        note(state, i, state.offsets[i])
        state.offsets[i] = lowest
    return True


def note(state, where, value):
    at = state.counts[TRAIL]
    state.trail[2 * at] = where
    state.trail[2 * at + 1] = value
    state.counts[TRAIL] = at + 1


def undo(problem, state, entries):
    """Restores what was written since the trail had so many entries."""
    n, sections = len(problem.sizes), len(state.floors)
    at = state.counts[TRAIL]
    while at > entries:
        at -= 1
        where, value = state.trail[2 * at], state.trail[2 * at + 1]
        if where < n:
            state.offsets[where] = value
        elif where < n + sections:
            state.floors[where - n] = value
        elif where < n + 2 * sections:
            state.owners[where - n - sections] = value
        elif where < 2 * n + 2 * sections:
            take_away(problem, state, where - n - 2 * sections)
        else:
            state.ranks[where - 2 * n - 2 * sections] = value
    state.counts[TRAIL] = at


def take_away(problem, state, buffer):
    state.placed[buffer] = 0
    if problem.classes[buffer] >= 0:
        state.tops[problem.classes[buffer]] = state.tops_before[buffer]
    last = problem.lasts[buffer]
    for section in range(problem.firsts[buffer], last):
        state.live[section] += problem.sizes[buffer]
        if section + 1 < last:
            state.cuts[section] += 1


def is_possible(problem, state, frames, depth):
    """Whether in every section the unplaced bytes fit above the lowest of their buffers."""
    # Most of a search's time is here: no name is looked up in a loop that need not be.
    level, rank = frames.offset[depth], frames.rank[depth]
    first, size = frames.first[depth], frames.size[depth]
    begin, end = frames.begin[depth], frames.end[depth]
    capacity = problem.options[CAPACITY]
    placed, offsets, ranks, least = state.placed, state.offsets, state.ranks, state.least
    sizes, starts, neighbours = problem.sizes, problem.starts, problem.neighbours
    for section in range(begin, end):
        least[section] = INFINITY
    for k in range(first, first + size):
        i = state.pool[k]
        if placed[i]:
            continue
        lowest = offsets[i]
        if problem.fixed[i] >= 0:
            if lowest < level:
                return False
        elif lowest < level or (lowest == level and ranks[i] < rank):
            lowest = INFINITY  # it has to rest on something that is not placed yet
            for at in range(starts[i], starts[i + 1]):
                j = neighbours[at]
                if not placed[j]:
                    floor = offsets[j]
                    floor = (level if floor < level else floor) + sizes[j]
                    if floor < lowest:
                        lowest = floor
            if lowest + sizes[i] > capacity:
                return False
        for section in range(problem.firsts[i], problem.lasts[i]):
            if lowest < least[section]:
                least[section] = lowest
    live = state.live
    for section in range(begin, end):
        if live[section] > 0 and least[section] + live[section] > capacity:
            return False
    return True


def split(problem, state, frames, depth, buffer):
    """The unplaced members of a part, as parts that share no section."""
    first, size = frames.first[depth], frames.size[depth]
    section, end = frames.begin[depth], frames.end[depth]
    parts, pool = state.counts[PARTS], state.counts[POOL]
    frames.parts[depth], frames.pool[depth], frames.part[depth] = parts, pool, 0
    frames.is_split[depth] = 0
    if is_connected(problem, state, buffer):
        frames.part_count[depth] = 1
        state.parts[parts] = first
        state.parts[parts + 1] = size
        state.parts[parts + 2] = section
        state.parts[parts + 3] = end
        state.counts[PARTS] = parts + 4
        return
    frames.is_split[depth] = 1
    count = 0
    while section < end:
        if state.live[section] == 0:
            section += 1
            continue
        stop = section + 1
        while stop < end and state.cuts[stop - 1] > 0:
            stop += 1
        members = 0
        for k in range(first, first + size):
            i = state.pool[k]
            if not state.placed[i] and section <= problem.firsts[i] < stop:
                state.pool[pool + members] = i
                members += 1
        at = parts + 4 * count
        state.parts[at] = pool
        state.parts[at + 1] = members
        state.parts[at + 2] = section
        state.parts[at + 3] = stop
        rank_members(problem, state, pool, members)
        pool += members
        count += 1
        section = stop
    frames.part_count[depth] = count
    state.counts[POOL] = pool
    state.counts[PARTS] = parts + 4 * count


def is_connected(problem, state, buffer):
    """Whether the part of a buffer that was just placed is still one."""
    first, last = problem.firsts[buffer], problem.lasts[buffer]
    if state.live[first] == 0 or state.live[last - 1] == 0:
        return False
    for section in range(first, last - 1):  # noqa: SIM110  (numba compiles no generator)
        if state.cuts[section] == 0:
            return False
    return True
