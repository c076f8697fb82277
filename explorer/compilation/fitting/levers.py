"""Levers: decisions that take less memory where it is fullest, with what they would cost.

step conv_5 has 442,880 bytes live, 294,912 of them scratch of winograd4
-> schedule-loops/conv_3x3_2/schedule = direct           147,968 bytes at this step
   stream-rows/chain/add_7 = conv_4:8:roll               142,336 bytes around this step
   assign-layouts/blocked/conv_4 = 0                     431,104 bytes at this step
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.compilation.fitting.chains import rank_of, regions_of
from explorer.compilation.fitting.program import Program
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.structure import own_functions
from explorer.ir.top.data import ConvertLayoutOp, WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.types import layout_of, static_shape
from explorer.kernels.passes import ScheduleLoops
from explorer.memory.planning import buffer_bytes
from explorer.passes.lower.assign_layouts import RESIDUAL_HALO, AssignLayouts
from explorer.passes.lower.recompute import AGAIN, Recompute
from explorer.passes.lower.stream_rows import CHAIN, StreamRows

SCHEDULE, LAYOUT, RECOMPUTE, BANDS = "schedule", "layout", "recompute", "bands"
SHARED = "bands"
"""The choice of a kernel that says how many parts of its work share scratch."""
FREE_MICROSECONDS = 0.1
MAX_OF_A_KIND = 4
"""Levers of one kind that are offered at a step."""


@dataclass(frozen=True)
class Lever:
    """Decisions to take, the address of the main one first; None takes one back."""

    kind: str
    decisions: tuple[tuple[str, str | int | None], ...]
    size_bytes: int
    """Live at once where memory is fullest now, as far as is known before compiling."""
    microseconds: float
    """What it costs, as far as is known before compiling."""
    is_costly: bool = False
    """It computes much again, so that others come first."""

    @property
    def address(self) -> str:
        return self.decisions[0][0]

    @property
    def value(self) -> str | int | None:
        return self.decisions[0][1]


def levers_of(
    program: Program, whole: Program, fixed: Mapping[str, object], limit: int
) -> list[Lever]:
    """The levers at the fullest step: those that cost nothing, then those that bring it below the
    limit, cheapest first, then the others, those that save most first; at last those that compute
    much again.

    whole: the same program without bands; fixed: decisions that a person has taken.
    """
    found = [
        *_schedules(program),
        *list(_layouts(program))[:MAX_OF_A_KIND],
        *list(_recomputed(program))[:MAX_OF_A_KIND],
        *_bands(program, whole, limit),
    ]
    legal = [lever for lever in found if not any(a in fixed for a, _ in lever.decisions)]
    useful = [lever for lever in legal if lever.size_bytes < program.bound_bytes]
    return sorted(
        useful,
        key=lambda lever: (
            lever.is_costly,
            # Kernels get other names by other layouts: schedules are decided afterwards.
            1 + (lever.kind == SCHEDULE) if lever.microseconds <= FREE_MICROSECONDS else 3,
            rank_of(lever.size_bytes, lever.microseconds, limit, f"{lever.address}={lever.value}"),
        ),
    )


def _schedules(program: Program) -> Iterator[Lever]:
    """Other schedules of the kernel that has scratch at the fullest step: fewer tasks, each with
    scratch of its own, or ones that need none."""
    step = program.fullest_step
    operation = program.plan.steps[step]
    scratch = sum(
        placed.buffer.size_bytes
        for placed in program.plan.placements
        if placed.buffer.id.startswith(f"{operation}/scratch_")
    )
    kernel = program.kernels.get(operation, "")
    knob = program.knobs.get(f"{ScheduleLoops.name}/{kernel}/schedule")
    if not scratch or knob is None:
        return
    seconds = program.seconds.get(operation, 0.0)
    shared = program.knobs.get(f"{ScheduleLoops.name}/{kernel}/{SHARED}")
    if shared is not None and isinstance(shared.value, int):
        for bands in sorted(c for c in shared.choices if isinstance(c, int) and c > shared.value):
            kept = -(-scratch * shared.value // bands)
            yield Lever(
                SCHEDULE, ((shared.address, bands),), program.bound_bytes - scratch + kept, 0.0
            )
    others = () if shared is None else ((shared.address, None),)
    for choice in knob.choices:
        if choice != knob.value and isinstance(choice, str | int):
            yield Lever(
                SCHEDULE,
                ((knob.address, choice), *others),
                program.bound_bytes - scratch,
                seconds * 1e6,
            )


def _layouts(program: Program) -> Iterator[Lever]:
    """Narrower blocks for values whose channels are rounded up, or for all values."""
    yield from _over_residual(program)
    yield from _without_conversion(program)
    saved_by_all = 0
    for value in program.live_values:
        layout, shape = layout_of(value), static_shape(value)
        if not layout.block or len(shape) != 4:
            continue
        size = buffer_bytes(value)
        rounded = -(-shape[1] // layout.block) * layout.block
        saved = size - size * shape[1] // rounded
        saved_by_all += saved
        knob = program.knobs.get(f"{AssignLayouts.name}/blocked/{program.name_of(value)}")
        if not saved or knob is None:
            continue
        choices = (c for c in knob.choices if isinstance(c, int) and c < layout.block)
        for block in sorted(choices, reverse=True):
            kept = -(-shape[1] // block) * block if block else shape[1]
            yield Lever(
                LAYOUT,
                ((knob.address, block),),
                program.bound_bytes - (size - size * kept // rounded),
                2e6 * program.seconds.get(program.name_of(value), 0.0),
            )
    if not saved_by_all:
        return
    for function in own_functions(program.laid_out.program):
        knob = program.knobs.get(f"{AssignLayouts.name}/block/{function.sym_name.data}")
        if knob is None or not isinstance(knob.value, int):
            continue
        total = 1e6 * sum(program.seconds.values())
        narrower = [c for c in knob.choices if isinstance(c, int) and c < knob.value]
        for place, block in enumerate(sorted(narrower, reverse=True)):
            yield Lever(
                LAYOUT,
                ((knob.address, block),),
                program.bound_bytes - saved_by_all,
                total * (1 + place),
            )


def _over_residual(program: Program) -> Iterator[Lever]:
    """Where the fullest step adds a residual with another halo: the same halo, so that the result
    is written over it."""
    step = program.plan.steps[program.fullest_step]
    knob = program.knobs.get(f"{AssignLayouts.name}/{RESIDUAL_HALO}/{step}")
    if knob is None or knob.value is True:
        return
    for function in own_functions(program.laid_out.program):
        for op in function.body.block.ops:
            if isinstance(op, ConvOp) and identity_of(op) == step:
                yield Lever(
                    LAYOUT,
                    ((knob.address, True),),
                    program.bound_bytes - buffer_bytes(op.output),
                    0.0,
                )


def _without_conversion(program: Program) -> Iterator[Lever]:
    """Where the fullest step copies a value into another layout: that layout from the start."""
    step = program.plan.steps[program.fullest_step]
    for function in own_functions(program.laid_out.program):
        for op in function.body.block.ops:
            if not isinstance(op, ConvertLayoutOp) or identity_of(op) != step:
                continue
            name = program.name_of(op.input)
            knob = program.knobs.get(f"{AssignLayouts.name}/blocked/{name}")
            block = layout_of(op.output).block
            if knob is not None and block in knob.choices:
                yield Lever(
                    LAYOUT,
                    ((knob.address, block),),
                    program.bound_bytes - buffer_bytes(op.input),
                    1e6 * program.seconds.get(name, 0.0),
                )


def _recomputed(program: Program) -> Iterator[Lever]:
    """Cheap operations with results that live at the fullest step and are read later."""
    step = program.fullest_step
    live = {program.name_of(value) for value in program.live_values}
    own = program.plan.steps[step]
    for value in program.live_values:
        name, op = program.name_of(value), value.owner
        knob = program.knobs.get(f"{Recompute.name}/{AGAIN}/{name}")
        if knob is None or knob.value is True or name == own or not isinstance(op, TopOperation):
            continue
        made_of = [o for o in op.operands if not isinstance(o.owner, WeightOp)]
        more = sum(buffer_bytes(o) for o in made_of if program.name_of(o) not in live)
        yield Lever(
            RECOMPUTE,
            ((knob.address, True),),
            program.bound_bytes - buffer_bytes(value) + more,
            1e6 * program.seconds.get(name, 0.0),
        )


def _bands(program: Program, whole: Program, limit: int) -> list[Lever]:
    """Chains around the fullest step in bands, or in more bands than now."""
    operation = program.plan.steps[program.fullest_step]
    present = program.chains
    inside = next((last for last, names in present.items() if operation in names), None)
    found: list[Lever] = []
    for region in regions_of(whole.laid_out, whole.plan, whole.seconds, whole.launch_seconds):
        taken = {
            last: (region.places[first], region.places[last])
            for last, first in program.chain_starts.items()
            if first in region.places and last in region.places
        }
        if inside in taken:
            core = taken[inside]
        elif operation in region.places:
            core = (region.places[operation], region.places[operation])
        else:
            continue
        counts = {False: 0, True: 0}
        for candidate in region.candidates(core, list(taken.values()), limit):
            begin, end = candidate.window
            meets = {last for last, (a, b) in taken.items() if begin <= a and b <= end}
            others = tuple((_address(m), None) for m in sorted(meets - {candidate.last}))
            main = (_address(candidate.last), candidate.value)
            if program.decisions.get(main[0]) == candidate.value:
                continue
            counts[candidate.is_costly] += 1
            if counts[candidate.is_costly] > MAX_OF_A_KIND:
                continue
            found.append(
                Lever(
                    BANDS,
                    (main, *others),
                    candidate.size_bytes,
                    candidate.microseconds,
                    candidate.is_costly,
                )
            )
    return found


def _address(last: str) -> str:
    return f"{StreamRows.name}/{CHAIN}/{last}"
