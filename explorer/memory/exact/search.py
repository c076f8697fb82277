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

A node costs what it changes, not the size of the problem. The unplaced members of a part are kept
sorted by offset and rank, in its *line*: the next candidate is the next one there, and those before
it are all that lie below the level. Every section has a *witness*, an unplaced buffer that is low
enough for all unplaced bytes above it. Only where the witness is placed or rises, another one is
looked for.
"""

from __future__ import annotations

from bisect import bisect_left
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
    by_static: Any
    """The buffer of every static rank."""
    twins: Any
    """The equal buffer of the next lower static rank, or -1."""
    classes: Any
    """The same number for the same sections; -1 for those that are not exchanged."""
    starts: Any
    """The neighbours of buffer i are `neighbours[starts[i]:starts[i + 1]]`."""
    neighbours: Any
    section_starts: Any
    """The buffers of section s are `residents[section_starts[s]:section_starts[s + 1]]`."""
    residents: Any
    options: Any
    """[capacity, 1 where buffers with more live bytes in their sections come first, 1 where some
    buffer is fixed]."""


class State(NamedTuple):
    offsets: Any
    """By buffer: the lowest offset on top of its placed neighbours, or the one that is fixed."""
    placed: Any
    results: Any
    """By buffer: its offset once it is placed."""
    ranks: Any
    """By buffer: its rank in its part. Of equal offsets the lower rank is tried first."""
    floors: Any
    """By section: the end of the highest placed buffer."""
    owners: Any
    """By section: that buffer."""
    live: Any
    """By section: bytes that are not placed yet."""
    cuts: Any
    """By section: unplaced buffers that live in this one and in the next one."""
    witnesses: Any
    """By section: an unplaced buffer that is low enough for all unplaced bytes, or -1."""
    lowest: Any
    """By buffer below the level: the lowest offset that it can have."""
    tops: Any
    """By class: the buffer that was placed last, or -1."""
    tops_before: Any
    trail: Any
    """What was written, to be restored: [where, former value] one after the other."""
    counts: Any
    """[entries of the trail, numbers in `pool`, numbers in `parts`, nodes, depth]."""
    pool: Any
    """Members of the parts of all frames, each part by rank."""
    line: Any
    """Where a part is in the pool: its unplaced members as ascending keys, which are the offset
    times the number of all buffers and the rank. A rank leads to the buffer in the pool."""
    parts: Any
    """[first in the pool, members, first section, end] of the parts of all frames."""


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
    left: Any
    """Unplaced members: the part's line is `line[first:first + left]`."""
    start: Any
    """Place in the line of the first candidate."""
    candidate: Any
    """Place in the line of what is tried next."""
    ceiling: Any
    """The lowest end that a member before that place can have: from there on nothing is tried."""
    fullest: Any
    """The section with the most unplaced bytes when that was last looked up, or -1."""
    most: Any
    """Those bytes: as long as that section has them, no other one has more."""
    trail: Any
    """Entries of the trail before its candidate."""
    trail_end: Any
    """Entries after the offsets of its candidate's neighbours."""
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


TRAIL, POOL, PARTS, NODES, DEPTH = range(5)
COUNTS = 5
CAPACITY, BY_PRESSURE, HAS_FIXED = range(3)


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
    for section in range(begin, end):
        find_witness(problem, state, section, 0, -1)
    open_frame(problem, state, frames, 0, 0, len(members), len(members), 0, -1, begin, end)


def search(problem, state, frames, node_limit):
    """FOUND, with offsets in `state.results`; IMPOSSIBLE; or LIMIT."""
    depth = state.counts[DEPTH]
    while True:
        if not find_candidate(problem, state, frames, depth):  # nothing is left to try
            depth -= 1
            if depth < 0:
                return IMPOSSIBLE
            if not frames.is_split[depth]:
                restore_line(state, frames, depth)
            undo(problem, state, frames.trail[depth])
            state.counts[POOL] = frames.pool[depth]
            state.counts[PARTS] = frames.parts[depth]
            pass_over(problem, state, frames, depth)
            continue
        if state.counts[NODES] >= node_limit or is_full(state, frames.size[depth]):
            state.counts[DEPTH] = depth
            return LIMIT
        at = frames.first[depth] + frames.candidate[depth]
        rank = state.line[at] % len(state.offsets)
        buffer = state.pool[frames.first[depth] + rank]
        offset = state.offsets[buffer]
        state.counts[NODES] += 1
        frames.trail[depth] = state.counts[TRAIL]
        frames.offset[depth] = offset
        frames.rank[depth] = rank
        fits = put(problem, state, buffer, offset)
        frames.trail_end[depth] = state.counts[TRAIL]
        if not (fits and is_possible(problem, state, frames, depth, buffer)):
            undo(problem, state, frames.trail[depth])
            pass_over(problem, state, frames, depth)
            continue
        split(problem, state, frames, depth, buffer)
        while frames.part[depth] == frames.part_count[depth]:  # this part is solved
            depth -= 1
            if depth < 0:
                return FOUND
            frames.part[depth] += 1
            if frames.is_split[depth]:
                last = frames.parts[depth] + 4 * (frames.part_count[depth] - 1)
                state.counts[POOL] = state.parts[last] + state.parts[last + 1]
        at = frames.parts[depth] + 4 * frames.part[depth]
        is_split = frames.is_split[depth]
        size = state.parts[at + 1]
        open_frame(
            problem,
            state,
            frames,
            depth + 1,
            state.parts[at],
            size,
            size if is_split else frames.left[depth] - 1,
            frames.offset[depth],
            -1 if is_split else frames.rank[depth],
            state.parts[at + 2],
            state.parts[at + 3],
        )
        depth += 1


