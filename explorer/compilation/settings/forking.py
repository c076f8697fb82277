"""From what a person asks of a fork to its settings.

    Changes(disable=("fuse-activation/fuse-unary",), layout="plain", planner="no-sharing")
    changed(settings, changes, scope)      -> Settings
    describe(old, new)                     -> "without fuse-activation/fuse-unary, ..."

Every knob of a compilation has an address, and `decide` takes a value for any of them:

    PASS                        whether an optional pass runs
    PASS/RULE, PASS/RULE/SITE   whether a rule is used at all, or at an operation
    schedule-loops/KERNEL/CHOICE, assign-layouts/blocked/VALUE ...     what passes decide
    plan-memory/planner, plan-memory/budget_bytes, plan-memory/flash_bytes
    fuel, dimensions/NAME, host
    plan-memory/pins            buffers with the bytes at which they are to lie
    order                       passes that change places among themselves
    target, target/FIELD        another target, or another value of one of its fields

The options of a fork that are no addresses are other words for some of these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from explorer.calling import refuse
from explorer.compilation.custom_passes.pipelines import IMPORT, Insertion, Order
from explorer.compilation.settings.settings import Settings, rule_names
from explorer.compilation.settings.sizes import Size, as_sizes, chosen_sizes, parse_size
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.ir.rewriting.passes import Pass
from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.passes import ScheduleLoops
from explorer.kernels.schedules.listing import GIVEN, as_text
from explorer.memory.choosing import choose_planner, default_planners
from explorer.memory.exact import ExactPlanner
from explorer.memory.pinned import PinnedPlanner
from explorer.memory.planners import Planner
from explorer.passes.lower.assign_layouts import LEGAL_BLOCKS, AssignLayouts
from explorer.results.decisions import (
    BUDGET,
    DIMENSIONS,
    FLASH,
    FUEL,
    HOST,
    ORDER,
    PINS,
    PLANNER,
    TARGET,
    Value,
    label_of,
)
from explorer.results.names import near_name
from explorer.targets.together import SEPARATOR, TargetsChoice, load_targets

BLOCK = f"{AssignLayouts.name}/block"
BLOCKED = f"{AssignLayouts.name}/blocked"

TargetChoice = TargetsChoice | Mapping[str, object]
"""A name, a file, a target, several of them, or fields of the first one by dotted path with other
values."""

LayoutChoice = Literal["plain", "vector"] | str | int | None
"""`plain`, `vector` (what the target asks for), or channels per block."""

Layouts = LayoutChoice | Mapping[str, LayoutChoice]
"""One for everything, or by name of a function or value."""


Schedules = Mapping[str, Mapping[str, object] | Sequence[Mapping[str, object]] | None]
"""By kernel: choices with their values, a whole list of steps, or None for the kernel's own."""


class Keep:
    """Says that an option stays as it is, where None means something."""


