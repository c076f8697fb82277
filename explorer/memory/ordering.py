"""The order of launches in which the fewest bytes live at once.

    a -> b -> c           a: 100 bytes, b: 10, d: 100, e: 10
    d -> e -> c           a d b e c      210 bytes live while b is made
                          a b d e c      120 bytes: b is made, and a is gone, before d begins

States are sets of launches that are done; the search takes the state with the lowest peak first
(Dijkstra's algorithm with the maximum in the place of the sum), so that the first complete order is
the best one. A launch that raises neither the peak nor what lives afterwards is taken at once:
later it could only be worse, since what it frees and makes does not depend on the others that are
done in between. Beyond a number of launches that are looked at, a beam goes on: of each length the
states with the lowest peaks. Nothing depends on time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from explorer.memory.places import Place
from explorer.memory.uses import Use

MAX_LOOKED_AT = 40_000
"""Launches that the exact search may look at: less than a second."""
BEAM_WIDTH = 16
"""States of each length that the beam keeps."""
MAX_BEAM_LOOKED_AT = 200_000
"""Launches that the beam may look at; a longer program keeps its order."""

Method = Literal["given", "exact", "beam"]


@dataclass(frozen=True)
class Order:
    """An order of launches, by their numbers in the given one."""

    steps: tuple[int, ...]
    peak_bytes: int
    """Bytes live at most."""
    method: Method
    """`given`: the given order needs no more than its fullest launch; `exact`: no order needs
    fewer bytes; `beam`: the best one that was found."""
    looked_at: int = 0


@dataclass
class Ordering:
    """Launches with what they wait for, and buffers with the launches that touch them."""

    uses: Sequence[Use]
    places: Mapping[str, Place]
    touched: list[tuple[int, ...]]
    """By launch its buffers."""
    scratch: list[int]
    sizes: list[int]
    """By buffer."""
    touching: list[int]
    """By buffer the set of launches that read or write it, as bits."""
    is_given: list[bool]
    """Buffers that are there before the first launch."""
    is_kept: list[bool]
    """Buffers that are there after the last one."""

    @cached_property
    def before(self) -> list[int]:
        """By launch the set of those that come before it, as bits."""
        found: list[int] = []
        known: dict[str, dict[str, list[int]]] = {}
        """By storage and value the launches that read it, and those that write it."""
        for step, use in enumerate(self.uses):
            mask, own = 0, 1 << step
            pairs = [(value, False) for value in use.reads] + [(v, True) for v in use.writes]
            for value, writes in pairs:
                place = self.places[value]
                others = known.setdefault(place.storage, {})
                for other, (readers, writers) in others.items():
                    if other == value or place.meets(self.places[other]):
                        mask |= writers | (readers if writes else 0)
                others.setdefault(value, [0, 0])[writes] |= own
            found.append(mask & ~own)
        return found

    @cached_property
    def after(self) -> list[list[int]]:
        """By launch those that wait for it."""
        found: list[list[int]] = [[] for _ in self.before]
        for step, mask in enumerate(self.before):
            for earlier in _bits(mask):
                found[earlier].append(step)
        return found

    @classmethod
    def of(
        cls,
        uses: Sequence[Use],
        places: Mapping[str, Place],
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        alignment_bytes: int = 1,
    ) -> Ordering:
        """Of a program's launches in order; `places`: bytes of every value.

        A launch comes after those that write what it reads, and after those that read or write
        what it writes.
        """
        buffers: dict[str, int] = {}
        sizes: list[int] = []
        touching: list[int] = []

        def aligned(size_bytes: int) -> int:
            return -(-size_bytes // alignment_bytes) * alignment_bytes

        def buffer(value: str) -> int:
            storage = places[value].storage
            if storage not in buffers:
                buffers[storage] = len(sizes)
                sizes.append(0)
                touching.append(0)
            index = buffers[storage]
            sizes[index] = max(sizes[index], aligned(places[value].end))
            return index

        given = {buffer(value) for value in inputs}
        touched = []
        for step, use in enumerate(uses):
            own = dict.fromkeys(buffer(value) for value in (*use.reads, *use.writes))
            for index in own:
                touching[index] |= 1 << step
            touched.append(tuple(own))
        kept = {buffer(value) for value in outputs}
        return cls(
            uses=uses,
            places=places,
            touched=touched,
            scratch=[sum(map(aligned, use.scratch_bytes)) for use in uses],
            sizes=sizes,
            touching=touching,
            is_given=[i in given for i in range(len(sizes))],
            is_kept=[i in kept for i in range(len(sizes))],
        )

    # -- what lives ----------------------------------------------------------------------------
    @property
    def live_at_first(self) -> int:
        used = zip(self.sizes, self.is_given, self.touching, self.is_kept, strict=True)
        return sum(size for size, given, mask, kept in used if given and (mask or kept))

    @cached_property
    def born(self) -> list[list[tuple[int, int]]]:
        """By launch the buffers that it may be the first to touch: bytes, and who touches them."""
        return self._buffers_without(self.is_given)

    @cached_property
    def freed(self) -> list[list[tuple[int, int]]]:
        """By launch the buffers that it may be the last to touch: bytes, and who touches them."""
        return self._buffers_without(self.is_kept)

    def _buffers_without(self, left_out: Sequence[bool]) -> list[list[tuple[int, int]]]:
        return [
            [(self.sizes[i], self.touching[i]) for i in touched if not left_out[i]]
            for touched in self.touched
        ]

    def live_with(self, done: int, live: int, step: int) -> tuple[int, int]:
        """Bytes that live during a launch after those that are done, and after it."""
        for size, touching in self.born[step]:
            if not touching & done:
                live += size
        left, waiting = live, ~(done | 1 << step)
        for size, touching in self.freed[step]:
            if not touching & waiting:
                left -= size
        return live + self.scratch[step], left

    def peak_of(self, steps: Sequence[int]) -> int:
        done, live, peak = 0, self.live_at_first, self.live_at_first
        for step in steps:
            during, live = self.live_with(done, live, step)
            peak = max(peak, during)
            done |= 1 << step
        return peak

    @property
    def least_peak(self) -> int:
        """No order needs fewer bytes: each launch needs its own buffers."""
        alone = [
            sum(self.sizes[i] for i in touched) + scratch
            for touched, scratch in zip(self.touched, self.scratch, strict=True)
        ]
        return max([self.live_at_first, *alone])


def best_order(problem: Ordering, limit: int = MAX_LOOKED_AT) -> Order:
    """The order with the lowest peak: the given one where none is better."""
    given = tuple(range(len(problem.uses)))
    peak = problem.peak_of(given)
    if peak <= problem.least_peak:
        return Order(given, peak, "given")
    found = _exact(problem, limit)
    if found is None:
        found = _beam(problem)
    if found is None or found.peak_bytes >= peak:
        method: Method = "exact" if found is not None and found.method == "exact" else "given"
        return Order(given, peak, method, 0 if found is None else found.looked_at)
    return found


def _exact(problem: Ordering, limit: int) -> Order | None:
    """The best order; None where too many launches would have to be looked at."""
    everything = (1 << len(problem.before)) - 1
    queue: list[tuple[int, int, int, _State, int | None]] = [(0, 0, 0, _first(problem), None)]
    seen: set[int] = set()
    looked_at = count = 0
    while queue:
        *_, state, taken = heapq.heappop(queue)
        done = state.done if taken is None else state.done | 1 << taken
        if done in seen:
            continue
        seen.add(done)
        if taken is not None:
            state = _after(problem, state, taken)
        state, looked = _with_safe_launches(problem, state)
        looked_at += looked
        if state.done == everything:
            return Order(state.steps(), state.peak, "exact", looked_at)
        if looked_at > limit:
            return None
        size = -state.done.bit_count() - 1
        for step in state.ready:
            looked_at += 1
            if state.done | 1 << step not in seen:
                count += 1
                during, _ = problem.live_with(state.done, state.live, step)
                heapq.heappush(queue, (max(state.peak, during), size, count, state, step))
    return None


def _beam(problem: Ordering) -> Order | None:
    """The best order that a beam finds; None for a program that is too long for it."""
    everything = (1 << len(problem.before)) - 1
    states = [_first(problem)]
    looked_at = 0
    best: _State | None = None
    while states:
        following: dict[int, _State] = {}
        for state in states:
            for step in state.ready:
                looked_at += 1
                found, looked = _with_safe_launches(problem, _after(problem, state, step))
                looked_at += looked
                if found.done == everything:
                    best = found if best is None or found.peak < best.peak else best
                    continue
                known = following.get(found.done)
                if known is None or found.peak < known.peak:
                    following[found.done] = found
        if looked_at > MAX_BEAM_LOOKED_AT:
            break
        ranked = sorted(following.values(), key=lambda s: (s.peak, s.live, -s.done.bit_count()))
        states = ranked[:BEAM_WIDTH]
    return None if best is None else Order(best.steps(), best.peak, "beam", looked_at)


@dataclass(frozen=True, eq=False)
class _State:
    """Launches that are done, and how one came there."""

    done: int
    live: int
    peak: int
    ready: tuple[int, ...]
    parent: tuple[_State, int] | None

    def steps(self) -> tuple[int, ...]:
        steps: list[int] = []
        state = self
        while state.parent is not None:
            state, step = state.parent
            steps.append(step)
        return tuple(reversed(steps))


def _first(problem: Ordering) -> _State:
    ready = tuple(step for step, mask in enumerate(problem.before) if not mask)
    return _State(0, problem.live_at_first, problem.live_at_first, ready, None)


def _after(problem: Ordering, state: _State, step: int) -> _State:
    during, left = problem.live_with(state.done, state.live, step)
    done = state.done | 1 << step
    ready = [s for s in state.ready if s != step]
    ready += [s for s in problem.after[step] if not problem.before[s] & ~done]
    return _State(done, left, max(state.peak, during), tuple(sorted(ready)), (state, step))


def _with_safe_launches(problem: Ordering, state: _State) -> tuple[_State, int]:
    """After all launches that raise neither the peak nor what lives; how many were looked at."""
    looked_at = 0
    found = True
    while found:
        found = False
        for step in state.ready:
            looked_at += 1
            during, left = problem.live_with(state.done, state.live, step)
            if during <= state.peak and left <= state.live:
                state, found = _after(problem, state, step), True
                break
    return state, looked_at


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
