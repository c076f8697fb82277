"""Tiles of layers again, when it is known what stays on the chip and which layer is before.

    tiles of 3 rows, 169 cycles by itself, waits for a bank of the tensor that stays
 => tiles of 5 rows, 214 cycles by itself, of which 180 run while the layer before ends

A search for tiles sees a layer by itself, which waits for its weights and micro-operations and
loads its inputs from global memory. Here every layer, from the first to the last, gets those tiles
of a few that end soonest in a program of it and the layer before. They are kept if the whole
program takes fewer cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from explorer.backends.npu.writing import Joined, LeftBehind, Written
from explorer.npu.cost.prediction import Timeline, end_cycle
from explorer.targets.npu.machine import Machine

TilesAt = TypeVar("TilesAt")
Write = Callable[[int, TilesAt, LeftBehind | None], Written]
"""A layer, by its number, in such tiles, after the layer before."""


@dataclass(eq=False)
class Beginning(Generic[TilesAt]):
    """The layers of a program up to one."""

    tiles: TilesAt
    """Of the last of them."""
    before: Beginning[TilesAt] | None
    """Without the last of them."""
    written: Written | None
    """None once it is known what it leaves: instructions take much memory."""
    joined: Joined
    following: dict[int, Beginning[TilesAt]] = field(default_factory=dict)
    """With one layer more, by the identity of its tiles."""
    _left_behind: LeftBehind | None = None

    @property
    def left_behind(self) -> LeftBehind:
        if self._left_behind is None:
            assert self.written is not None
            self._left_behind = self.written.left_behind(self.joined.steps)
            self.written = None
        return self._left_behind

    def end_cycle(self, machine: Machine) -> int:
        """Of the last layer in a program of it and the one before."""
        if self.joined.end_cycle is None:
            before, steps = self.before, self.joined.steps
            self.joined.end_cycle = (
                end_cycle(machine, steps) if before is None else before.left_behind.end_cycle(steps)
            )
        return self.joined.end_cycle


class Programs(Generic[TilesAt]):
    """Programs of `count` layers; layers with which several of them begin are written once."""

    def __init__(self, machine: Machine, count: int, write: Write[TilesAt]) -> None:
        self._machine, self._count, self._write = machine, count, write
        self._first: dict[int, Beginning[TilesAt]] = {}

    def cost(self, chosen: Sequence[TilesAt]) -> tuple[int, int]:
        """Cycles and bytes of all layers in one program."""
        before, size, timeline = None, 0, Timeline(self._machine)
        for step, tiles in enumerate(chosen):
            before = self._after(before, step, tiles)
            size += before.joined.bytes
            timeline.run(before.joined.steps, is_last=False)
        return timeline.run(()), size

    def refined(
        self, chosen: Sequence[TilesAt], options: Callable[[int], Sequence[TilesAt]]
    ) -> list[TilesAt]:
        """For each layer the best of `chosen` and of other options, in an order of first to
        last."""
        found: list[TilesAt] = []
        before = None
        for step, known in enumerate(chosen):
            tried = [self._after(before, step, tiles) for tiles in (known, *options(step))]
            best = tried[0]
            if len(tried) > 1:
                best = min(tried, key=lambda one: one.end_cycle(self._machine))
            following = self._following(before)
            following.clear()  # the others are asked for no more
            following.update((id(one.tiles), one) for one in (tried[0], best))
            found.append(best.tiles)
            before = best
        return found

    def _following(self, before: Beginning[TilesAt] | None) -> dict[int, Beginning[TilesAt]]:
        return self._first if before is None else before.following

    def _after(
        self, before: Beginning[TilesAt] | None, step: int, tiles: TilesAt
    ) -> Beginning[TilesAt]:
        following = self._following(before)
        if id(tiles) not in following:
            left = None if before is None else before.left_behind
            written = self._write(step, tiles, left)
            made = written.joined(left, step + 1 == self._count)
            made.instructions = made.owners = ()
            following[id(tiles)] = Beginning(tiles, before, written, made)
        return following[id(tiles)]
