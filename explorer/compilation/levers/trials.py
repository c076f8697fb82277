"""Predictions by trial: the passes run again with one decision changed, and nothing is measured.

predict_by_trials(levers, c, "peak_bytes", c.fork)
    fuse-activation = False                12,288 bytes more, by the memory plan of that program
    target/optimize = size                 4,310 bytes less, by the characters of its code

What a trial costs is the passes after the decision, so that there are few of them, and none for
large programs: each lever without a prediction says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from explorer.compilation.compiled import Compiled
from explorer.compilation.levers.latency import predicted_seconds
from explorer.errors import ExplorerError
from explorer.results.decisions import TARGET
from explorer.results.levers import LeverRecord, Quantity

MAX_TRIALS = 12
MAX_OPERATIONS = 1000
"""Of all trials together, counted as operations after the import."""
INSTRUCTIONS_WEIGHT = 6
"""Operations of a machine with instructions take this many times as long: tiles are searched."""
SOURCES: dict[Quantity, str] = {
    "peak_bytes": "the memory plan of the program that the passes make of it",
    "seconds": "the cost model, for the program that the passes make of it",
    "cycles": "the predicted cycles of the program that the passes make of it",
    "traffic_bytes": "the bytes that the program moves which the passes make of it",
    "energy_picojoules": "the instructions of that program, at the figures of the target",
    "macs": "the operations of the program that the passes make of it",
    "weights_bytes": "the weights of the program that the passes make of it",
    "code_bytes": "the characters of the printed code, at as many bytes each as now",
    "compile_seconds": "the time that the passes take",
}
MEASURED = "decibels are measured on data: a try measures them"
IN_WORK = "it is being predicted"
OTHER_TARGET = "another target has other costs: a try compiles for it"
NO_MODEL = "the present value is not known, or nothing models it on this target: a try measures it"

Fork = Callable[[dict[str, object]], Compiled]
"""A compilation with other decisions, by address."""


def predict_by_trials(
    levers: Iterable[LeverRecord], compiled: Compiled, quantity: Quantity, fork: Fork | None
) -> Iterator[LeverRecord]:
    """The levers; those without a prediction have one of their first value, or say why not.

    fork: None where nothing is tried yet.
    """
    before = quantity_of(compiled, quantity)
    most = _most_trials(compiled)
    left = most
    for lever in levers:
        is_known = any(option.change is not None for option in lever.options)
        if lever.on_demand or is_known or not lever.options:
            yield lever
        elif quantity == "sqnr_db":
            yield replace(lever, unpredicted=MEASURED)
        elif lever.address == TARGET:
            yield replace(lever, unpredicted=OTHER_TARGET)
        elif before is None:
            yield replace(lever, unpredicted=NO_MODEL)
        elif fork is None:
            if left > 0:
                yield replace(lever, unpredicted=IN_WORK)
            else:
                yield replace(lever, unpredicted=few_trials(most), on_demand="trial")
            left -= 1
        elif left <= 0 or not lever.options[0].decisions:
            yield replace(lever, unpredicted=few_trials(most), on_demand="trial")
        else:
            left -= 1
            yield tried(lever, compiled, quantity, before, fork)


def has_trials(compiled: Compiled) -> bool:
    """Whether decisions of so large a program are tried in advance."""
    return _most_trials(compiled) > 0


def _most_trials(compiled: Compiled) -> int:
    operations = max(1, len(compiled.passes[0].after.graph.nodes))
    weight = 1 if compiled.backend.runs_loops else INSTRUCTIONS_WEIGHT
    return min(MAX_TRIALS, MAX_OPERATIONS // (operations * weight))


def few_trials(most: int) -> str:
    """Why a decision is not tried in advance, where so many are."""
    if not most:
        return "the passes over so many operations take long: a try runs them"
    return f"at most {most} decisions of this program are tried in advance: a try compiles this one"


def tried(
    lever: LeverRecord,
    compiled: Compiled,
    quantity: Quantity,
    before: float,
    fork: Fork,
    count: int = 1,
) -> LeverRecord:
    """The lever with the changes of its first values."""
    found, problem = list(lever.options), ""
    for place, option in enumerate(lever.options[:count]):
        try:
            after = quantity_of(fork(dict(option.decisions)), quantity, compiled)
        except ExplorerError as error:
            problem = problem or f"{option.value}: {error.message}"
            continue
        if after is None:
            return replace(lever, unpredicted=NO_MODEL)
        found[place] = replace(option, change=after - before)
    if all(option.change is None for option in found):
        return replace(lever, unpredicted=problem)
    return replace(lever, options=tuple(found), source=SOURCES[quantity], unpredicted="")


def quantity_of(compiled: Compiled, quantity: Quantity, of: Compiled | None = None) -> float | None:
    """The quantity as far as it is known without running anything; None where it is not.

    of: the compilation that the bytes per character of code are taken of, by default this one.
    """
    if quantity == "peak_bytes":
        return float(compiled.memory.peak_bytes)
    if quantity == "weights_bytes":
        return float(compiled.program.weights_bytes)
    if quantity == "seconds":
        return predicted_seconds(compiled)
    if quantity == "macs":
        return float(compiled.final.macs)
    if quantity in ("traffic_bytes", "energy_picojoules"):
        return _work(compiled, quantity)
    if quantity == "cycles":
        found = compiled.backend.predicted_cycles(list(compiled.passes), compiled.target)
        return None if not found else float(sum(found.values()))
    if quantity == "code_bytes":
        opened = of or compiled
        if opened.code_bytes is None:
            return None
        return opened.code_bytes * _characters(compiled) / max(1, _characters(opened))
    return None


def _work(compiled: Compiled, quantity: Quantity) -> float | None:
    """Bytes or picojoules of an NPU's instructions. Elsewhere the bytes of all arguments of
    kernels, which is the least that moves, and no energy."""
    done = compiled.backend.predicted_work(compiled.built)
    if done is not None:
        is_traffic = quantity == "traffic_bytes"
        return float(done.traffic_bytes) if is_traffic else done.energy_picojoules
    sizes = {kernel.name: kernel.bytes_moved for kernel in compiled.program.kernels}
    if quantity == "energy_picojoules" or not sizes:
        return None
    return float(sum(sizes.get(launch.kernel, 0) for launch in compiled.program.launches))


def _characters(compiled: Compiled) -> int:
    return sum(map(len, compiled.program.source.lines))
