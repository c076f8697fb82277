"""All levers of a quantity, the most helpful first.

find_levers(compilation, "peak_bytes").levers[0]
    plan-memory/budget_bytes: 512,576 bytes now; 256,256 fewer with at most 256,320 (tried)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from explorer.backends.interface import ModelOfChoices
from explorer.compilation.compiled import Compiled
from explorer.compilation.levers.compile_time import (
    compile_levers,
    compile_seconds,
    required_passes,
)
from explorer.compilation.levers.latency import latency_levers, predicted_seconds
from explorer.compilation.levers.machine import machine_levers
from explorer.compilation.levers.memory import memory_levers
from explorer.compilation.levers.modelled import OF_MODEL, model_of, predict_by_model
from explorer.compilation.levers.others import kept_tensors, other_levers
from explorer.compilation.levers.outside import options_outside
from explorer.compilation.levers.precision import precision_levers, weight_levers
from explorer.compilation.levers.trials import (
    IN_WORK,
    NO_MODEL,
    Fork,
    predict_by_trials,
    quantity_of,
    tried,
)
from explorer.errors import InputError
from explorer.results import ProfileRecord
from explorer.results.accuracy import AccuracyReport
from explorer.results.levers import (
    QUANTITIES,
    RISES,
    SHORT,
    LeverRecord,
    LeversRecord,
    Quantity,
)
from explorer.results.names import near_name

OF_MACHINES: tuple[Quantity, ...] = ("cycles", "energy_picojoules")
"""Quantities that only a machine of instructions has."""
MODEL_SECONDS, SECONDS_EACH = 3.0, 0.2
"""Of a model's predictions, where all levers are predicted at once, and for each of them."""
VALUES_TRIED = 3
"""Of a lever, each by compiling."""
LAST_GROUPS = {"machine": 0.0, "target": 2.0}
"""The order of levers that take a compilation; passes and others between."""
NOT_YET = "a model predicts it in about a second"
NOT_TRIED = "a prediction compiles the model with each value"


def quantity_named(name: str) -> Quantity:
    """The quantity, by its name or its short one. InputError where there is none."""
    found = SHORT.get(name, name)
    for quantity in QUANTITIES:
        if quantity == found:
            return quantity
    raise InputError(
        f"there are no levers of {name!r}", hint=near_name(name, [*SHORT, *QUANTITIES])
    )


def find_levers(
    compiled: Compiled,
    quantity: Quantity,
    report: AccuracyReport | None = None,
    profile: ProfileRecord | None = None,
    fork: Fork | None = None,
    only_budgets: bool = False,
    of: str = "",
    model: ModelOfChoices | None = None,
) -> LeversRecord:
    """What moves the quantity. `report` and `profile`: what was measured, if something was; `fork`
    makes the compilations that predict what no model does; without it they are to come.
    only_budgets: it tries budgets of memory, and the others are to come. of: the layer that the
    number is about. model: of this compilation, if there is one already."""
    if quantity in OF_MODEL:
        model = model or model_of(compiled)
    else:
        model = None
    value, source = _value(compiled, quantity, report, profile)
    levers: list[LeverRecord] = []
    if quantity == "peak_bytes":
        levers += memory_levers(compiled, fork)
    elif quantity == "seconds":
        levers += latency_levers(compiled, 1 if profile is None else profile.threads)
    elif quantity == "sqnr_db":
        levers += precision_levers(compiled, report)
    elif quantity == "weights_bytes":
        levers += weight_levers(compiled)
    elif quantity == "compile_seconds":
        levers += compile_levers(compiled)
    if quantity not in OF_MACHINES or is_npu(compiled):
        known = {lever.address for lever in levers}
        is_legal = None if model is None else model.has
        levers += other_levers(compiled, quantity, known, of, is_legal)
        levers += kept_tensors(compiled, quantity)
    if quantity in OF_MODEL and is_npu(compiled):
        levers += machine_levers(compiled)
    if model is not None:
        levers = list(_modelled(levers, quantity, model, of, is_predicted=fork is not None))
    trials = predict_by_trials(levers, compiled, quantity, None if only_budgets else fork)
    levers = [one if model is None else _on_demand(one) for one in trials]
    levers += options_outside(compiled, quantity, 1 if profile is None else profile.threads)
    return LeversRecord(
        quantity=quantity,
        value=value,
        value_source=source,
        levers=tuple(in_order(levers, quantity)),
        fixed=tuple(_fixed(compiled, quantity)),
    )


def find_lever(
    compiled: Compiled,
    quantity: Quantity,
    address: str,
    fork: Fork,
    of: str = "",
    model: ModelOfChoices | None = None,
) -> LeverRecord:
    """One of them with predictions of a few values. InputError where there is none."""
    model = model or (model_of(compiled) if quantity in OF_MODEL else None)
    for lever in find_levers(compiled, quantity, of=of, model=model).levers:
        if lever.address != address:
            continue
        if model is not None and model.has(address):
            return predict_by_model(lever, quantity, model)
        before = quantity_of(compiled, quantity)
        if before is None:
            return replace(lever, unpredicted=NO_MODEL)
        return tried(lever, compiled, quantity, before, fork, VALUES_TRIED)
    raise InputError(f"no lever of {quantity} has the address {address!r}")