KEEP = Keep()


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a fork does otherwise; everything is as it was by default. See `Compilation.fork`."""

    target: TargetChoice | None = None
    enable: Sequence[str] = ()
    disable: Sequence[str] = ()
    order: Sequence[str] = ()
    pipeline: Sequence[Pass | str] | Keep | None = KEEP
    decisions: Mapping[str, object] | None = None
    layout: Layouts | Keep = KEEP
    planner: Planner | str | None = None
    budget_bytes: int | Keep | None = KEEP
    flash_bytes: int | Keep | None = KEEP
    dimensions: Mapping[str, Size] | None = None
    fuel: int | Keep | None = KEEP
    schedule: Schedules | None = None
    host: bool | None = None


@dataclass(frozen=True)
class Scope:
    """What names in changes may refer to: those of the compilation that is forked."""

    model: SourceModel
    pipeline: tuple[Pass, ...]
    """With what is disabled, in its order."""
    functions: Collection[str] = ()
    """Functions that run on a device."""


def changed(settings: Settings, changes: Changes, scope: Scope) -> Settings:
    """The settings with the changes; InputError names what is unknown or illegal."""
    if changes.target is not None:
        settings = with_targets(settings, changes.target)
    if changes.dimensions is not None:
        settings = _with_sizes(settings, changes.dimensions, scope)
    if not isinstance(changes.fuel, Keep):
        settings = replace(settings, fuel=_count(FUEL, changes.fuel))
    if not isinstance(changes.budget_bytes, Keep):
        settings = replace(
            settings, budget_bytes=_count("budget_bytes", changes.budget_bytes, least=1)
        )
    if not isinstance(changes.flash_bytes, Keep):
        settings = replace(
            settings, flash_bytes=_count("flash_bytes", changes.flash_bytes, least=1)
        )
    if changes.planner is not None:
        settings = replace(settings, planner=chosen_planner(changes.planner))
    if changes.host is not None:
        settings = replace(settings, host=changes.host)
    if not isinstance(changes.pipeline, Keep):
        settings = _with_pipeline(settings, changes.pipeline, scope)
    if changes.order:
        edits = (*settings.edits, Order(_names("order", changes.order)))
        settings = replace(settings, edits=edits)
    _require_effect(settings, changes)
    for name in _names("disable", changes.disable):
        settings = switch(settings, name, False, scope)
    for name in _names("enable", changes.enable):
        settings = switch(settings, name, True, scope)
    if not isinstance(changes.layout, Keep):
        settings = _with_layout(settings, changes.layout, scope)
    for kernel, asked in (changes.schedule or {}).items():
        settings = _with_schedule(settings, kernel, asked, scope)
    # A target first: other addresses may name its fields. Pins last: they are a planner.
    decisions = sorted(
        (changes.decisions or {}).items(), key=lambda item: (item[0] != TARGET, item[0] == PINS)
    )
    for address, value in decisions:
        settings = decide(settings, address, value, scope)
    return settings


def _require_effect(settings: Settings, changes: Changes) -> None:
    """InputError for options that are arguments of passes, where the passes are given."""
    budget = changes.budget_bytes
    asked = {
        "target": changes.target is not None,
        "dimensions": changes.dimensions is not None,
        "planner": changes.planner is not None,
        "budget_bytes": not isinstance(budget, Keep) and budget is not None,
        "host": changes.host is not None,
    }
    for name, is_asked in asked.items():
        if is_asked and settings.pipeline is not None:
            raise _without_effect(name)


def _without_effect(name: str) -> InputError:
    return InputError(
        f"{name} has no effect on a pipeline of one's own: its passes have it already",
        hint="pipeline=None goes back to the target's passes",
    )


def decide(settings: Settings, address: str, value: object, scope: Scope) -> Settings:
    """The settings with another value at an address; None takes an override back."""
    head, _, rest = address.partition("/")
    is_argument = head in (TARGET, DIMENSIONS) or address in (PLANNER, BUDGET, PINS, HOST)
    if is_argument and settings.pipeline is not None:
        raise _without_effect(address)
    if address == TARGET:
        return with_targets(settings, _text(address, value))
    if head == TARGET:
        return replace(settings, target=settings.target.with_(**{rest: value}))
    if address == FUEL:
        return replace(settings, fuel=_count(address, value))
    if head == DIMENSIONS and rest:
        return _with_sizes(settings, {rest: _size(address, value)}, scope)
    if address == PLANNER:
        name = _text(address, value)
        if name == planner_name(settings.planner):
            return settings
        return replace(settings, planner=chosen_planner(name))
    if address == BUDGET:
        return replace(settings, budget_bytes=_count(address, value, least=1))
    if address == FLASH:
        return replace(settings, flash_bytes=_count(address, value, least=1))
    if address == HOST:
        if value is not None and not isinstance(value, bool):
            raise InputError(f"{address} cannot be {value!r}: it has parts, or not", hint="a bool")
        return replace(settings, host=value is not False)
    if address == PINS:
        return _with_pins(settings, value)
    if address == ORDER:
        return _with_order(settings, value)
    if any(address == p.name for p in scope.pipeline):
        if value is not None and not isinstance(value, bool):
            raise InputError(f"{address} cannot be {value!r}: a pass runs, or not", hint="a bool")
        return switch(settings, address, value is not False, scope)
    decisions = {a: v for a, v in settings.decisions.items() if a != address}
    if value is not None:
        decisions[address] = value
    return replace(settings, decisions=decisions)


def switch(settings: Settings, name: str, is_on: bool, scope: Scope) -> Settings:
    """Switches a pass, a rule (`pass/rule`, or its name alone) or a site on or off."""
    passes = [p.name for p in scope.pipeline]
    if name in passes:
        kept = tuple(n for n in settings.disable if n != name)
        return replace(settings, disable=kept if is_on else (*kept, name))
    address = name
    rules = {f"{p.name}/{rule}": rule for p in scope.pipeline for rule in rule_names(p)}
    if "/" not in name:
        found = [a for a, rule in rules.items() if rule == name]
        if len(found) > 1:
            raise InputError(f"several passes have a rule {name!r}", hint=" or ".join(found))
        if not found:
            known = [*passes, *dict.fromkeys(rules.values())]
            raise InputError(f"there is no pass {name!r}", hint=near_name(name, known))
        address = found[0]
    decisions = {a: v for a, v in settings.decisions.items() if a != address}
    if not is_on:
        decisions[address] = False
    elif any(address.startswith(f"{a}/") and v is False for a, v in decisions.items()):
        decisions[address] = True  # its rule is off
    return replace(settings, decisions=decisions)


def with_targets(settings: Settings, choice: TargetChoice) -> Settings:
    """The settings with other targets; those whose names stay are the same ones."""
    if isinstance(choice, Mapping):
        return replace(settings, target=settings.target.with_(**choice))
    present = {target.name: target for target in (settings.target, *settings.others)}
    if isinstance(choice, str):
        names = choice.split(SEPARATOR)
        choice = [present.get(name, name) for name in names] if len(names) > 1 else choice
        choice = present.get(choice, choice) if isinstance(choice, str) else choice
    first, *others = load_targets(choice)
    return replace(settings, target=first, others=tuple(others))


def chosen_planner(choice: Planner | str) -> Planner:
    if isinstance(choice, str):
        return choose_planner(choice, default_planners())
    if not callable(choice):
        refuse("planner", choice, "a name or a function of buffers", ", ".join(default_planners()))
    return choice


def planner_name(planner: Planner) -> str:
    """The name under which it is chosen; that of its function or class for others."""
    named = [name for name, known in default_planners().items() if known == planner]
    return named[0] if named else getattr(planner, "__name__", type(planner).__name__)


def _with_pins(settings: Settings, value: object) -> Settings:
    """Buffers at bytes of the arena, or of one of several memories (`fast:1024`, or `fast`), by
    name or as pairs; None and nothing let all go."""
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if pairs is None or pairs in ([], ()):
        is_pinned = isinstance(settings.planner, PinnedPlanner)
        return replace(settings, planner=ExactPlanner()) if is_pinned else settings
    if not isinstance(pairs, list | tuple) or not all(map(_is_pin, pairs)):
        raise InputError(
            f"{PINS} cannot be {value!r}: buffers with bytes are expected", hint='{"conv_1": 1024}'
        )
    pins = tuple(sorted(((str(name), place) for name, place in pairs), key=str))
    return replace(settings, planner=PinnedPlanner(pins))


def _is_pin(pair: object) -> bool:
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
        return False
    if isinstance(pair[1], str):
        return bool(pair[1])
    return isinstance(pair[1], int) and not isinstance(pair[1], bool) and pair[1] >= 0


def _with_order(settings: Settings, value: object) -> Settings:
    """Passes that change places, instead of those that did before; None for none."""
    edits = tuple(edit for edit in settings.edits if not isinstance(edit, Order))
    if value is None or value in ([], ()):
        return replace(settings, edits=edits)
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise InputError(f"{ORDER} cannot be {value!r}: a list of passes is expected")
    return replace(settings, edits=(*edits, Order(tuple(value))))


# -- schedules, pipeline and layout ----------------------------------------------------------------


def _with_schedule(settings: Settings, kernel: str, asked: object, scope: Scope) -> Settings:
    """Choices change single decisions of a kernel; a list of steps replaces all of them."""
    head = f"{ScheduleLoops.name}/{kernel}/"
    own = [address for address in settings.decisions if address.startswith(head)]
    if isinstance(asked, Mapping):
        dropped = [address for address in own if address == head + GIVEN]
        values = {head + str(choice): value for choice, value in asked.items()}
    elif asked is None:
        dropped, values = own, {}
    else:
        dropped, values = own, {head + GIVEN: _steps_text(kernel, asked)}
    kept = {a: value for a, value in settings.decisions.items() if a not in dropped}
    settings = replace(settings, decisions=kept)
    for address, value in values.items():
        settings = decide(settings, address, value, scope)
    return settings


def _steps_text(kernel: str, asked: object) -> str:
    try:
        return as_text(asked, kernel)
    except ScheduleError as error:
        raise InputError(
            f"kernel {kernel} cannot be scheduled as asked: {error.reason}",
            hint='choices as {"pixels": 7}, or a list like compilation.kernels[name].schedule',
        ) from error


def own_pipeline(passes: Sequence[Pass]) -> tuple[Pass, ...]:
    """Passes of a person's own; InputError for anything else."""
    if isinstance(passes, str) or not all(isinstance(p, Pass) for p in passes):
        raise InputError(
            "a pipeline of a new compilation is a list of passes",
            hint="c.pipeline has those of a compilation; c.fork(pipeline=[...]) takes names, too",
        )
    if not passes:
        raise InputError(
            "a pipeline of a new compilation has at least one pass",
            hint="leave pipeline out, or take from c.pipeline what is to run",
        )
    return tuple(passes)


