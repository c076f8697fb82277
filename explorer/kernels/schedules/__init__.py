"""Schedules: which steps a kernel gets, by the family that it belongs to.

    schedule_kernel(function, Machine(16, "c"), {"x": blocked_pack(16), "y": blocked_pack(16)})
        -> ScheduledKernel(steps=(lower, split, reorder, accumulate, fuse, pack, ...), choices=
           {"schedule": "direct", "vectors": 2, "pixels": 14, "rows": 1, "channel_unroll": 1})

convolution.py, matmul.py and plain.py hold the schedules, the cost model (kernels/cost) chooses
register tiles, choices.py lets a caller decide otherwise, schedule.py remembers the steps.

**Adding a schedule** is adding a file here and an entry to `KINDS`: docs/adding-a-schedule.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr

from explorer.ir.rewriting.copying import copy_operation
from explorer.kernels.kernel_cache import KernelCache
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError
from explorer.kernels.printing.languages import language_named
from explorer.kernels.schedules.attention import find_attention, schedule_attention
from explorer.kernels.schedules.choices import CHOOSE, Choices
from explorer.kernels.schedules.convolution import (
    is_blocked_convolution,
    schedule_convolution,
    schedule_depthwise,
)
from explorer.kernels.schedules.gpu.kinds import WHY_GROUPS, gpu_schedulers
from explorer.kernels.schedules.integers.blocked import (
    DENSE,
    DEPTHWISE,
    is_blocked_integer_convolution,
    schedule_integer_convolution,
    schedule_integer_depthwise,
)
from explorer.kernels.schedules.integers.byte_blocks import (
    is_product_of_byte_blocks,
    schedule_byte_blocks,
)
from explorer.kernels.schedules.integers.kinds import is_integer_product, schedule_integers
from explorer.kernels.schedules.integers.matmul import is_integer_matmul, schedule_integer_matmul
from explorer.kernels.schedules.listing import GIVEN, schedule_given
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import matrix_operands, schedule_matmul
from explorer.kernels.schedules.pixels import pixel_loops, schedule_pixels
from explorer.kernels.schedules.plain import schedule_plain
from explorer.kernels.schedules.schedule import Choice, Schedule, ScheduledKernel, Step
from explorer.kernels.schedules.statistics import find_row_statistics, schedule_statistics
from explorer.kernels.schedules.transposes import find_transposition, schedule_transposition
from explorer.kernels.schedules.unpacked import is_unpacked_product, schedule_unpacked
from explorer.kernels.schedules.winograd import convolution_schedulers, why_convolution
from explorer.kernels.steps.pack import Pack

PLAIN = "plain"
"""The schedule that every kernel can have."""
WHY_NO_VECTORS = "the target has no vectors, and other schedules tile for them"

FORMS = ("direct", "winograd2", "winograd4")
"""Schedules of convolutions between which a cost model chooses; the smallest code first."""

Scheduler = Callable[[Schedule, Machine, Mapping[str, Pack], Choices], None]


@dataclass(frozen=True, kw_only=True)
class ScheduleKind:
    """A schedule, and the kernels that it fits."""

    name: str
    """A value of the choice `schedule`."""
    why: str
    """Why it is the first that is offered."""
    families: tuple[str, ...]
    """Kinds of kernels, as compute definitions return them."""
    fits: Callable[[LoopNest, Mapping[str, Pack], Machine], object]
    """Whether a kernel of one of the families can have it; `packs` as in `schedule_kernel`."""
    use: Scheduler


def _is_dot_matmul(nest: LoopNest, packs: Mapping[str, Pack], machine: Machine) -> bool:
    return language_named(machine.language).has_dots and is_integer_matmul(nest, packs)


DEPTHWISE_WHY = "blocked channels: every vector of channels is filtered by itself"
DOT_WHY = "blocked channels: dot products of bytes, sums of whole vectors stay in registers"

KINDS: tuple[ScheduleKind, ...] = (
    ScheduleKind(
        name="direct",
        why="blocked channels: sums of whole vectors stay in registers",
        families=("grouped_convolution",),
        fits=lambda nest, packs, machine: is_blocked_convolution(nest, packs, "n g o i j c p q"),
        use=schedule_convolution,
    ),
    ScheduleKind(
        name="pixels",
        why="row-major: sums of vectors of pixels, for several channels, stay in registers",
        families=("convolution", "grouped_convolution"),
        fits=lambda nest, packs, machine: pixel_loops(nest, packs) is not None,
        use=schedule_pixels,
    ),
    ScheduleKind(
        name="depthwise",
        why=DEPTHWISE_WHY,
        families=("depthwise",),
        fits=lambda nest, packs, machine: is_blocked_convolution(nest, packs, "n o i j p q"),
        use=schedule_depthwise,
    ),
    ScheduleKind(
        name="tiled",
        why="a product of matrices: a tile of sums stays in registers",
        families=("matmul",),
        fits=lambda nest, packs, machine: matrix_operands(nest, packs) is not None,
        use=schedule_matmul,
    ),
    ScheduleKind(
        name="dot",
        why=DOT_WHY,
        families=("convolution",),
        fits=lambda nest, packs, machine: is_blocked_integer_convolution(nest, packs, DENSE),
        use=schedule_integer_convolution,
    ),
    ScheduleKind(
        name="depthwise",
        why=DEPTHWISE_WHY,
        families=("depthwise",),
        fits=lambda nest, packs, machine: is_blocked_integer_convolution(nest, packs, DEPTHWISE),
        use=schedule_integer_depthwise,
    ),
    ScheduleKind(
        name="dot",
        why=DOT_WHY,
        families=("matmul",),
        fits=_is_dot_matmul,
        use=schedule_integer_matmul,
    ),
    ScheduleKind(
        name="dot",
        why="bytes in blocks: dot products of a block stay in registers, where they are scaled",
        families=("matmul_byte_blocks",),
        fits=is_product_of_byte_blocks,
        use=schedule_byte_blocks,
    ),
    ScheduleKind(
        name="unpacked",
        why="weights in blocks: numbers are unpacked into registers, where sums stay, too",
        families=("matmul_blocks",),
        fits=lambda nest, packs, machine: is_unpacked_product(nest, packs),
        use=schedule_unpacked,
    ),
    ScheduleKind(
        name="rows",
        why="sums of integers: rows of them stay in registers",
        families=("convolution", "depthwise", "grouped_convolution", "matmul"),
        fits=lambda nest, packs, machine: is_integer_product(nest, packs),
        use=schedule_integers,
    ),
    ScheduleKind(
        name="statistics",
        why="every statement works row by row: a row stays in the nearest cache",
        families=("reduce",),
        fits=lambda nest, packs, machine: find_row_statistics(nest, packs) is not None,
        use=schedule_statistics,
    ),
    ScheduleKind(
        name="fused",
        why="scores of a tile of rows never leave the cache",
        families=("attention",),
        fits=lambda nest, packs, machine: find_attention(nest, packs),
        use=schedule_attention,
    ),
    ScheduleKind(
        name="blocks",
        why="rows become columns: a block of rows at a time, so that lines are used whole",
        families=("copy", "elementwise"),
        fits=lambda nest, packs, machine: find_transposition(nest, packs) is not None,
        use=schedule_transposition,
    ),
)
"""Of processors, the best first. Those of a GPU, and the forms of a convolution, which a cost model
puts in order, come before them."""

SCHEDULED = KernelCache[ScheduledKernel]()

WHY_OTHERS: Mapping[str, str] = {
    **WHY_GROUPS,
    "winograd2": "tiles of 2x2 outputs: 16 products each instead of 36",
    "winograd4": "tiles of 4x4 outputs: 36 products each instead of 144",
    PLAIN: "no schedule of its own kind fits this kernel",
}
"""Why a schedule that is of no kind is the first that is offered."""


def schedule_kernel(
    function: func.FuncOp,
    machine: Machine,
    packs: Mapping[str, Pack],
    choices: Mapping[str, Choice] | None = None,
    refused: Mapping[str, str] | None = None,
    tuned: str = "",
) -> ScheduledKernel:
    """Schedules a kernel made by `KernelBuilder`; the function itself is not changed.

    `packs` are the layouts of arguments that aren't row-major; the schedule adds those of weights.
    `choices` override what the schedule would choose (the result lists all of them); `refused`
    are schedules that are not offered, with the reason. Raises ScheduleError for choices that are
    illegal (its step is `CHOOSE`) and for layouts that the kernel cannot have. The choice `steps`
    is a whole list of them (see `listing`), unless `schedule` names another one. `tuned`: what a
    search says of the choices, where they come from one.
    """
    given = dict(choices or {})
    if given.get("schedule", GIVEN) == GIVEN and GIVEN in given:
        return _as_given(function, machine, packs, given)
    given.pop(GIVEN, None)
    schedule = Schedule(function)
    asked = Choices(schedule.nest.kernel, given, tuned or "an override")
    fitting = _schedulers(schedule.nest, packs, machine)
    offered = {name: use for name, use in fitting.items() if name not in (refused or {})}
    best = next(iter(offered))
    reasons = [f"not {other}: {reason}" for other, reason in (refused or {}).items()]
    predicted = why_convolution(schedule.nest, packs, machine) if best in FORMS else ""
    reason = {**WHY_OTHERS, **{kind.name: kind.why for kind in KINDS}}[best]
    why = f"{reason}; {predicted}" if predicted else reason
    why = WHY_NO_VECTORS if not machine.has_vectors else why
    name = asked.word("schedule", best, offered, "; ".join(reasons) or why)
    offered[name](schedule, machine, packs, asked)
    schedule.choices = asked.finish()
    schedule.knobs = tuple(asked.knobs)
    return replace(
        schedule.finish(packs),
        given=dict(choices or {}),
        given_packs=dict(packs),
        refused=dict(refused or {}),
        tuned=tuned,
    )


def schedule_once(
    function: func.FuncOp,
    machine: Machine,
    packs: Mapping[str, Pack],
    choices: Mapping[str, Choice],
    refused: Mapping[str, str] | None = None,
    tuned: str = "",
) -> ScheduledKernel:
    """As `schedule_kernel`; of an equal kernel that was asked for before, a copy.

    A list of steps is always followed: its steps may be a person's own.
    """
    if GIVEN in choices:
        return schedule_kernel(function, machine, packs, choices, refused, tuned)
    layouts = tuple((name, tuple(pack)) for name, pack in sorted(packs.items()))
    asked = (tuple(sorted(choices.items())), tuple((refused or {}).items()), tuned)
    kinds = tuple((kind.name, tuple(kind.families), kind.fits, kind.use) for kind in KINDS)
    found = SCHEDULED.get(
        function,
        (machine, layouts, asked, kinds),
        lambda: schedule_kernel(function, machine, packs, choices, refused, tuned),
    )
    return replace(found, function=copy_operation(found.function))


def _as_given(
    function: func.FuncOp,
    machine: Machine,
    packs: Mapping[str, Pack],
    given: Mapping[str, Choice],
) -> ScheduledKernel:
    """The kernel with the steps of a person's own; nothing else may be chosen then."""
    kernel = schedule_given(function, machine, packs, given[GIVEN])
    others = [name for name in given if name not in ("schedule", GIVEN)]
    if others:
        reason = f"{others[0]} = {given[others[0]]} has no effect beside a list of steps"
        raise ScheduleError(CHOOSE, kernel.name, reason)
    offered = (*_schedulers(LoopNest(lower_to_loops(function)), packs, machine), GIVEN)
    knobs = tuple(replace(knob, choices=offered) for knob in kernel.knobs)
    return replace(kernel, knobs=knobs, given=dict(given), given_packs=dict(packs))