def _modelled(
    levers: Sequence[LeverRecord],
    quantity: Quantity,
    model: ModelOfChoices,
    of: str,
    is_predicted: bool,
) -> Iterator[LeverRecord]:
    """Levers of the layer, then others of layers, then the rest; `is_predicted`: with predictions
    of the first ones, as far as these take a few seconds altogether."""
    end = time.perf_counter() + MODEL_SECONDS
    for lever in sorted(levers, key=lambda one: (one.of != of, not one.of)):
        if not model.has(lever.address):
            yield lever
            continue
        found = replace(lever, on_demand="model", unpredicted=NOT_YET)
        if is_predicted and time.perf_counter() < end:
            found = predict_by_model(found, quantity, model, SECONDS_EACH)
        yield found


def _on_demand(lever: LeverRecord) -> LeverRecord:
    """Where a model predicts most levers, nothing else is compiled before it is asked for."""
    if lever.unpredicted != IN_WORK and lever.on_demand != "trial":
        return lever
    return replace(lever, unpredicted=NOT_TRIED, on_demand="trial")


def in_order(levers: Iterable[LeverRecord], quantity: str) -> list[LeverRecord]:
    """Those with the largest predicted gain first, then those without a prediction, then those that
    take a compilation to be predicted (the machine, passes, other targets), then those that are
    predicted to make it worse, then those without values; equal ones as they came.

    The values of each with the largest predicted gain first, and those without a prediction last.
    """
    rises = quantity in RISES

    def place(change: float | None) -> tuple[int, float]:
        if change is None:
            return 1, 0.0
        gain = change if rises else -change
        return (0, -gain) if gain > 0 else (3, -gain)

    def value_rank(change: float | None) -> tuple[bool, tuple[int, float]]:
        return change is None, place(change)

    def rank(lever: LeverRecord) -> tuple[int, float]:
        if not lever.options and not lever.commands:
            return 4, 0.0
        gain = lever.best(rises)
        if gain is None:
            is_last = lever.group == "target" or lever.on_demand == "trial"
            return (2, LAST_GROUPS.get(lever.group, 1.0)) if is_last else (1, 0.0)
        return place(gain if rises else -gain)

    sorted_options = (
        replace(lever, options=tuple(sorted(lever.options, key=lambda o: value_rank(o.change))))
        for lever in levers
    )
    return sorted(sorted_options, key=rank)


def _value(
    compiled: Compiled,
    quantity: Quantity,
    report: AccuracyReport | None,
    profile: ProfileRecord | None,
) -> tuple[float | None, str]:
    """The present value, and where it comes from."""
    if quantity == "peak_bytes":
        plan = compiled.memory
        return (None, "no memory plan") if plan is None else (float(plan.peak_bytes), "memory plan")
    if quantity == "compile_seconds":
        return compile_seconds(compiled), "the sum of all passes, as they ran"
    if quantity == "weights_bytes":
        return float(compiled.program.weights_bytes), "the program"
    if quantity == "seconds":
        if profile is not None:
            return profile.milliseconds / 1e3, f"measured on {profile.device}"
        seconds = predicted_seconds(compiled)
        return seconds, "not measured" if seconds is None else "the cost model, not measured"
    if quantity == "sqnr_db":
        worst = None if report is None else report.worst_output
        if worst is None or report is None:
            return None, "not compared with the source model"
        return worst.sqnr_db, f"output {worst.tensor}, {report.data}"
    if quantity == "cycles":
        counted = None if profile is None else profile.counted
        if counted is not None:
            return float(counted.cycles), "counted by the simulator"
        predicted = quantity_of(compiled, quantity) if is_npu(compiled) else None
        return (
            predicted,
            "not counted: profile it" if predicted is None else "predicted, not counted",
        )
    if quantity == "macs":
        return quantity_of(compiled, quantity), "operations of the program after the last pass"
    if quantity in ("traffic_bytes", "energy_picojoules"):
        return quantity_of(compiled, quantity), _source_of_work(compiled, quantity)
    if compiled.code_bytes is not None:
        return float(compiled.code_bytes), "the program as it was compiled for this machine"
    return None, "not compiled to machine code yet: run it, or `explorer package` counts it"


def _source_of_work(compiled: Compiled, quantity: Quantity) -> str:
    """Where traffic or energy comes from, or why there is none."""
    if is_npu(compiled):
        figures = ", at the figures of the target" if quantity == "energy_picojoules" else ""
        return f"counted in the instructions{figures}"
    if quantity == "energy_picojoules":
        return f"target {compiled.target.name} states no energy"
    return "arguments of all launches, each once: caches decide what memory has to move"


def is_npu(compiled: Compiled) -> bool:
    """Whether the target is a machine that runs instructions and counts its cycles."""
    return "instructions" in compiled.target.languages


def _fixed(compiled: Compiled, quantity: Quantity) -> Iterable[tuple[str, str]]:
    """What a person may look for, and why it cannot be moved."""
    if quantity in OF_MACHINES and not is_npu(compiled):
        what = "cycles" if quantity == "cycles" else "energy"
        yield what, f"target {compiled.target.name} has no machine of which it is counted"
    if quantity == "macs":
        yield "layers of the model", "the file has them: another architecture has others"
    if quantity == "seconds" and not compiled.backend.runs_loops:
        yield "kernels", f"target {compiled.target.name} runs instructions, not scheduled loops"
    if quantity == "peak_bytes":
        yield "inputs and outputs", "the caller holds them; they are not part of the arena"
    if quantity == "compile_seconds":
        yield from required_passes(compiled)
    if quantity == "weights_bytes" and compiled.quantization is None:
        yield "number of weights", "the model decides it: prune or distill before the export"
    if quantity == "sqnr_db" and compiled.quantization is None:
        yield "rounding of floats", "sums of float32 in another order differ in the last digits"