def _with_pipeline(
    settings: Settings, pipeline: Sequence[Pass | str] | None, scope: Scope
) -> Settings:
    """Passes of one's own, or names of the present ones: those not named are left out."""
    if pipeline is None:
        own = settings.pipeline is not None
        return replace(settings, pipeline=None, edits=(), disable=()) if own else settings
    names = [p for p in pipeline if isinstance(p, str)]
    if not names:
        passes = tuple(p for p in pipeline if isinstance(p, Pass))
        if len(passes) != len(pipeline) or not passes:
            raise InputError(
                "a pipeline is a list of passes, or of names of passes",
                hint="c.pipeline has the passes, c.names the names",
            )
        present = {p.name for p in passes}
        disabled = tuple(name for name in settings.disable if name in present)
        return replace(settings, pipeline=passes, edits=(), disable=disabled)
    if len(names) != len(pipeline):
        raise InputError("a pipeline is either a list of passes or of names, not of both")
    wanted = [name for name in names if name != IMPORT]
    left_out = [p for p in scope.pipeline if p.name not in wanted]
    missing = [p.name for p in left_out if p.is_required]
    if missing:
        raise InputError(
            f"pass {missing[0]!r} cannot be left out: what follows needs it",
            hint="name it, too; optional are "
            + ", ".join(p.name for p in scope.pipeline if not p.is_required),
        )
    settings = replace(settings, disable=tuple(p.name for p in left_out))
    present = [p.name for p in scope.pipeline if p.name in wanted]
    unknown = [name for name in wanted if name not in present]
    if unknown or len(wanted) != len(present):
        moved = wanted  # an error, which the order itself explains
    else:
        moved = [new for new, old in zip(wanted, present, strict=True) if new != old]
    return replace(settings, edits=(*settings.edits, Order(tuple(moved)))) if moved else settings


