"""What lies in the scratchpads during a layer: buffers from their first write to their last use.

    step                      activations 0..79   activations 512..591
    load activations 0..79    opens
    multiply (reads 0..79)    goes on
    load activations 512..                        opens          the second buffer, meanwhile
    load activations 0..79    closes, opens anew

A load and the first products open a buffer where they write, and close what lay there. Every other
step uses what lies where it reads and writes, or opens a buffer where nothing lies yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.npu.cost.prediction import StepTime
from explorer.npu.cost.steps import ON_CHIP
from explorer.results.runs.counted import ScratchpadRecord, ScratchpadUse
from explorer.targets.npu.machine import KEPT_AS, Machine

MAX_USES = 200
"""Of a layer: as many as can be told apart in a picture."""


@dataclass(kw_only=True)
class _Open:
    content: str
    first: int
    last: int
    start: int
    ready: int
    end: int

    def meets(self, content: str, first: int, last: int) -> bool:
        return self.content == content and self.first <= last and first <= self.last


def uses_of(
    times: Iterable[StepTime], machine: Machine, before: int = 0
) -> tuple[tuple[ScratchpadUse, ...], int]:
    """Those of a layer, and how many more there are; cycles are `before` later."""
    live: list[_Open] = []
    every: list[_Open] = []
    for time in sorted(times, key=lambda one: one.start_cycle):
        inside = time.step.what.endswith(ON_CHIP)
        is_transfer = time.step.dma >= 0 or inside
        is_store = time.step.what.removesuffix(ON_CHIP) == "outputs"
        is_fresh = is_transfer and not is_store
        for place, (content, first, last) in enumerate(time.step.extents):
            name = KEPT_AS.get(content, content)
            met = [one for one in live if one.meets(name, first, last)]
            # What a transfer on the chip reads or writes there is the second of its ends.
            is_new = is_store if inside and place else is_fresh
            if is_new or (time.step.replaces and place == SUMS_PLACE):
                live = [one for one in live if one not in met]
                met = []
            for one in met:
                one.end = max(one.end, time.end_cycle)
            if not met:
                opened = _Open(
                    content=name,
                    first=first,
                    last=last,
                    start=time.start_cycle,
                    ready=time.end_cycle,
                    end=time.end_cycle,
                )
                live.append(opened)
                every.append(opened)
    found = tuple(_use(one, machine, before) for one in every[:MAX_USES])
    return found, len(every) - len(found)


SUMS_PLACE = 1
"""Of the extents of products: the accumulators they write follow their micro-operations."""


def _use(one: _Open, machine: Machine, before: int) -> ScratchpadUse:
    space = machine.by_content[one.content]
    return ScratchpadUse(
        scratchpad=machine.scratchpads[space.memory].name,
        content=one.content,
        first_element=one.first,
        last_element=one.last,
        offset_bytes=one.first * space.element_bytes,
        size_bytes=(one.last - one.first + 1) * space.element_bytes,
        start_cycle=before + one.start,
        ready_cycle=before + one.ready,
        end_cycle=before + one.end,
    )


def scratchpads_of(machine: Machine) -> tuple[ScratchpadRecord, ...]:
    return tuple(
        ScratchpadRecord(name=pad.name, size_bytes=pad.size_bytes or 0, banks=pad.banks)
        for pad in machine.scratchpads
    )
