"""The search: every buffer at an offset below a capacity, or the proof that there is no such plan.

Buffers are placed from the bottom up: each on top of what is placed, at offsets that never
decrease. After every placement what is left falls into parts that share no step; each is solved by
itself. The frame of canonical solutions, section floors, dominance and decomposition is that of
Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning"
(ASPLOS 2023). A branch is cut where

- an offset and the bytes that are still to be placed in one step exceed the capacity;
- in some step the lowest offset that any unplaced buffer can have, and all its unplaced bytes,
  exceed it. A buffer below the level must rest on another one that is not placed yet;
- another unplaced buffer would fit completely below: it may lie there in every such plan;
- buffers of one offset, equal buffers, and buffers of the same steps that lie on one another are
  in another order than that of their ranks: the plans are the same but for their names;
- a buffer lies on one that lives in some of its steps only, and the two could be exchanged.

All state is in arrays of integers, and frames stand on a stack of their own, so that numba can
compile the module where it is installed; without it the same code runs on lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

FOUND, IMPOSSIBLE, LIMIT = 1, 0, -1
"""A plan was found; there is none; the limit of nodes was reached."""
INFINITY = 1 << 62
ANYWHERE = -1
"""Of a buffer that has no fixed offset."""

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba  # pyright: ignore[reportMissingImports]  (an extra)
    import numpy as np
except ImportError:  # the same search on lists
    numba = np = None


def kernel(function: Function) -> Function:
    if numba is None:
        return function
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # no folder for its cache can be written
        return numba.njit(function)


def integers(values: Sequence[int]) -> Any:
    """An array where the search is compiled, else a list."""
    return list(values) if np is None else np.array(values, np.int64)


class Problem(NamedTuple):
    """Buffers by number."""

    sizes: Any
    firsts: Any
    """Steps [first, last)."""
    lasts: Any
    alignments: Any
    fixed: Any
    """Their offset, or `ANYWHERE`."""
    ranks: Any
    """Which is tried first among buffers of one offset."""
    twins: Any
    """The equal buffer of the next lower rank, or -1."""
    classes: Any
    """The same number for the same steps."""
    starts: Any
    """The neighbours of buffer i are `neighbours[starts[i]:starts[i + 1]]`."""
    neighbours: Any


class State(NamedTuple):
    offsets: Any
    """By buffer: the lowest offset on top of its placed neighbours."""
    placed: Any
    results: Any
    """By buffer: its offset once it is placed."""
    lowest: Any
    """By unplaced buffer: no plan has it lower; of use while a node is judged."""
    floors: Any
    """By step: the end of the highest placed buffer."""
    owners: Any
    """By step: that buffer."""
    live: Any
    """By step: bytes that are not placed yet."""
    least: Any
    """By step: the lowest of `lowest`."""
    tops: Any
    """By class: the buffer that was placed last, or -1."""
    tops_before: Any
    trail: Any
    """What was written, to be restored: [where, former value] one after the other."""
    counts: Any
    """[entries of the trail, numbers in the pool, numbers in parts, nodes]."""
    pool: Any
    """Members of the parts of all frames."""
    parts: Any
    """[first in the pool, members] of the parts of all frames."""


class Frames(NamedTuple):
    """By depth."""

    first: Any
    """Members of the frame's part: `pool[first:first + size]`."""
    size: Any
    level: Any
    """The offset that was placed last: no lower one follows."""
    level_rank: Any
    """Its rank: at the same offset only higher ones follow."""
    tried: Any
    tried_rank: Any
    """Offset and rank of the candidate that was tried last."""
    trail: Any
    """Entries of the trail before its candidate."""
    pool: Any
    """Numbers in the pool before its candidate, and `pool_after` with its parts."""
    pool_after: Any
    offset: Any
    """Of its candidate."""
    parts: Any
    """Where its parts begin."""
    part_count: Any
    part: Any
    """Those that are solved."""


TRAIL, POOL, PARTS, NODES = range(4)