def _with_layout(settings: Settings, layout: Layouts, scope: Scope) -> Settings:
    if not isinstance(layout, Mapping):
        kept = {
            address: value
            for address, value in settings.decisions.items()
            if address.rpartition("/")[0] not in (BLOCK, BLOCKED)
        }
        settings = replace(settings, decisions=kept)
        return decide(settings, BLOCK, _channels(layout), scope)
    for name, choice in layout.items():
        of_function = name in scope.functions
        settings = decide(
            settings, f"{BLOCK if of_function else BLOCKED}/{name}", _channels(choice), scope
        )
    return settings


def _channels(layout: LayoutChoice) -> int | None:
    """Channels per block; None for what the target asks for."""
    words = {"plain": 0, "vector": None}
    if isinstance(layout, str) and layout in words:
        return words[layout]
    if layout is None or (isinstance(layout, int) and not isinstance(layout, bool)):
        return layout
    near = f"; {near_name(layout, list(words))}" if isinstance(layout, str) else ""
    blocks = ", ".join(str(b) for b in LEGAL_BLOCKS if b)
    raise InputError(
        f"there is no layout {layout!r}",
        hint=f"plain, vector or channels per block ({blocks}){near}",
    )


# -- checks ----------------------------------------------------------------------------------------


def _names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InputError(f"{option} is a list of names, not {names!r}", hint=f"[{names!r}]")
    return tuple(names)


