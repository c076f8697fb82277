"""Every knob of a compilation: what its settings and passes decided, and what else is legal.

    Knob("target", "cpu", ("cpu", "opencl"), "...")
    Knob("fuse-activation", True, (True, False), "3 rewrites: ...")
    Knob("fuse-activation/fuse-unary", True, (True, False), "fired 3 times: ...")
    Knob("schedule-loops/conv_1/pixels", 14, (1, ..., 56), "...")
    Knob("plan-memory/budget_bytes", None, (), "no limit")
    Knob("plan-memory/pins", (("conv_1", 1024),), (), "...")

`fork(decisions={knob.address: value})` takes each of them. Single rewrites are no knobs, though
they have addresses, too: the events of the passes list them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.backends import backend_of, compiled_targets
from explorer.compilation.custom_passes.pipelines import Order
from explorer.compilation.running import Run
from explorer.compilation.settings.forking import planner_name
from explorer.compilation.settings.settings import Settings, machine_lanes, rule_names
from explorer.ir.requantization import MAX_MULTIPLIER_BITS, ROUNDINGS, SCHEMES, Requantization
from explorer.ir.rewriting.passes import KNOBS, Pass, PassResult
from explorer.memory.choosing import default_planners
from explorer.memory.pinned import PinnedPlanner
from explorer.memory.planning import PlanMemory
from explorer.passes.lower.assign_layouts import LEGAL_BLOCKS
from explorer.results import Knob
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
)

BOTH = (True, False)


def knobs_of(run: Run) -> tuple[Knob, ...]:
    """All knobs: the settings first, then pass after pass."""
    results = {result.name: result for result in run.results}
    found = list(_settings_knobs(run))
    for pass_ in run.full_pipeline:
        result = results.get(pass_.name)
        if not pass_.is_required:
            found.append(_pass_knob(pass_, result))
        if result is None:
            continue
        if not pass_.is_required:
            found += _rule_knobs(pass_, result, run.settings)
        found += _artifact_knobs(result)
        if isinstance(pass_, PlanMemory) and run.settings.pipeline is None:
            found += _memory_knobs(run.settings)
    return tuple(found)


def _settings_knobs(run: Run) -> Iterator[Knob]:
    settings, target = run.settings, run.settings.target
    if settings.pipeline is None:
        names = dict.fromkeys([*compiled_targets(), target.name])
        yield Knob(TARGET, target.name, tuple(names), target.description)
        lanes = machine_lanes(target, run.device)
        yield Knob(
            f"{TARGET}/vector_floats",
            target.vector_floats,
            _including(("auto", *backend_of(target).vector_widths), target.vector_floats),
            f"{lanes} float32 per vector" + (" on the device at hand" * _is_auto(settings)),
        )
        if backend_of(target).name == "c":
            why = "size: schedules without tiles come first, and nothing is unrolled"
            yield Knob(f"{TARGET}/optimize", target.optimize, ("speed", "size"), why)
        blocks = ("vector", 1, *(b for b in LEGAL_BLOCKS if b))
        yield Knob(
            f"{TARGET}/layout.channel_block",
            target.layout.channel_block,
            _including(blocks, target.layout.channel_block),
            "channels per block around convolutions; 1: not blocked",
        )
        if target.requantization is not None:
            yield from _requantization_knobs(target.requantization)
            why = "integer: quantized programs compute without floats"
            yield Knob(f"{TARGET}/arithmetic", target.arithmetic, ("float", "integer"), why)
        why = "what has no compiled form runs there" if settings.host else "such models are refused"
        yield Knob(HOST, settings.host, BOTH, why)
    for name, size in settings.dimensions.items():
        value, why = size, "size of a symbolic dimension of the model"
        kept = next((r for r in settings.open_ranges if r.name == name), None)
        if kept is not None:
            value, why = f"{kept.lowest}..{kept.highest}", "a range: one program for all its sizes"
        yield Knob(f"{DIMENSIONS}/{name}", value, (), why)
    orders = [edit.names for edit in settings.edits if isinstance(edit, Order)]
    why = "passes that change places among themselves"
    yield Knob(ORDER, orders[-1] if orders else (), (), why)
    why = "no limit" if settings.fuel is None else f"at most {settings.fuel} optional rewrites"
    yield Knob(FUEL, settings.fuel, (), why)


def _requantization_knobs(how: Requantization) -> Iterator[Knob]:
    head = f"{TARGET}/requantization"
    yield Knob(f"{head}.scheme", how.scheme, SCHEMES, "how sums of integers become narrow again")
    yield Knob(f"{head}.rounding", how.rounding, ROUNDINGS, "of what lies between two integers")
    why = "of the factor that the scheme multiplier_shift multiplies with, sign included"
    bits = (8, 16, 24, MAX_MULTIPLIER_BITS)
    legal = bits if how.multiplier_bits in bits else (*bits, how.multiplier_bits)
    yield Knob(f"{head}.multiplier_bits", how.multiplier_bits, legal, why)


def _is_auto(settings: Settings) -> bool:
    return settings.target.vector_floats == "auto"


def _pass_knob(pass_: Pass, result: PassResult | None) -> Knob:
    if result is None:
        return Knob(pass_.name, False, BOTH, f"disabled: {pass_.description}")
    count = sum(rewrite.applied for rewrite in result.rewrites)
    return Knob(pass_.name, True, BOTH, f"{_times(count, 'rewrite')}: {pass_.description}")


def _rule_knobs(pass_: Pass, result: PassResult, settings: Settings) -> Iterator[Knob]:
    for name in rule_names(pass_):
        address = f"{pass_.name}/{name}"
        own = [rewrite for rewrite in result.rewrites if rewrite.rule == name]
        applied = sum(rewrite.applied for rewrite in own)
        if settings.decisions.get(address) is False:
            yield Knob(address, False, BOTH, "an override")
        else:
            why = f"fired {_times(applied, 'time')}, declined {_times(len(own) - applied, 'time')}"
            yield Knob(address, True, BOTH, why)


def _artifact_knobs(result: PassResult) -> Sequence[Knob]:
    knobs = result.artifacts.get(KNOBS, ())
    assert isinstance(knobs, tuple)
    return knobs


def _memory_knobs(settings: Settings) -> Iterator[Knob]:
    name = planner_name(settings.planner)
    choices = tuple(dict.fromkeys([*default_planners(), name]))
    yield Knob(PLANNER, name, choices, "places all activations in one arena")
    budget = settings.budget_bytes
    why = "no limit" if budget is None else "the arena may not be larger"
    yield Knob(BUDGET, budget, (), why)
    flash = settings.flash_bytes
    why = "no limit" if flash is None else "weights and code may not take more"
    yield Knob(FLASH, flash, (), why)
    pins = settings.planner.pins if isinstance(settings.planner, PinnedPlanner) else ()
    yield Knob(PINS, pins, (), "buffers that lie at given bytes of the arena")


def _including(choices: tuple[str | int, ...], value: str | int) -> tuple[str | int, ...]:
    return choices if value in choices else (*choices, value)


def _times(count: int, unit: str) -> str:
    return f"{count} {unit}" + ("" if count == 1 else "s")