@kernel
def search(problem, state, frames, members, capacity, node_limit):
    """FOUND, with offsets in `state.results`; IMPOSSIBLE; or LIMIT.

    `members` live in one connected range of steps, in the order of their first steps.
    """
    count = len(members)
    for i in range(count):
        state.pool[i] = members[i]
    state.counts[TRAIL] = 0
    state.counts[POOL] = count
    state.counts[PARTS] = 0
    state.counts[NODES] = 0
    open_frame(frames, 0, 0, count, 0, -1)
    depth = 0
    while True:
        buffer = next_candidate(problem, state, frames, depth, capacity)
        if buffer < 0:  # nothing is left to try
            depth -= 1
            if depth < 0:
                return IMPOSSIBLE
            undo(problem, state, frames.trail[depth])
            state.counts[POOL] = frames.pool[depth]
            state.counts[PARTS] = frames.parts[depth]
            continue
        offset = frames.tried[depth]
        if is_exchangeable(problem, state, buffer, offset):
            continue
        state.counts[NODES] += 1
        if state.counts[NODES] > node_limit:
            return LIMIT
        frames.trail[depth] = state.counts[TRAIL]
        if not (
            put(problem, state, buffer, offset, capacity)
            and is_possible(problem, state, frames, depth, offset, capacity)
        ):
            undo(problem, state, frames.trail[depth])
            continue
        split(problem, state, frames, depth)
        frames.offset[depth] = offset
        while frames.part[depth] == frames.part_count[depth]:  # this part is solved
            depth -= 1
            if depth < 0:
                return FOUND
            frames.part[depth] += 1
            state.counts[POOL] = frames.pool_after[depth]
            state.counts[PARTS] = frames.parts[depth] + 2 * frames.part_count[depth]
        at = frames.parts[depth] + 2 * frames.part[depth]
        level, rank = frames.offset[depth], frames.tried_rank[depth]
        open_frame(frames, depth + 1, state.parts[at], state.parts[at + 1], level, rank)
        depth += 1


@kernel
def open_frame(frames, depth, first, size, level, rank):
    frames.first[depth] = first
    frames.size[depth] = size
    frames.level[depth] = level
    frames.level_rank[depth] = rank
    frames.tried[depth] = -1
    frames.tried_rank[depth] = -1


@kernel
def next_candidate(problem, state, frames, depth, capacity):
    """The next buffer of a part by offset and rank, noted as tried; -1 where there is none."""
    first, size = frames.first[depth], frames.size[depth]
    ceiling, fixed_offset, live = INFINITY, INFINITY, 0
    for k in range(first, first + size):
        i = state.pool[k]
        if problem.fixed[i] >= 0:
            fixed_offset = min(fixed_offset, problem.fixed[i])
        else:
            ceiling = min(ceiling, state.offsets[i] + problem.sizes[i])
        live = max(live, state.live[problem.firsts[i]])
    highest = min(capacity - live, fixed_offset)
    level, level_rank = frames.level[depth], frames.level_rank[depth]
    tried, tried_rank = frames.tried[depth], frames.tried_rank[depth]
    found, best, best_rank = -1, INFINITY, INFINITY
    for k in range(first, first + size):
        i = state.pool[k]
        is_free = problem.fixed[i] < 0
        offset = state.offsets[i] if is_free else problem.fixed[i]
        rank = problem.ranks[i]
        if offset > highest or (is_free and offset >= ceiling):
            continue
        if offset < level or (offset == level and rank <= level_rank):
            continue
        if offset < tried or (offset == tried and rank <= tried_rank):
            continue
        if offset > best or (offset == best and rank >= best_rank):
            continue
        twin = problem.twins[i]
        if twin >= 0 and not state.placed[twin]:
            continue
        kind = problem.classes[i]
        below = state.tops[kind] if kind >= 0 else -1
        if (
            below >= 0
            and rank < problem.ranks[below]
            and state.results[below] + problem.sizes[below] == offset
        ):
            continue
        found, best, best_rank = i, offset, rank
    if found >= 0:
        frames.tried[depth] = best
        frames.tried_rank[depth] = best_rank
    return found


@kernel
def is_exchangeable(problem, state, buffer, offset):
    """Whether it would lie on a buffer of some of its steps only, and could lie below that."""
    if offset == 0 or problem.classes[buffer] < 0:
        return False
    first, last = problem.firsts[buffer], problem.lasts[buffer]
    below = -1
    for step in range(first, last):
        if state.floors[step] == offset:
            below = state.owners[step]
            break
    if below < 0 or problem.classes[below] < 0:
        return False
    inner, end = problem.firsts[below], problem.lasts[below]
    if inner < first or end > last or end - inner == last - first:
        return False
    for step in range(first, last):
        if (step < inner or step >= end) and state.floors[step] > state.results[below]:
            return False
    return True