def preferred_schedule(
    function: func.FuncOp,
    packs: Mapping[str, Pack],
    machine: Machine,
    refused: Collection[str] = (),
) -> str:
    """The schedule that a kernel gets where nothing is overridden and some may be refused."""
    found = _schedulers(Schedule(function).nest, packs, machine)
    return next(name for name in found if name not in refused)


def _schedulers(
    nest: LoopNest, packs: Mapping[str, Pack], machine: Machine
) -> dict[str, Scheduler]:
    """The schedules that fit a kernel, the best first; the plain one always does."""
    if not machine.has_vectors:
        return {PLAIN: schedule_plain}
    return _fast_schedulers(nest, packs, machine) | {PLAIN: schedule_plain}


def _fast_schedulers(
    nest: LoopNest, packs: Mapping[str, Pack], machine: Machine
) -> dict[str, Scheduler]:
    """Those that tile for registers."""
    kind = nest.function.attributes.get("kernel.kind")
    family = kind.data if isinstance(kind, StringAttr) else "plain"
    offered: dict[str, Scheduler] = gpu_schedulers(nest, packs, family, machine)
    if family == "convolution" and is_blocked_convolution(nest, packs, "n o i j c p q"):
        forms = convolution_schedulers(nest, packs, machine)
        small = sorted(forms, key=FORMS.index) if machine.optimize == "size" else forms
        offered |= {name: forms[name] for name in small}
    for kind in KINDS:
        if family in kind.families and kind.fits(nest, packs, machine):
            offered[kind.name] = kind.use
    return offered


__all__ = [
    "CHOOSE",
    "PLAIN",
    "Choice",
    "Machine",
    "Pack",
    "Schedule",
    "ScheduledKernel",
    "Step",
    "preferred_schedule",
    "schedule_kernel",
    "schedule_once",
]