def _text(address: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{address} cannot be {value!r}: a name is expected")
    return value


def _count(name: str, value: object, least: int = 0) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        wanted = f"a whole number from {least} on, or None for no limit"
        raise InputError(f"{name} cannot be {value!r}: {wanted}")
    return value


def _with_sizes(settings: Settings, sizes: Mapping[str, Size], scope: Scope) -> Settings:
    asked = {**as_sizes(settings.dimensions, settings.open_ranges), **sizes}
    dimensions, open_ranges = chosen_sizes(scope.model, asked)
    return replace(settings, dimensions=dimensions, open_ranges=open_ranges)


def _size(address: str, value: object) -> Size:
    """A number, a pair, or the text `1..8`."""
    found = parse_size(value) if isinstance(value, str) else value
    if isinstance(found, tuple | list) and len(found) == 2:
        return (found[0], found[1])
    return _positive(address, value if found is None else found)


def _positive(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} cannot be {value!r}: a number from 1 on is expected")
    return value


# -- in words --------------------------------------------------------------------------------------


def decisions_of(settings: Settings) -> dict[str, Value]:
    """All that has an address, by that; of the target its name and the fields that knobs have."""
    found: dict[str, Value] = dict.fromkeys(settings.disable, False)
    for edit in settings.edits:
        if isinstance(edit, Order):
            found[ORDER] = [*edit.names]
    found |= settings.decisions
    target = settings.target
    found[TARGET] = target.name
    found[f"{TARGET}/vector_floats"] = target.vector_floats
    found[f"{TARGET}/layout.channel_block"] = target.layout.channel_block
    found[BUDGET] = settings.budget_bytes
    found[FLASH] = settings.flash_bytes
    if isinstance(settings.planner, PinnedPlanner):
        found[PINS] = [list(pin) for pin in settings.planner.pins]
    else:
        found[PLANNER] = planner_name(settings.planner)
    found[FUEL] = settings.fuel
    found[HOST] = settings.host
    found |= {f"{DIMENSIONS}/{name}": size for name, size in settings.dimensions.items()}
    for kept in settings.open_ranges:
        found[f"{DIMENSIONS}/{kept.name}"] = f"{kept.lowest}..{kept.highest}"
    return found


def describe(old: Settings, new: Settings) -> str:
    """What is different in the new settings, for a label; `fork` where nothing is."""
    before, after = decisions_of(old), decisions_of(new)
    if old.target.name != new.target.name:  # its fields go with it
        before = {a: v for a, v in before.items() if not a.startswith(f"{TARGET}/")}
        after = {a: v for a, v in after.items() if not a.startswith(f"{TARGET}/")}
    if PINS in after or PINS in before:  # they are a planner
        before.pop(PLANNER, None)
        after.pop(PLANNER, None)
    parts = [label_of(after, before)]
    if old.target != new.target and not any(
        before.get(a) != v for a, v in after.items() if a.split("/")[0] == TARGET
    ):
        parts.append(f"for {new.target.name} with other fields")
    parts += [
        f"with {edit.pass_.name} after {edit.after}"
        for edit in new.edits[len(old.edits) :]
        if isinstance(edit, Insertion)
    ]
    if new.pipeline != old.pipeline:
        parts.append("with passes of its own" if new.pipeline else "with the target's passes")
    return ", ".join(part for part in parts if part) or "fork"