def find_candidate(problem, state, frames, depth):
    """Whether the frame has something to try, which is then at its `candidate`.

    A frame returns here after a failure, and its former candidate is passed over.
    """
    n, first, left = len(state.offsets), frames.first[depth], frames.left[depth]
    while frames.candidate[depth] < left:
        key = state.line[first + frames.candidate[depth]]
        offset, rank = key // n, key % n
        buffer = state.pool[first + rank]
        is_higher = offset > frames.level[depth] and frames.candidate[depth] > frames.start[depth]
        if is_higher and offset + most_live(state, frames, depth) > problem.options[CAPACITY]:
            return False
        is_below = offset < frames.ceiling[depth] or problem.fixed[buffer] >= 0
        if not is_below and not problem.options[HAS_FIXED]:
            return False
        if is_below and not is_same_plan(problem, state, buffer, offset):
            return True
        pass_over(problem, state, frames, depth)
    return False


def most_live(state, frames, depth):
    """The most unplaced bytes in a section of the frame's part."""
    fullest = frames.fullest[depth]
    if fullest < 0 or state.live[fullest] < frames.most[depth]:
        most = -1
        for section in range(frames.begin[depth], frames.end[depth]):
            if state.live[section] > most:
                fullest, most = section, state.live[section]
        frames.fullest[depth], frames.most[depth] = fullest, most
    return frames.most[depth]


