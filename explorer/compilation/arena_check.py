"""Whether a run keeps to its memory plan: a pattern in the arena before, and its bytes after.

    check_arena(compiled)
        -> (ArenaRecord(function="main_cpu", planned_bytes=14592, written_bytes=14592, ...),)

The highest byte that is written is the plan's peak, bytes of no live buffer stay as they are, and
the outputs do not depend on what lay in the arena before, which is what the functions before have
left: all share it. Only C programs are run this way: their memory is that of this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.accuracy.oracle import random_inputs
from explorer.backends.records import Opening
from explorer.compilation.compiled import Compiled
from explorer.errors import InputError
from explorer.kernels.program.build import BuiltProgram
from explorer.results import MemoryPlan
from explorer.results.runs.arena import ArenaRecord
from explorer.runtime.cache import default_cache
from explorer.runtime.executable import Executable
from explorer.runtime.native.shared_arena import SharedArena
from explorer.runtime.native.watching import GUARD_BYTES, WatchedProgram
from explorer.runtime.parts import open_parts


def check_arena(
    compiled: Compiled, inputs: Mapping[str, np.ndarray] | None = None
) -> tuple[ArenaRecord, ...]:
    """One record for every device function of a C program, with two runs each.

    `inputs`: by default seeded random ones. InputError where the target runs no C.
    """
    if compiled.backend.name != "c":
        raise InputError(
            f"the arena of {compiled.target.name} is not in this process",
            hint="a target that runs C, such as cpu",
        )
    watched: list[WatchedProgram] = []
    programs = [part.program for part in compiled.built.parts.values()] or [compiled.program]
    arena = SharedArena(max(program.arena_bytes for program in programs) + GUARD_BYTES)

    def open_part(part: BuiltProgram) -> Executable:
        maker = compiled.compiled_of(part.program)
        if maker.backend.name != "c":
            opening = Opening(name=compiled.model.name, cache=default_cache())
            return maker.backend.open(part, maker.device, opening)
        function, plan = plan_of(compiled, part)
        live = live_ranges(plan)
        peak = plan.peak_bytes
        program = WatchedProgram(part.program, part.weights, live, peak, function, arena)
        watched.append(program)
        return program

    if inputs is None:
        inputs = random_inputs(compiled.model, 0, compiled.settings.dimensions)
    with open_parts(compiled.built, open_part) as executable:
        executable.run(inputs)
    return tuple(record for program in watched for record in program.records)


def plan_of(compiled: Compiled, part: BuiltProgram) -> tuple[str, MemoryPlan]:
    """The function of a part and its plan."""
    names = [name for name, other in compiled.built.parts.items() if other is part]
    name = names[0] if names else next(iter(compiled.plans))
    return name, compiled.plans[name]


def live_ranges(plan: MemoryPlan) -> Sequence[Sequence[tuple[int, int]]]:
    """By step: bytes [first, end) of the buffers that live in it."""
    steps: list[list[tuple[int, int]]] = [[] for _ in plan.steps]
    for placed in plan.placements:
        place = (placed.offset_bytes, placed.offset_bytes + placed.buffer.size_bytes)
        for step in range(placed.buffer.first, min(placed.buffer.last, len(steps))):
            steps[step].append(place)
    return steps
