"""Judges of one number or one name, which is counted or computed where it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from explorer.compilation.compilation import Compilation
from explorer.course.predictions import Judge, why_unfit, with_truth
from explorer.errors import ExplorerError
from explorer.ir.requantization import Requantization, requantize
from explorer.memory.bounds import live_bytes
from explorer.memory.planners import name_steps
from explorer.results import BufferLifetime, MemoryPlan
from explorer.results.package import PackageRecord
from explorer.results.runs.counted import CountedRun

NUMBER_TOLERANCE = 1e-6
"""Relative."""
SHARE_TOLERANCE = 0.005
"""Relative: a quotient that was typed with three digits counts."""


class Array(Protocol):
    """What multiplies on an NPU."""

    @property
    def batch(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...


def _number(truth: float, near: Mapping[float, str] | None = None) -> Judge:
    """One number; `near` says of some wrong ones what they are."""

    def judge(answer: object) -> bool | str:
        if wrong := why_unfit(answer, truth):
            return wrong
        assert isinstance(answer, int | float | np.number)
        if np.isclose(float(answer), truth, rtol=NUMBER_TOLERANCE, atol=0):
            return True
        return (near or {}).get(float(answer), f"it is not {answer}")

    return with_truth(judge, truth)


def _name(truths: Sequence[str], known: Sequence[str]) -> Judge:
    """One of some names."""

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, str):
            return "a name is asked for, in quotes"
        if answer not in known:
            return f"{answer!r} is none of {', '.join(map(repr, known))}"
        return answer in truths or f"it is not {answer!r}"

    return with_truth(judge, truths[0]) if len(truths) == 1 else judge


# -- passes ----------------------------------------------------------------------------------------


def rewrites_of(c: Compilation, name: str) -> Judge:
    """How many rewrites a pass did."""
    events = c[name].events
    applied = sum(event.applied for event in events)
    declined = {float(len(events)): "that counts the declined ones, too"}
    return _number(applied, {} if applied == len(events) else declined)


def rule_at(c: Compilation, name: str, site: str) -> Judge:
    """The rule of the rewrite that a pass did at an operation; `site` is how its name begins."""
    events = [event for event in c[name].events if event.applied]
    known = [event.rule for result in c.passes for event in result.events]
    truths = [event.rule for event in events if event.site.startswith(site)]
    return _name(truths, list(dict.fromkeys(known)))


def nodes_in_kernel(c: Compilation, kernel: str) -> Judge:
    """How many nodes of the model a kernel computes."""
    sources = {op.id: op.sources for op in c.trace(with_code=False).snapshots[-1].graph.nodes}
    operations = c.kernels[kernel].operations
    return _number(sum(len(sources[operation]) for operation in operations))


def folded_bias(weights: Sequence[Sequence[float]], bias: Sequence[float], shift: float) -> Judge:
    """The bias of a linear layer of one output that reads an input to which `shift` was added."""
    (truth,) = np.asarray(weights, float) @ np.full(len(weights[0]), shift) + np.asarray(bias)
    return _number(float(truth), {float(bias[0]): "that is the bias as it was"})


# -- where the time goes, and other algorithms -----------------------------------------------------


def intensity(c: Compilation, kernel: str) -> Judge:
    """Floating-point operations of a kernel over the bytes that it moves, to three digits."""
    record = c.kernels[kernel]
    truth = record.flops / record.bytes_moved
    inverse = {float(f"{1 / truth:.4g}"): "that is bytes per operation"}

    def judge(answer: object) -> bool | str:
        if wrong := why_unfit(answer, truth):
            return wrong
        assert isinstance(answer, int | float | np.number)
        if abs(float(answer) - truth) <= SHARE_TOLERANCE * truth:
            return True
        near = (
            told for value, told in inverse.items() if abs(float(answer) - value) < 0.01 * value
        )
        return next(near, f"it is not {answer}")

    return with_truth(judge, truth)


def most_intense(c: Compilation) -> Judge:
    """The kernel with most operations per byte."""
    found = {k.name: k.flops / k.bytes_moved for k in c.kernels.values() if k.bytes_moved}
    best = max(found.values())
    return _name([name for name, value in found.items() if value == best], list(found))


def least_batch(inputs: int, outputs: int, ridge: float) -> Judge:
    """The least number of rows with which a product of floats reaches so many operations per byte.

    The matrix has `inputs` x `outputs` numbers; all operands and results move once.
    """
    truth = 1
    while 2 * inputs * outputs * truth < ridge * 4 * (
        (inputs + outputs) * truth + inputs * outputs
    ):
        truth += 1
    return _number(truth, {truth - 1.0: "with that it is still limited by bytes"})


def share_of_products(outputs: int, window: int) -> Judge:
    """Products of Winograd's F(outputs², window²) over the textbook's."""
    tile = (outputs + window - 1) ** 2
    truth = tile / (outputs * window) ** 2

    def judge(answer: object) -> bool | str:
        if wrong := why_unfit(answer, truth):
            return wrong
        assert isinstance(answer, int | float | np.number)
        if abs(float(answer) - truth) <= SHARE_TOLERANCE * truth:
            return True
        return "that is how many there are" if answer == tile else f"it is not {answer}"

    return with_truth(judge, truth)


def growth_of_weights(outputs: int, window: int) -> Judge:
    """How many times as many numbers F(outputs², window²) keeps as a window has."""
    tile = (outputs + window - 1) ** 2
    return _number(tile / window**2, {float(tile): "that is how many there are for each window"})


# -- memory ----------------------------------------------------------------------------------------


def above_the_bound(
    planner: Callable[[Sequence[BufferLifetime]], MemoryPlan], buffers: Sequence[BufferLifetime]
) -> Judge:
    """How many bytes a planner takes above the bound."""
    bound = max(live_bytes(buffers, len(name_steps(buffers, ()))))
    peak = planner(buffers).peak_bytes
    return _number(peak - bound, {float(peak): "that is all that it takes"})


def fullest_launch(c: Compilation) -> Judge:
    """The launch in which most bytes live, counted from 0."""
    assert c.memory is not None, "the lesson compiles for a target with an arena"
    live = c.memory.live_bytes
    truth = live.index(max(live))
    return _number(truth, {truth + 1.0: "the first launch is number 0"})


def changed_file(inspected: PackageRecord) -> Judge:
    """The file that is not as it was when the package was written."""
    truths = [text.split(":")[0] for text in inspected.changed_files]

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, str):
            return "the name of a file is asked for, in quotes"
        return answer in truths or f"{answer!r} is as it was"

    return judge


# -- rounding --------------------------------------------------------------------------------------


def steps_between(
    rounded: Callable[[np.ndarray, np.ndarray, str], np.ndarray], ways: Sequence[str]
) -> Judge:
    """By how many steps ways of rounding differ at most, over many sums and ratios."""
    generator = np.random.default_rng(0)
    sums = generator.integers(-40_000, 40_000, 20_000)
    ratios = generator.uniform(1e-4, 5e-3, 8)
    found = [[rounded(sums, np.array(ratio), way) for way in ways] for ratio in ratios]
    most = max(int(np.ptp(np.stack(each).astype(int), axis=0).max()) for each in found)
    return _number(most)


def requantized(total: int, ratio: float, how: Requantization) -> Judge:
    """What a sum becomes."""
    truth = int(requantize(np.array([total]), np.array(ratio), 0, (-(1 << 31), 1 << 31), how)[0])
    halfway = float(total // 2 + total % 2)
    return _number(truth, {halfway: "that is h, the result of the first rounding"})


def way_without_errors(errors: Mapping[str, int]) -> Judge:
    """The way of rounding by which nothing differs."""
    return _name([way for way, count in errors.items() if not count], list(errors))


# -- NPUs ------------------------------------------------------------------------------------------


def cycles_of_array(machine: Array, multiplications: int) -> Judge:
    """The cycles of a matrix engine that never waits."""
    at_once = machine.batch * machine.rows * machine.columns
    one_position = float(-(-multiplications // (machine.rows * machine.columns)))
    near = {one_position: "the array takes several positions at once"}
    return _number(-(-multiplications // at_once), near)


def takes_fewer_cycles(cycles_of: Callable[[Sequence[int]], int], than: int) -> Judge:
    """Sizes of a tile with which a layer takes fewer cycles."""

    def judge(sizes: object) -> bool | str:
        if not isinstance(sizes, tuple | list) or [type(size) for size in sizes] != [int] * 4:
            return "four whole numbers are asked for, in brackets"
        if min(sizes) < 1:
            return "a tile has at least one of each"
        try:
            cycles = cycles_of(sizes)
        except ExplorerError as error:
            return str(error)
        return cycles < than or f"these take {cycles:,} cycles"

    return judge


def busiest_layer(run: CountedRun) -> Judge:
    """The place of the layer that does most multiplications in a cycle."""
    rates = [layer.macs / layer.cycles for layer in run.layers]
    truth = rates.index(max(rates))
    return _number(truth, {truth + 1.0: "the first layer is number 0"})