@kernel
def put(problem, state, buffer, offset, capacity):
    """Places a buffer; False where something has no room any more."""
    size = problem.sizes[buffer]
    top = offset + size
    n, steps = len(problem.sizes), len(state.floors)
    state.placed[buffer] = 1
    state.results[buffer] = offset
    kind = problem.classes[buffer]
    if kind >= 0:
        state.tops_before[buffer] = state.tops[kind]
        state.tops[kind] = buffer
    note(state, n + 2 * steps + buffer, 0)
    fits = top <= capacity
    for step in range(problem.firsts[buffer], problem.lasts[buffer]):
        state.live[step] -= size
    for step in range(problem.firsts[buffer], problem.lasts[buffer]):
        note(state, n + step, state.floors[step])
        note(state, n + steps + step, state.owners[step])
        state.floors[step] = top
        state.owners[step] = buffer
        if state.live[step] > 0 and top + state.live[step] > capacity:
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
        note(state, i, state.offsets[i])
        state.offsets[i] = lowest
        if lowest + problem.sizes[i] > capacity or 0 <= problem.fixed[i] < lowest:
            return False
    return True


@kernel
def note(state, where, value):
    at = state.counts[TRAIL]
    state.trail[2 * at] = where
    state.trail[2 * at + 1] = value
    state.counts[TRAIL] = at + 1


@kernel
def undo(problem, state, entries):
    """Restores what was written since the trail had so many entries."""
    n, steps = len(problem.sizes), len(state.floors)
    at = state.counts[TRAIL]
    while at > entries:
        at -= 1
        where, value = state.trail[2 * at], state.trail[2 * at + 1]
        if where < n:
            state.offsets[where] = value
        elif where < n + steps:
            state.floors[where - n] = value
        elif where < n + 2 * steps:
            state.owners[where - n - steps] = value
        else:
            buffer = where - n - 2 * steps
            state.placed[buffer] = 0
            if problem.classes[buffer] >= 0:
                state.tops[problem.classes[buffer]] = state.tops_before[buffer]
            for step in range(problem.firsts[buffer], problem.lasts[buffer]):
                state.live[step] += problem.sizes[buffer]
    state.counts[TRAIL] = at


@kernel
def is_possible(problem, state, frames, depth, level, capacity):
    """Whether in every step the unplaced bytes fit above the lowest of their buffers."""
    first, size = frames.first[depth], frames.size[depth]
    rank = frames.tried_rank[depth]
    begin, end = INFINITY, 0
    for k in range(first, first + size):
        i = state.pool[k]
        if state.placed[i]:
            continue
        lowest = state.offsets[i]
        if problem.fixed[i] >= 0:
            lowest = problem.fixed[i]
            if lowest < level:
                return False
        elif lowest < level or (lowest == level and problem.ranks[i] < rank):
            lowest = INFINITY  # it has to rest on something that is not placed yet
            for at in range(problem.starts[i], problem.starts[i + 1]):
                j = problem.neighbours[at]
                if not state.placed[j]:
                    lowest = min(lowest, max(state.offsets[j], level) + problem.sizes[j])
            if lowest + problem.sizes[i] > capacity:
                return False
        state.lowest[i] = lowest
        begin, end = min(begin, problem.firsts[i]), max(end, problem.lasts[i])
    for step in range(begin, end):
        state.least[step] = INFINITY
    for k in range(first, first + size):
        i = state.pool[k]
        if not state.placed[i]:
            lowest = state.lowest[i]
            for step in range(problem.firsts[i], problem.lasts[i]):
                state.least[step] = min(state.least[step], lowest)
    for step in range(begin, end):
        if state.live[step] > 0 and state.least[step] + state.live[step] > capacity:
            return False
    return True


@kernel
def split(problem, state, frames, depth):
    """The unplaced members of a part, as parts that share no step."""
    first, size = frames.first[depth], frames.size[depth]
    frames.parts[depth] = state.counts[PARTS]
    frames.pool[depth] = state.counts[POOL]
    begin, at, count, end = state.counts[PARTS], state.counts[POOL], 0, -1
    for k in range(first, first + size):
        i = state.pool[k]
        if state.placed[i]:
            continue
        if problem.firsts[i] >= end:
            state.parts[begin + 2 * count] = at
            state.parts[begin + 2 * count + 1] = 0
            count += 1
        end = max(end, problem.lasts[i])
        state.pool[at] = i
        at += 1
        state.parts[begin + 2 * count - 1] += 1
    frames.part_count[depth] = count
    frames.part[depth] = 0
    frames.pool_after[depth] = at
    state.counts[POOL] = at
    state.counts[PARTS] = begin + 2 * count
