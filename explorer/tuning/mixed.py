"""Mixed precision: which tensors are better not INT8, for a wanted accuracy, SQNR or latency.

    found = mixed_precision(model, table, data, Wanted(sqnr_db=35))
    found.points[found.chosen].modes            {"conv7": "INT16", "fc1": "F32"}

The sensitivity of every tensor says how much noise its bytes add to the outputs. Tensors are taken
from INT8 one after the other, those first that lower it most for what they cost: each to INT16, and
to F32 where that is clearly better. The points of this path lie between INT8 and float; the first
that is good enough is built, and what it computes in integers is what is judged in the end.

Source of the greedy path: Cai et al., ZeroQ, 2020, section 3 (sensitivities as independent of one
another, and the Pareto front over them); every point of the path is run here, not added up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.compilation import Compilation, compile_model
from explorer.compilation.settings.quantizing import TableChoice, chosen_table
from explorer.compilation.settings.settings import correcting_passes
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.quantization.quantize_tensors import FLOAT, INT8, INT16
from explorer.quantization.table import ThresholdTable
from explorer.results.runs.sensitivity import MixedPoint, MixedPrecision, Quality, TensorSensitivity
from explorer.tuning.examples import Chosen, Data, examples_of
from explorer.tuning.sensitivity import Judge, Modes, Progress, qualities, sensitivities
from explorer.tuning.simulation import SimulatedProgram, simulated_program

BITS = {INT8: 8, INT16: 16, FLOAT: 32}
WIDE_IS_ENOUGH = 0.8
"""Share of the noise that F32 takes away, which INT16 has to take away to be chosen instead."""
REPEATS = 20
"""Runs of which the median is a program's latency."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked of the outputs; all that is given has to hold."""

    accuracy: float | None = None
    """Per cent."""
    sqnr_db: float | None = None
    milliseconds: float | None = None
    """At most, for one inference on this processor with one thread."""

    def __post_init__(self) -> None:
        given = {"accuracy": self.accuracy, "SQNR": self.sqnr_db, "latency": self.milliseconds}
        if all(number is None for number in given.values()):
            raise InputError("nothing is wanted", hint="an accuracy, an SQNR or a latency")
        for name, number in given.items():
            if number is not None and not (np.isfinite(number) and number > 0):
                raise InputError(f"{name} cannot be {number:g}", hint="a positive, finite number")
        if self.accuracy is not None and self.accuracy > 100:
            raise InputError(f"an accuracy of {self.accuracy:g}", hint="per cent: at most 100")

    def __str__(self) -> str:
        words = [] if self.accuracy is None else [f"accuracy {self.accuracy:g} %"]
        words += [] if self.sqnr_db is None else [f"SQNR {self.sqnr_db:g} dB"]
        words += [] if self.milliseconds is None else [f"latency {self.milliseconds:g} ms"]
        return ", ".join(words)

    def is_met(self, quality: Quality) -> bool:
        """Whether outputs are good enough."""
        is_accurate = self.accuracy is None or (quality.accuracy or 0.0) >= self.accuracy
        return is_accurate and (self.sqnr_db is None or quality.sqnr_db >= self.sqnr_db)


