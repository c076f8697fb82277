"""A kernel on its way from the compute definition to source text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from explorer.results.displayed import Displayed
from explorer.results.source import SourceText


@dataclass(frozen=True)
class ScheduleStep:
    """One named, checked transformation of a loop nest, with the nest after it."""

    name: str
    """lower, split, reorder, accumulate, fuse, pack, vectorize, unroll, parallel ..."""
    arguments: tuple[tuple[str, str], ...]
    text: SourceText
    operations: int


@dataclass(frozen=True)
class ScheduleCall:
    """One application of a step, complete: what replaying it needs."""

    step: str
    """split, reorder, accumulate, fuse_producer ..."""
    arguments: tuple[tuple[str, str], ...]
    """(name, value as JSON)."""


@dataclass(frozen=True)
class PhaseRecord:
    """One parallel section of a kernel: `function(args, lo, hi)` runs tasks lo to hi."""

    function: str
    tasks: int
    group_items: int = 0
    """Work-items per work-group that the code is made for; 0: the runtime decides."""
    work_items: int = 0
    """Work-items of a launch where there are others than tasks: groups, whole ones; 0: `tasks`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelRecord(Displayed):
    name: str
    kind: str
    operations: tuple[str, ...]
    """Identities of the operations that launch it."""
    flops: int
    bytes_moved: int
    """Sizes of all arguments: the least traffic."""
    steps: tuple[ScheduleStep, ...]
    phases: tuple[PhaseRecord, ...]
    source: SourceText
    assembly: SourceText | None = None
    """What the device's compiler makes of it; None until asked for, or where there is none."""
    assembly_lines: tuple[tuple[int, ...], ...] = ()
    """For every line of `assembly` the lines of `source`, from 0, that it comes from."""
    assembly_note: str = ""
    """Why there is no assembly, or what to know about it."""
    calls: tuple[ScheduleCall, ...] = ()
    """The whole schedule; `steps` shows it with what came of it."""
    note: str = ""
    """Which schedules of its kind could not be applied, and why; mostly empty."""

    @property
    def schedule(self) -> list[dict[str, Any]]:  # values are JSON's: names, numbers, lists
        """The schedule as data: edited or not, `fork(schedule={name: ...})` takes it back."""
        return [
            {"step": call.step, **{name: json.loads(value) for name, value in call.arguments}}
            for call in self.calls
        ]
