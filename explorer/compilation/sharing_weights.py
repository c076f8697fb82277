"""Programs of one model that are loaded at once: each weight in memory once, in one layout.

    prompt, 13 rows    w packed by 2 vectors of columns
    step, 1 row        w packed by 7 vectors; by 2 vectors its tile reads three groups instead of
                       one stream: predicted 1.01 of the time, so it has the prompt's layout

The first program decides. A kernel of a later one takes the layout that is there where the cost
model predicts at most `MAX_LOSS` more time for it; else the weight is there twice, which is
reported with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from explorer.compilation.compilation import Compilation
from explorer.compilation.measurements.costs import cost_machine_for
from explorer.compilation.settings.settings import machine_lanes
from explorer.errors import ExplorerError
from explorer.ir.dialects.kernel import LaunchOp, kernel_arguments
from explorer.ir.structure import operations
from explorer.ir.top.data import WeightOp
from explorer.kernels.cost import CostMachine, estimate
from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.passes import ScheduleLoops
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.schedules.matmul import PACKED
from explorer.kernels.schedules.schedule import Choice, ScheduledKernel
from explorer.kernels.steps.narrow import narrowed_weights
from explorer.kernels.steps.winograd.step import winograd_weights
from explorer.results.runs.sessions import WeightsReport
from explorer.runtime.cache.saved_programs import Startable
from explorer.runtime.native.weight_block import WeightBlock

MAX_LOSS = 0.05
"""Of a kernel's predicted time: for more a weight has a copy in another layout."""
MAX_VECTORS = 8
"""Of a tile."""


@dataclass(frozen=True, eq=False)
class Use:
    """A weight that a kernel reads, in the layout of its schedule."""

    weight: str
    array: np.ndarray
    argument: str
    kernel: ScheduledKernel

    @property
    def layout(self) -> tuple[object, ...]:
        function, name = self.kernel.function, self.argument
        is_narrow = name in narrowed_weights(function)
        return tuple(self.kernel.packs[name]), winograd_weights(function).get(name), is_narrow


@dataclass
class SharedWeights:
    """The layouts and the block of weights of programs of one model."""

    block: WeightBlock = field(default_factory=WeightBlock)
    _known: dict[str, list[Use]] = field(default_factory=dict)

    def build(self, compilation: Compilation) -> tuple[Compilation, WeightsReport | None]:
        """The compilation, or a fork with layouts of earlier programs, with its program built; and
        what of its weights is there twice. Nothing is reported of the first one."""
        with self.block.lock:
            if not compilation.takes_weight_block:
                size = compilation.program.weights_bytes
                return compilation, own_block(size) if self._known else None
            is_first, reasons = not self._known, list[str]()
            compilation = self._fitted(compilation, reasons)
            compilation.weight_block = self.block
            self.block.begin()
            _ = compilation.built
            for use in uses_of(compilation):
                self._known.setdefault(use.weight, []).append(use)
            return compilation, None if is_first else self._report(reasons)

    def adopt(self, found: Startable) -> tuple[Startable, WeightsReport]:
        """A saved program that reads the block, where its weights begin as the block does."""
        size = found.block.nbytes
        if found.kept.parts or not self.block.adopt(found.block):
            return found, own_block(size)
        return replace(found, weights=self.block.mapped(size)), self._report(())

    def _report(self, reasons: Sequence[str]) -> WeightsReport:
        shared, copied = self.block.shared_bytes, self.block.new_bytes
        return WeightsReport(shared_bytes=shared, copied_bytes=copied, reasons=tuple(reasons))

    def _fitted(self, compilation: Compilation, reasons: list[str]) -> Compilation:
        """With the layouts of earlier programs where that costs little."""
        by_kernel: dict[str, list[tuple[Use, Use]]] = {}
        for use in uses_of(compilation):
            known = self._earlier(use)
            if known is not None and known.layout != use.layout:
                by_kernel.setdefault(use.kernel.name, []).append((use, known))
        if not by_kernel:
            return compilation
        predict = _Predictor(compilation)
        decisions: dict[str, Choice] = {}
        for name, pairs in by_kernel.items():
            found = predict.choices(pairs)
            if isinstance(found, str):
                reasons.append(f"{name}: {found}")
                continue
            decisions |= {f"{ScheduleLoops.name}/{name}/{c}": v for c, v in found.items()}
        return compilation.fork(decisions=decisions) if decisions else compilation

    def _earlier(self, use: Use) -> Use | None:
        """The use of the same weight by an earlier program: in this layout, if there is one."""
        same = [
            known
            for known in self._known.get(use.weight, ())
            if known.array is use.array or np.array_equal(known.array, use.array)
        ]
        return next((k for k in same if k.layout == use.layout), same[0] if same else None)