def mixed_precision(
    model: SourceModel,
    table: TableChoice,
    data: Data,
    wanted: Wanted,
    labels: np.ndarray | None = None,
    dimensions: Mapping[str, int] | None = None,
    jobs: int | None = None,
    backend: str | None = "threading",
    progress: Progress | None = None,
    chosen: Chosen | None = None,
) -> MixedPrecision:
    """Modes for the tensors of a table of thresholds, and what was seen on the way.

    data: arrays by input name, whose first axis counts examples; labels: (N,), the place of the
    largest output that would be right. jobs, backend: as for `sensitivities`. chosen: how many of
    the examples, at random.

    Raises:
        InputError: for data, labels and tables that do not fit, and for what is wanted and cannot
            be reached; the message has the best that was.
    """
    begin = time.monotonic()
    thresholds = chosen_table(table, model)
    if thresholds is None:
        raise InputError("without thresholds nothing is quantized", hint="explorer calibrate")
    thresholds = replace(thresholds, modes={})
    plain = compile_model(model, "cpu", dimensions=dimensions, tuned=False)
    examples = examples_of(plain, data, chosen)
    right = checked_labels(labels, len(next(iter(examples.arrays.values()))), wanted)
    judge = Judge(
        thresholds.thresholds,
        [examples.at(k) for k in range(examples.count)],
        None if right is None else right[np.asarray(examples.order)],
    )
    search = _Search(plain, thresholds, wanted, dimensions)
    judge = replace(judge, exact=search.exact(judge))
    tensors = sensitivities(search.program, judge, jobs, backend, progress)
    path = modes_on_the_path(tensors)
    found = qualities(search.program, judge, path, jobs, backend, progress)
    points = [
        MixedPoint(modes=modes, cost=cost_of(search.program, modes), quality=quality)
        for modes, quality in zip(path, found, strict=True)
    ]
    points, best = search.choose(points, judge)
    return MixedPrecision(
        model=model.name,
        wanted=str(wanted),
        examples=examples.count,
        exact=search.exact_quality(judge),
        tensors=tensors,
        points=tuple(with_front(points)),
        chosen=best,
        seconds=time.monotonic() - begin,
    )


def checked_labels(labels: np.ndarray | None, count: int, wanted: Wanted) -> np.ndarray | None:
    """(N,) of integers; InputError where they are none, or are needed and missing."""
    if labels is None:
        if wanted.accuracy is not None:
            raise InputError("an accuracy needs labels", hint="--labels ARRAY of the data")
        return None
    flat = np.asarray(labels)
    if flat.size != count or flat.dtype.kind not in "iu":
        raise InputError(
            f"the labels are {flat.dtype} of shape {flat.shape}; expected are {count} integers"
        )
    return flat.reshape(-1)


def modes_on_the_path(tensors: Sequence[TensorSensitivity]) -> list[dict[str, str]]:
    """From all INT8 to all F32: one tensor more at a time, the most useful for its cost first."""
    least = max(min((t.macs for t in tensors if t.macs), default=1), 1)

    def gained(quality: Quality) -> float:
        return 10 ** (-quality.sqnr_db / 10)

    def use(tensor: TensorSensitivity) -> float:
        """Noise that its bytes add, for the multiply-adds that become more expensive."""
        return gained(tensor.alone) / max(tensor.macs, least)

    path: list[dict[str, str]] = [{}]
    ordered = sorted(tensors, key=use, reverse=True)
    for tensor in ordered:
        lost = gained(tensor.wide) - gained(tensor.without)
        is_enough = lost <= (1 - WIDE_IS_ENOUGH) * gained(tensor.alone)
        path.append({**path[-1], tensor.tensor: INT16 if is_enough else FLOAT})
    for tensor in ordered:
        if path[-1][tensor.tensor] != FLOAT:
            path.append({**path[-1], tensor.tensor: FLOAT})
    return path


def cost_of(program: SimulatedProgram, modes: Modes) -> float:
    """Multiply-adds times bits, over those of INT8."""
    macs = {tensor: max(count, 1) for tensor, count in program.macs.items()}
    bits = sum(count * BITS[modes.get(tensor, INT8)] for tensor, count in macs.items())
    return bits / (BITS[INT8] * sum(macs.values()))


def with_front(points: Sequence[MixedPoint]) -> list[MixedPoint]:
    """The points by cost, marked where none is both as cheap and better."""
    highest, marked = -np.inf, []
    for point in points:
        is_best = point.quality.sqnr_db > highest
        highest = max(highest, point.quality.sqnr_db)
        marked.append(replace(point, is_best=is_best))
    return marked


