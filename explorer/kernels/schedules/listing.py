"""Schedules as data: the steps of a kernel as a list that can be printed, edited and given back.

    [{"step": "split", "loop": "j", "into": "jt jp", "factors": [14]},
     {"step": "reorder", "order": "n ot i jt cb p q ci jp ov oi"}, ...]

    as_data(kernel.steps[-1].calls)            that list
    parse_steps("conv_1", data)                the calls again; ScheduleError names what is wrong
    schedule_given(function, machine, packs, text)   a kernel scheduled by them

Nothing in a list is executed: a step is looked up by name among `STEPS`, its arguments are
checked against what it takes, and the step itself checks that it is legal where it stands.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod

from xdsl.dialects import affine, func, memref
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.utils.exceptions import VerifyException

from explorer.errors import UnsupportedError
from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import (
    LoopNest,
    ScheduleError,
    bounds_of,
    enclosing_loops,
    extent_of,
    kind_of,
    name_of,
)
from explorer.kernels.printing.languages import language_named, print_kernel
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.schedule import Choice, Schedule, ScheduledKernel, StepCall
from explorer.kernels.steps.catalogue import STEPS
from explorer.kernels.steps.pack import Pack, is_identity
from explorer.results import Knob
from explorer.results.names import suggestion

GIVEN = "steps"
"""Name of the choice that holds a list of steps as JSON, and of the schedule that follows it."""

MAX_STEPS = 2000
MAX_TEXT_BYTES = 1 << 20
MAX_LOOPS = 4096
"""Of a nest: every cut adds some."""
MAX_LOCAL_BYTES = 256 << 10
"""Of register arrays, which lie on the stack of a thread."""
MAX_WRITTEN_OUT = 1 << 15
"""Operations, all unrolled loops multiplied out."""

NAMES = re.compile(r"[A-Za-z0-9_]{0,64}( [A-Za-z0-9_]{1,64})*")

REFUSALS = (
    VerifyException, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
    AssertionError,
)  # fmt: skip
"""What a step may stumble over that was not made for the nest as it is."""

StepData = dict[str, object]
"""`{"step": name, argument: value, ...}`, as JSON has it."""


# -- to data -------------------------------------------------------------------------------------


def as_data(calls: Sequence[StepCall]) -> list[StepData]:
    """The calls as JSON's lists, numbers and strings, in their order."""
    return [
        {"step": call.function.__name__, **{k: _plain(v) for k, v in call.arguments.items()}}
        for call in calls
    ]