def uses_of(compilation: Compilation) -> Iterator[Use]:
    """Every weight that a kernel reads, as it was before it was packed."""
    if ScheduleLoops.name not in compilation.names:
        return
    before, kernels = compilation[ScheduleLoops.name].before, compilation._scheduled
    for op in operations(before.program):
        if not isinstance(op, LaunchOp) or op.kernel.data not in kernels:
            continue
        kernel = kernels[op.kernel.data]
        arguments = kernel_arguments(before.kernels[op.kernel.data])
        given = [a for a in arguments if a.role not in ("output", "scratch")]
        for argument, operand in zip(given, op.operands, strict=True):
            if argument.role == "weight" and isinstance(operand.owner, WeightOp):
                name = operand.owner.weight.data
                yield Use(name, before.weights[name], argument.name, kernel)


def own_block(size_bytes: int) -> WeightsReport:
    """Of a program that shares nothing."""
    return WeightsReport(copied_bytes=size_bytes, reasons=("it has a block of its own",))


class _Predictor:
    """Schedules kernels for layouts that are there, and compares the predicted times."""

    def __init__(self, compilation: Compilation) -> None:
        schedules = (p for p in compilation.pipeline if isinstance(p, ScheduleLoops))
        self._machine: Machine = next(schedules).machine
        lanes = machine_lanes(compilation.target, compilation.device)
        self._costs: CostMachine = cost_machine_for(compilation.target, lanes)

    def choices(self, pairs: Sequence[tuple[Use, Use]]) -> Mapping[str, Choice] | str:
        """Of the kernel of all these uses, for the earlier layouts; or why it keeps its own."""
        use, known = pairs[0]
        if any(other.layout != known.layout for _, other in pairs):
            return "earlier programs have its weights in several layouts"
        own = estimate(use.kernel.function, self._costs).microseconds
        best, cost = None, float("inf")
        for tried in _candidates(use.kernel, known.kernel):
            try:
                other = schedule_kernel(
                    use.kernel.steps[0].origin, self._machine, use.kernel.given_packs, tried
                )
            except (ScheduleError, ExplorerError):
                continue  # not legal with its other choices
            is_same = Use(use.weight, use.array, use.argument, other).layout == known.layout
            found = estimate(other.function, self._costs).microseconds
            if is_same and found < cost:
                best, cost = tried, found
        if best is None:
            return "it cannot read the layout that an earlier program has"
        if cost > (1 + MAX_LOSS) * own:
            return f"predicted {cost / own:.2f} of its time with the layout that is there"
        return best


def _candidates(kernel: ScheduledKernel, known: ScheduledKernel) -> Iterator[dict[str, Choice]]:
    """Choices that may bring a kernel to the layout of another one."""
    together = known.choices.get(PACKED, known.choices.get("vectors"))
    if not isinstance(together, int):
        return
    given = dict(kernel.given)
    yield {**given, "vectors": together}
    for vectors in range(1, MAX_VECTORS + 1):
        if vectors != together and (vectors % together == 0 or together % vectors == 0):
            yield {**given, "vectors": vectors, PACKED: together}