def pass_over(problem, state, frames, depth):
    """Leaves the frame's candidate below the level of what is tried after it."""
    n, first = len(state.offsets), frames.first[depth]
    key = state.line[first + frames.candidate[depth]]
    frames.candidate[depth] += 1
    buffer = state.pool[first + key % n]
    if problem.fixed[buffer] < 0:
        frames.ceiling[depth] = min(frames.ceiling[depth], key // n + problem.sizes[buffer])


def is_full(state, size):
    """Whether a part of so many members may have no room in the pools."""
    notes = size + 1 + len(state.offsets) + 3 * len(state.floors)
    return state.counts[POOL] + size > len(state.pool) or 2 * (state.counts[TRAIL] + notes) > len(
        state.trail
    )


def rank_members(problem, state, first, size):
    """Sorts a part of the pool: most live bytes first, where these count, then static ranks. Its
    line has all of it."""
    by_pressure = problem.options[BY_PRESSURE] > 0
    n, end = len(problem.sizes), first + size
    for k in range(first, end):
        i = state.pool[k]
        pressure = 0
        if by_pressure:
            for section in range(problem.firsts[i], problem.lasts[i]):
                pressure = max(pressure, state.live[section])
        state.line[k] = problem.static[i] - pressure * n
    state.line[first:end] = sorted(state.line[first:end])
    ranks = 2 * n + 2 * len(state.floors)
    for k in range(first, end):
        i = problem.by_static[state.line[k] % n]
        state.pool[k] = i
        note(state, ranks + i, state.ranks[i])
        state.ranks[i] = k - first
        state.line[k] = state.offsets[i] * n + k - first
    state.line[first:end] = sorted(state.line[first:end])


def open_frame(problem, state, frames, depth, first, size, left, level, level_rank, begin, end):
    """A frame for a part, with its first candidate: the lowest one above the level."""
    frames.first[depth] = first
    frames.size[depth] = size
    frames.left[depth] = left
    frames.begin[depth] = begin
    frames.end[depth] = end
    frames.fullest[depth] = -1
    if depth > 0 and not frames.is_split[depth - 1]:
        frames.fullest[depth] = frames.fullest[depth - 1]
        frames.most[depth] = frames.most[depth - 1]
    frames.level[depth] = level
    n = len(state.offsets)
    start = bisect_left(state.line, level * n + level_rank + 1, first, first + left)
    ceiling = INFINITY
    for at in range(first, start):
        key = state.line[at]
        i = state.pool[first + key % n]
        if problem.fixed[i] < 0:
            ceiling = min(ceiling, key // n + problem.sizes[i])
    frames.ceiling[depth] = ceiling
    frames.start[depth] = start - first
    frames.candidate[depth] = start - first


def move_in_line(state, first, left, before, after):
    """Replaces a key of a line by another one, at the place where that belongs."""
    line = state.line
    old = bisect_left(line, before, first, first + left)
    new = bisect_left(line, after, first, first + left)
    if before < after:
        new -= 1
        line[old:new] = line[old + 1 : new + 1]
    else:
        line[new + 1 : old + 1] = line[new:old]
    line[new] = after


def change_line(state, frames, depth):
    """Takes the candidate out of its part's line, and moves what rose above it."""
    n, first, left = len(state.offsets), frames.first[depth], frames.left[depth]
    at, end = first + frames.candidate[depth], first + left
    state.line[at : end - 1] = state.line[at + 1 : end]
    for k in range(frames.trail[depth], frames.trail_end[depth]):
        i = state.trail[2 * k]
        if i < n:
            before, after = state.trail[2 * k + 1], state.offsets[i]
            rank = state.ranks[i]
            move_in_line(state, first, left - 1, before * n + rank, after * n + rank)


def restore_line(state, frames, depth):
    """Undoes `change_line`, while the offsets are still those after the candidate was put."""
    n, first, left = len(state.offsets), frames.first[depth], frames.left[depth]
    for k in range(frames.trail[depth], frames.trail_end[depth]):
        i = state.trail[2 * k]
        if i < n:
            before, after = state.offsets[i], state.trail[2 * k + 1]
            rank = state.ranks[i]
            move_in_line(state, first, left - 1, before * n + rank, after * n + rank)
    at, end = first + frames.candidate[depth], first + left
    state.line[at + 1 : end] = state.line[at : end - 1]
    state.line[at] = frames.offset[depth] * n + frames.rank[depth]


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
        elif where < 3 * n + 2 * sections:
            state.ranks[where - 2 * n - 2 * sections] = value
        else:
            state.witnesses[where - 3 * n - 2 * sections] = value
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


def is_possible(problem, state, frames, depth, buffer):
    """Whether in every section the unplaced bytes fit above the lowest of their buffers, after
    `buffer` was put."""
    # Most of a search's time is here: no name is looked up in a loop that need not be.
    level, rank = frames.offset[depth], frames.rank[depth]
    first = frames.first[depth]
    below = first + frames.candidate[depth]
    capacity = problem.options[CAPACITY]
    firsts, lasts, sizes = problem.firsts, problem.lasts, problem.sizes
    n, pool = len(state.offsets), state.pool
    line, offsets, ranks, placed = state.line, state.offsets, state.ranks, state.placed
    witnesses, live = state.witnesses, state.live
    for k in range(first, below):
        i = pool[first + line[k] % n]
        if offsets[i] > level or (offsets[i] == level and ranks[i] > rank):
            continue
        if problem.fixed[i] >= 0:
            if offsets[i] < level:
                return False
            continue
        # It has to rest on something that is not placed yet.
        lowest = INFINITY
        for at in range(problem.starts[i], problem.starts[i + 1]):
            j = problem.neighbours[at]
            if not placed[j]:
                floor = offsets[j]
                floor = (level if floor < level else floor) + sizes[j]
                if floor < lowest:
                    lowest = floor
        if lowest + sizes[i] > capacity:
            return False
        state.lowest[i] = lowest
    for section in range(firsts[buffer], lasts[buffer]):
        if live[section] > 0 and not has_witness(problem, state, section, level, rank):
            return False
    for k in range(first, below):
        i = pool[first + line[k] % n]
        for section in range(firsts[i], lasts[i]):
            if witnesses[section] == i and not has_witness(problem, state, section, level, rank):
                return False
    for k in range(frames.trail[depth], frames.trail_end[depth]):
        i = state.trail[2 * k]
        if i < n:
            for section in range(firsts[i], lasts[i]):
                if witnesses[section] == i and not has_witness(
                    problem, state, section, level, rank
                ):
                    return False
    return True


def has_witness(problem, state, section, level, rank):
    """Whether some unplaced buffer of a section is low enough; it becomes the witness."""
    i = state.witnesses[section]
    if i >= 0 and not state.placed[i]:
        lowest = state.offsets[i]
        if lowest < level or (lowest == level and state.ranks[i] < rank):
            lowest = lowest if problem.fixed[i] >= 0 else state.lowest[i]
        if lowest + state.live[section] <= problem.options[CAPACITY]:
            return True
    return find_witness(problem, state, section, level, rank)


def find_witness(problem, state, section, level, rank):
    """Looks for a witness of a section among all its buffers; the first one is as good as any."""
    highest = problem.options[CAPACITY] - state.live[section]
    placed, offsets, ranks = state.placed, state.offsets, state.ranks
    for k in range(problem.section_starts[section], problem.section_starts[section + 1]):
        i = problem.residents[k]
        if placed[i]:
            continue
        lowest = offsets[i]
        if lowest < level or (lowest == level and ranks[i] < rank):
            lowest = lowest if problem.fixed[i] >= 0 else state.lowest[i]
        if lowest <= highest:
            where = 3 * len(offsets) + 2 * len(state.floors) + section
            note(state, where, state.witnesses[section])
            state.witnesses[section] = i
            return True
    return False


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
        change_line(state, frames, depth)
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
