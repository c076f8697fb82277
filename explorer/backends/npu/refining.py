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
from typing import TypeVar

from explorer.backends.npu.writing import LeftBehind, Written, end_cycle
from explorer.npu.cost.network import LayerSteps, predict_network
from explorer.targets.npu.machine import Machine

TilesAt = TypeVar("TilesAt")
Write = Callable[[int, TilesAt, LeftBehind | None], Written]
"""A layer, by its number, in such tiles, after the layer before."""


def program_cycles(machine: Machine, chosen: Sequence[TilesAt], write: Write[TilesAt]) -> int:
    """Of all layers in one program."""
    before, found = None, list[LayerSteps]()
    for step, tiles in enumerate(chosen):
        written = write(step, tiles, before)
        _, steps = written.in_program(before, step + 1 == len(chosen))
        before = written.left_behind(steps.steps)
        found.append(steps)
    return predict_network(machine, found).cycles


def refined(
    machine: Machine,
    chosen: Sequence[TilesAt],
    options: Callable[[int], Sequence[TilesAt]],
    write: Write[TilesAt],
) -> list[TilesAt]:
    """For each layer the best of `chosen` and of other options, in an order of first to last."""
    found: list[TilesAt] = []
    before = None
    for step, known in enumerate(chosen):
        is_last, best = step + 1 == len(chosen), None
        tried = [known, *options(step)]
        for tiles in tried:
            written = write(step, tiles, before)
            _, steps = written.in_program(before, is_last)
            cycles = 0
            if len(tried) > 1:
                earlier = () if before is None else before.steps
                cycles = end_cycle(machine, [*earlier, *steps.steps])
            if best is None or cycles < best[0]:
                best = cycles, tiles, written, steps.steps
        assert best is not None
        _, tiles, written, steps = best
        found.append(tiles)
        before = written.left_behind(steps)
    return found