class _Search:
    """What is compiled for one model and table."""

    def __init__(
        self,
        plain: Compilation,
        table: ThresholdTable,
        wanted: Wanted,
        dimensions: Mapping[str, int] | None,
    ):
        self.wanted = wanted
        self.plain = plain
        self._compile = lambda modes: compile_model(
            plain.model,
            "cpu",
            dimensions=dimensions,
            tuned=False,
            quantization=replace(table, modes=modes),
        )
        self._compile({})  # the table fits the model, or this says why not
        corrections = correcting_passes(table.corrections) if table.corrections else ()
        self.program = simulated_program(
            plain.model, dimensions, corrections=corrections, weight_bits=table.weight_bits
        )
        self._exact: list[np.ndarray] = []

    def exact(self, judge: Judge) -> list[np.ndarray]:
        if not self._exact:
            self._exact = _outputs(self.plain, judge)
        return self._exact

    def exact_quality(self, judge: Judge) -> Quality:
        return judge.quality(self.exact(judge), self.exact(judge))

    def choose(self, points: Sequence[MixedPoint], judge: Judge) -> tuple[list[MixedPoint], int]:
        """The first point that is good enough as a program; of those quick enough the best."""
        found = list(points)
        for number, point in enumerate(found):
            if not self.wanted.is_met(point.quality):
                continue
            found[number] = self._measured(point, judge)
            if self.wanted.is_met(found[number].quality):
                break
        else:
            raise self._unreachable(found)
        limit = self.wanted.milliseconds
        if limit is None:
            return found, number
        return found, self._quick_enough(found, number, limit, judge)

    def _quick_enough(
        self, points: list[MixedPoint], first: int, limit: float, judge: Judge
    ) -> int:
        """The last point from the first on whose program is quick enough, by bisection.

        More float is slower along the path, but for noise of measurements.
        """
        self._time(points, first)
        if (points[first].milliseconds or 0.0) > limit:
            took = points[first].milliseconds
            raise InputError(
                f"{self.wanted} cannot be reached: the best that was takes {took:.3g} ms",
                hint="a longer latency, or less accuracy",
            )
        low, high = first, len(points)
        while high - low > 1:
            middle = (low + high) // 2
            points[middle] = self._measured(points[middle], judge)
            self._time(points, middle)
            is_quick = (points[middle].milliseconds or 0.0) <= limit
            is_good = self.wanted.is_met(points[middle].quality)
            low, high = (middle, high) if is_quick and is_good else (low, middle)
        return low

    def _measured(self, point: MixedPoint, judge: Judge) -> MixedPoint:
        """The point with the quality of the program itself."""
        actual = _outputs(self._compile(point.modes), judge)
        return replace(point, quality=judge.quality(actual, self.exact(judge)), is_measured=True)

    def _time(self, points: list[MixedPoint], number: int) -> None:
        compilation = self._compile(points[number].modes)
        inputs = {p.name: np.zeros(p.shape, p.element_type) for p in compilation.program.inputs}
        seconds = float(np.median(compilation.executable.time(inputs, REPEATS)))
        points[number] = replace(points[number], milliseconds=seconds * 1e3)

    def _unreachable(self, points: Sequence[MixedPoint]) -> InputError:
        """Says the best that was."""
        by_accuracy = self.wanted.accuracy is not None

        def rank(point: MixedPoint) -> tuple[float, float]:
            accuracy = point.quality.accuracy or 0.0
            return (accuracy if by_accuracy else 0.0, point.quality.sqnr_db)

        best = max(points, key=rank).quality
        words = f"{best.sqnr_db:.1f} dB"
        if best.accuracy is not None:
            words = f"accuracy {best.accuracy:.2f} %, {words}"
        return InputError(
            f"{self.wanted} cannot be reached: the best that was is {words}, of {len(points)} "
            "choices of modes up to all F32",
            hint="less, or thresholds of another method",
        )


def _outputs(compilation: Compilation, judge: Judge) -> list[np.ndarray]:
    """(N, ...) for each output."""
    found = [list(compilation.executable.run(inputs).values()) for inputs in judge.examples]
    return [np.stack(arrays) for arrays in zip(*found, strict=True)]