def as_text(data: object, kernel: str = "") -> str:
    """A list of steps as one line of JSON, the form in which a decision holds it.

    ScheduleError where it is no list of steps; what the steps ask for is not looked at.
    """
    try:
        return json.dumps(_rows(data, kernel), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ScheduleError(GIVEN, kernel, f"the list of steps is no JSON: {error}") from error


def _plain(value: object) -> object:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


# -- from data -----------------------------------------------------------------------------------


def parse_steps(kernel: str, data: object) -> list[StepCall]:
    """The calls of a list (or its JSON). ScheduleError names the step that is none, and why."""
    if isinstance(data, str):
        if len(data) > MAX_TEXT_BYTES:
            raise ScheduleError(GIVEN, kernel, f"the list has over {MAX_TEXT_BYTES} characters")
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ScheduleError(GIVEN, kernel, f"the list of steps is no JSON: {error}") from error
    rows = _rows(data, kernel)
    return [_parse_step(kernel, number, row) for number, row in enumerate(rows, 1)]


def _rows(data: object, kernel: str) -> list[Mapping[str, object]]:
    if isinstance(data, str) or not isinstance(data, Sequence):
        raise ScheduleError(GIVEN, kernel, "a list of steps is expected, each a table")
    if len(data) > MAX_STEPS:
        raise ScheduleError(GIVEN, kernel, f"{len(data)} steps; at most {MAX_STEPS}")
    for number, row in enumerate(data, 1):
        if not isinstance(row, Mapping) or not isinstance(row.get("step"), str):
            raise ScheduleError(
                GIVEN, kernel, f'step {number} has no name: {{"step": "split", ...}} is expected'
            )
    return list(data)


def _parse_step(kernel: str, number: int, row: Mapping[str, object]) -> StepCall:
    name = str(row["step"])
    where = f"step {number}, {name}"
    function = STEPS.get(name)
    if function is None:
        raise ScheduleError(
            GIVEN, kernel, f"step {number}: there is no step {name!r}{suggestion(name, STEPS)}"
        )
    taken = _arguments_of(function)
    given = {str(key): value for key, value in row.items() if key != "step"}
    for key in given:
        if key not in taken:
            raise ScheduleError(
                GIVEN, kernel, f"{where}: it has no argument {key!r}{suggestion(key, taken)}"
            )
    missing = [key for key, (is_needed, _) in taken.items() if is_needed and key not in given]
    if missing:
        raise ScheduleError(
            GIVEN, kernel, f"{where}: {', '.join(missing)} missing; it takes {', '.join(taken)}"
        )
    arguments = {}
    for key, value in given.items():
        problem = _problem(key, taken[key][1], value)
        if problem:
            raise ScheduleError(GIVEN, kernel, f"{where}: {key} {problem}")
        arguments[key] = _frozen(value)
    return StepCall(function, arguments)


def described_steps() -> dict[str, tuple[str, str, list[tuple[str, str, bool]]]]:
    """Of every step: what it does, when it is illegal, and (name, kind, is needed) by argument.

    Kinds are name, number, numbers and layout.
    """
    kinds = {"str": "name", "int": "number", "Sequence[int]": "numbers"}
    found = {}
    for name, function in STEPS.items():
        first, *others = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        illegal = next((text for text in others if text.startswith("Illegal")), "")
        arguments = [
            (key, kinds.get(annotation, "layout"), is_needed)
            for key, (is_needed, annotation) in _arguments_of(function).items()
        ]
        found[name] = (" ".join(first.split()), " ".join(illegal.split()), arguments)
    return found


@cache
def _arguments_of(function: Callable[..., None]) -> dict[str, tuple[bool, str]]:
    """(whether it must be given, its annotation) of each argument behind the nest."""
    _, *rest = inspect.signature(function).parameters.values()
    return {p.name: (p.default is inspect.Parameter.empty, str(p.annotation)) for p in rest}


def _problem(key: str, annotation: str, value: object) -> str:
    """Why a value is none for an argument; empty where it is. Lists are left to the step."""
    if annotation == "str":
        if not isinstance(value, str):
            return f"is {value!r}, expected a name or names"
        if not NAMES.fullmatch(value):
            return "may hold letters, digits and underscores, with one blank between names"
    elif annotation == "int":
        if isinstance(value, bool) or not isinstance(value, int):
            return f"is {value!r}, expected a whole number"
    elif annotation == "Sequence[int]":
        least = 1 if key == "factors" else 0
        if not _is_list(value) or not all(_is_count(item, least) for item in _items(value)):
            return f"is {value!r}, expected a list of whole numbers from {least} on"
    elif annotation == "Pack" and not (_is_list(value) and all(map(_is_entry, _items(value)))):
        return (
            "is no layout: a list of [dimension, divisor, modulus] is expected, the modulus null "
            "where there is none"
        )
    return ""


def _is_entry(item: object) -> bool:
    parts = _items(item) if _is_list(item) else []
    if len(parts) != 3:
        return False
    dimension, divisor, modulus = parts
    return (
        _is_count(dimension, 0)
        and _is_count(divisor, 1)
        and (modulus is None or _is_count(modulus, 1))
    )


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _items(value: object) -> list[object]:
    assert isinstance(value, Sequence)
    return list(value)


def _frozen(value: object) -> object:
    return tuple(_frozen(item) for item in _items(value)) if _is_list(value) else value


# -- replaying -----------------------------------------------------------------------------------


def schedule_given(
    function: func.FuncOp, machine: Machine, packs: Mapping[str, Pack], data: object
) -> ScheduledKernel:
    """A kernel scheduled by a list of steps (or its JSON), each of them checked.

    `packs`: the layouts in which activations come, which the list has to bring the kernel to.
    ScheduleError says which step is refused, and why.
    """
    schedule = Schedule(function)
    kernel = schedule.nest.kernel
    calls = parse_steps(kernel, data)
    for number, call in enumerate(calls, 1):
        _apply(schedule, number, call)
    _require_layouts(schedule, packs)
    _require_bounds(schedule.nest, machine)
    text = as_text(as_data(calls))
    choices: dict[str, Choice] = {"schedule": GIVEN, GIVEN: text}
    schedule.choices = choices
    schedule.knobs = (Knob("schedule", GIVEN, (GIVEN,), f"{len(calls)} steps as they were given"),)
    return schedule.finish(packs)


def _apply(schedule: Schedule, number: int, call: StepCall) -> None:
    """One step; whatever it stumbles over is its refusal, for nothing of it is trusted."""
    nest, name = schedule.nest, call.function.__name__
    try:
        schedule.replay(call)
        _require_distinct_names(nest)
    except ScheduleError as error:
        reason = f"step {number}, {name}: {error.reason}"
        raise ScheduleError(GIVEN, nest.kernel, reason) from error
    except REFUSALS as error:
        said = f": {error}" if str(error) else ""
        reason = f"step {number}, {name}: it does not fit the nest as it is then{said}"
        raise ScheduleError(GIVEN, nest.kernel, reason) from error


def _require_distinct_names(nest: LoopNest) -> None:
    """A loop is found by its name, so that none may be inside of one of the same name."""
    count = 0
    for loops in nest.index.values():
        count += len(loops)
        for loop in loops:
            name = name_of(loop)
            if any(name_of(outer) == name for outer in enclosing_loops(loop)):
                raise nest.error("names", f"loop {name} would lie inside of a loop {name}")
    if count > MAX_LOOPS:
        raise nest.error("size", f"the nest has {count} loops; at most {MAX_LOOPS}")


def _require_layouts(schedule: Schedule, packs: Mapping[str, Pack]) -> None:
    """Activations come and go in layouts that other kernels know; weights are packed as asked."""
    nest = schedule.nest
    for name in LoopNest(schedule.origin).buffers:
        wanted = tuple(packs.get(name, ()))
        found = tuple(schedule.packs.get(name, ()))
        if is_identity(wanted):
            wanted = ()
        if is_identity(found):
            found = ()
        role = nest.roles.get(name, "scratch")
        if role in ("weight", "scratch") and not wanted:
            continue
        if found != wanted:
            has = f"is packed as {_layout_text(found)}" if found else "is left row-major"
            comes = f"comes as {_layout_text(wanted)}" if wanted else "comes row-major"
            raise nest.error(GIVEN, f"{role} {name} {has}, but it {comes}: step pack has to say so")


def _layout_text(layout: Pack) -> str:
    return json.dumps(_plain(layout), separators=(",", ":"))


def _require_bounds(nest: LoopNest, machine: Machine) -> None:
    """What would be legal, and too large for the stack, the compiler or the language."""
    widest = language_named(machine.language).widest_vector
    local_bytes = written_out = 0
    for op in walk_inside(nest.function):
        around = enclosing_loops(op)
        unrolled = [i for i in around if kind_of(i) == "unroll" and bounds_of(i) is not None]
        if not isinstance(op, affine.ForOp | affine.YieldOp):
            written_out += prod(extent_of(loop) for loop in unrolled)
        if isinstance(op, memref.AllocaOp):
            local_bytes += _size_bytes(op)
        for value in op.results:
            if isinstance(value.type, VectorType):
                (lanes,) = value.type.get_shape()
                if lanes > widest or lanes & (lanes - 1):
                    legal = ", ".join(str(2**k) for k in range(1, widest.bit_length()))
                    raise nest.error(GIVEN, f"a vector of {lanes} elements; there are {legal}")
    if local_bytes > MAX_LOCAL_BYTES:
        raise nest.error(
            GIVEN, f"register arrays take {local_bytes} bytes; at most {MAX_LOCAL_BYTES}"
        )
    if written_out > MAX_WRITTEN_OUT:
        raise nest.error(
            GIVEN,
            f"{written_out} operations would be written out; at most {MAX_WRITTEN_OUT}: leave "
            "out some of what is unrolled",
        )
    try:
        print_kernel(machine.language, nest.function, nest.kernel)
    except UnsupportedError as error:
        raise nest.error(GIVEN, f"the nest has no form in {machine.language}: {error}") from error


def _size_bytes(allocation: memref.AllocaOp) -> int:
    """Of a register array; elements count 8 bytes, vectors 8 for each lane, at most."""
    kind = allocation.memref.type
    assert isinstance(kind, MemRefType)
    element = kind.element_type
    lanes = element.get_shape()[0] if isinstance(element, VectorType) else 1
    return prod(kind.get_shape()) * lanes * 8
