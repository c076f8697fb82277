"""Calibration with corrections: thresholds, then what passes of corrections need, from the data.

    table = calibrate_corrected(model, data, "best", ("adaround", "bias"))
    table.corrections.roundings["conv1"].integers

Roundings and biases are found in one walk through the program over a sample of the examples. It
computes every value twice: in floats, and as the quantized program has it with all corrections up
to there, so that a layer makes up for those before it as well. Values are those of the operations'
NumPy meaning: what is found is the same on every machine but for the order of sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.accuracy.execution import TappedProgram
from explorer.compilation.settings.settings import Progress, correcting_passes
from explorer.importers import SourceModel
from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.top.data import WeightOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.support.quantized_scalars import real_array, stored_array
from explorer.ir.types import QuantizedType
from explorer.passes import BEFORE_QUANTIZING
from explorer.quantization.choosing import has_integer_form, moved_from, quantizable_tensors
from explorer.quantization.corrections.moments import Linear, grouped, moments_of, ungrouped
from explorer.quantization.corrections.record import (
    ADAROUND,
    BIAS,
    CLE,
    DEFAULT,
    SMOOTH,
    Corrections,
    Rounding,
    Shift,
    digest_of_weights,
)
from explorer.quantization.corrections.rounding import errors, nearest, rounded
from explorer.quantization.corrections.seams import eighths_of, seams
from explorer.quantization.quantize_tensors import FLOAT, type_of, weight_type
from explorer.quantization.table import ThresholdTable, largest_weight
from explorer.tuning.calibration import (
    BEST,
    Arithmetic,
    Observed,
    calibrate,
    calibration_program,
    observe,
    places_of,
    require_asked,
    thresholds_of,
)
from explorer.tuning.examples import Chosen, Data, Examples, examples_of, read_data
from explorer.tuning.judging import Judge

Arrays = list[np.ndarray]

MAX_EXAMPLES = 256
MAX_BYTES = 1 << 30
"""Of the values that live at once, in all examples of the walk."""
MAX_MACS = 20_000_000_000
"""Of all examples of the walk: about a minute."""
MAX_INPUTS = 2304
"""Of a sum whose weights are rounded together: their moments are a square of them."""


def calibrate_corrected(
    model: SourceModel,
    data: Data | str | Path,
    method: str = BEST,
    kinds: Sequence[str] | None = (),
    dimensions: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    arithmetic: Arithmetic = "float",
    chosen: Chosen | None = None,
    state: Path | None = None,
    weight_bits: int = 8,
) -> ThresholdTable:
    """As `calibrate`, and the table has the corrections of these kinds; of None those that `best`
    finds best (`judging.py`), and `DEFAULT` with any other method."""
    require_asked(method, arithmetic, weight_bits)
    if kinds is None and method != BEST:
        kinds = DEFAULT
    if kinds is not None and not kinds:
        return calibrate(
            model, data, method, dimensions, progress, arithmetic, chosen=chosen, state=state,
            weight_bits=weight_bits,
        )  # fmt: skip
    if isinstance(data, str | Path):
        data = read_data(Path(data))
    integers_only = arithmetic == "integer"
    if kinds is None:
        return _judged(model, data, dimensions, progress, integers_only, chosen, state, weight_bits)
    factors = [kind for kind in kinds if kind in (CLE, SMOOTH)]
    record = Corrections(kinds=tuple(factors))
    if factors:
        record = with_limits(record, model, data, dimensions, progress, integers_only, chosen)
    passes = correcting_passes(record)
    observed = observe(
        model, data, dimensions, progress, integers_only, passes, chosen=chosen, state=state,
        weight_bits=weight_bits,
    )  # fmt: skip
    table = thresholds_of(observed, method, progress)
    table = with_corrections(table, observed, kinds, progress, record)
    if state is not None:
        state.unlink(missing_ok=True)
    return table


def _judged(
    model: SourceModel,
    data: Data,
    dimensions: Mapping[str, int] | None,
    progress: Progress | None,
    integers_only: bool,
    chosen: Chosen | None,
    state: Path | None,
    weight_bits: int,
) -> ThresholdTable:
    """Of the method `best`, with the corrections that it finds best."""
    none = Corrections(kinds=())
    limits = with_limits(none, model, data, dimensions, progress, integers_only, chosen)

    def observed(record: Corrections) -> Observed:
        kept = None if record.kinds else state  # what was seen without factors is seen anew
        passes = correcting_passes(record)
        return observe(
            model, data, dimensions, progress, integers_only, passes, chosen=chosen, state=kept,
            weight_bits=weight_bits,
        )  # fmt: skip

    def corrected(
        table: ThresholdTable, observed: Observed, kinds: Sequence[str], record: Corrections
    ) -> ThresholdTable:
        return with_corrections(table, observed, kinds, progress, record)

    table = Judge(limits, observed, corrected, progress).table()
    if state is not None:
        state.unlink(missing_ok=True)
    return table


def with_limits(
    record: Corrections,
    model: SourceModel,
    data: Data,
    dimensions: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    integers_only: bool = False,
    chosen: Chosen | None = None,
) -> Corrections:
    """With the limits of all channels that can have a factor, and the factors that they get."""
    program = calibration_program(model, dimensions, integers_only)
    snapshot = program[BEFORE_QUANTIZING[-1].name].after
    function = entry_function(snapshot.program)
    names = {tensor.value: tensor.name for tensor in quantizable_tensors(function, integers_only)}
    places = {
        names[place.value]: place
        for _, seam in seams(function, snapshot.weights)
        if not isinstance(seam, str)
        for place in seam.between
        if place.value in names
    }
    if not places:
        return record
    examples = examples_of(program, data, chosen)
    tapped = TappedProgram(program.executable)
    read = places_of(program, {name: place.value for name, place in places.items()})
    limits: dict[str, np.ndarray] = {}
    for number in range(examples.count):
        if progress is not None:
            progress("channels of example", number, examples.count)
        inputs = examples.at(number)
        found = inputs | tapped.values(inputs, {})
        for name, place in places.items():
            array = np.moveaxis(read[name].read(found), place.axis, 0)
            array = array.reshape(len(array), -1)
            ends = np.stack([array.min(axis=1), array.max(axis=1)])
            known = limits.get(name, ends)
            limits[name] = np.stack([np.minimum(known[0], ends[0]), np.maximum(known[1], ends[1])])
    return replace(record, limits={n: a.astype(np.float32) for n, a in limits.items()})


def with_corrections(
    table: ThresholdTable,
    observed: Observed,
    kinds: Sequence[str],
    progress: Progress | None = None,
    record: Corrections | None = None,
) -> ThresholdTable:
    """The table, with what is found of the same examples; with a warning where nothing can be.

    record: of the corrections that the observed program has already.
    """
    record = record or Corrections(kinds=())
    function = entry_function(observed.snapshot.program)
    eighths = {
        tensor.name: np.array(eighths_of(tensor.value), np.int16)
        for tensor in quantizable_tensors(function, observed.integers_only)
        if tensor.name in record.limits and eighths_of(tensor.value)
    }
    record = replace(record, eighths=eighths, kinds=tuple(kinds))
    odd = [op for op in function.body.block.ops if op.regions]
    if odd:
        words = f"no corrections: {identity_of(odd[0])} decides what is computed"
        record = replace(record, kinds=tuple(k for k in kinds if k in (CLE, SMOOTH)))
        return replace(table, corrections=record, warnings=(*table.warnings, words))
    walk = Walk(observed.snapshot, table, tuple(kinds), observed.integers_only)
    if ADAROUND in kinds or BIAS in kinds:
        walk.over(observed.data, progress)
    return replace(
        table,
        corrections=replace(record, roundings=walk.roundings, shifts=walk.shifts),
        warnings=(*table.warnings, *walk.warnings),
    )


@dataclass(frozen=True)
class Pair:
    """A value in all examples: in floats, and as the quantized program has it."""

    exact: Arrays
    quantized: Arrays


@dataclass
class Walk:
    """From operation to operation; each is done for all examples before the next."""

    snapshot: Snapshot
    table: ThresholdTable
    kinds: tuple[str, ...]
    integers_only: bool = False
    values: dict[SSAValue, Pair] = field(default_factory=dict)
    roundings: dict[str, Rounding] = field(default_factory=dict)
    shifts: dict[str, Shift] = field(default_factory=dict)
    done: set[TopOperation] = field(default_factory=set)
    count: int = 0
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        function = entry_function(self.snapshot.program)
        assert isinstance(function, func.FuncOp)
        self.function = function
        self.types: dict[SSAValue, QuantizedType] = {
            tensor.value: type_of(self.table.thresholds[tensor.name], self.table.mode(tensor.name))
            for tensor in quantizable_tensors(function, self.integers_only)
            if self.table.mode(tensor.name) != FLOAT
        }

    def over(self, examples: Examples, progress: Progress | None = None) -> None:
        """Finds roundings and shifts over a sample of the examples."""
        inputs = [examples.at(number) for number in sampled(examples.count, self.snapshot)]
        self.count = len(inputs)
        names = input_names(self.function)
        for argument, name in zip(self.function.body.block.args, names, strict=True):
            arrays = [example[name] for example in inputs]
            self._keep(argument, arrays, arrays)
        steps = [op for op in self.function.body.block.ops if isinstance(op, TopOperation)]
        for number, op in enumerate(steps):
            if isinstance(op, WeightOp) or not op.results:
                continue
            if progress is not None:
                progress(f"corrections of {identity_of(op)}", number, len(steps))
            self._step(op)
            self._forget(op)

    def _step(self, op: TopOperation) -> None:
        exact = self._evaluated(op, [self._exact(o) for o in op.operands])
        weight = self._integer_weight(op)
        if weight is None:
            results = self._evaluated(op, [self._quantized(o) for o in op.operands])
        else:
            assert isinstance(op, Linear)
            results = [self._linear(op, weight, exact[0])]
        for result, arrays, others in zip(op.results, exact, results, strict=True):
            self._keep(result, arrays, others)

    def _linear(self, op: Linear, weight: np.ndarray, exact: Arrays) -> Arrays:
        """Results with integer weights, rounded and shifted as the corrections say."""
        index, axis = op.quantized_weight()
        to = weight_type(weight, axis, bits=self.table.weight_bits)
        found = self._rounding(op, weight, to) if ADAROUND in self.kinds else None
        integers = stored_array(weight, to) if found is None else found.integers
        chosen = real_array(integers, to).astype(weight.dtype)
        if found is not None:
            self.roundings[identity_of(op)] = found
            weight = chosen  # what the program has when biases are corrected
        operands = [self._quantized(o) for o in op.operands]
        operands[index] = [chosen] * len(exact)
        results = self._evaluated(op, operands)[0]
        return self._shifted(op, weight, exact, results) if BIAS in self.kinds else results

    def _shifted(self, op: Linear, weight: np.ndarray, exact: Arrays, results: Arrays) -> Arrays:
        """The results with their mean that of the exact ones, channel by channel."""
        if op.bias is not None and constant(op.bias, self.snapshot.weights) is None:
            return results
        axis = op.channel_axes()[1]
        shift = mean_error(exact, results, axis).astype(np.float32)
        column = shift.reshape([-1 if a == axis else 1 for a in range(exact[0].ndim)])
        better = [array + column for array in results]
        self.shifts[identity_of(op)] = Shift(
            numbers=shift,
            weights=digest_of_weights(weight),
            error=float(np.abs(shift).mean()),
            error_after=float(np.abs(mean_error(exact, better, axis)).mean()),
        )
        return better

    def _rounding(self, op: Linear, weight: np.ndarray, to: QuantizedType) -> Rounding | None:
        """None where the weights are too many to be rounded together."""
        if isinstance(op, MatMulOp) and weight.ndim != 2:
            return None
        rows = grouped(op, weight)
        if rows.shape[2] > MAX_INPUTS:
            self.warnings.append(
                f"the weights of {identity_of(op)} are rounded to the nearest: {rows.shape[2]} of "
                f"them make a sum, more than {MAX_INPUTS}"
            )
            return None
        first = op.operands[0]
        moments = moments_of(op, self._exact(first), self._quantized(first), BIAS in self.kinds)
        scales = np.broadcast_to(to.scale_array, weight.shape[to.axis_number]).astype(np.float32)
        by_row = scales.astype(np.float64).reshape(rows.shape[:2])
        largest = largest_weight(self.table.weight_bits)
        found: Arrays = []
        before: Arrays = []
        after: Arrays = []
        for own, factors, known in zip(rows.astype(np.float64), by_row, moments, strict=True):
            integers = rounded(own, factors, known, largest)
            found.append(integers)
            before.append(errors(own, nearest(own, factors, largest), factors, known))
            after.append(errors(own, integers, factors, known))
        return Rounding(
            integers=ungrouped(op, np.stack(found), weight.shape).astype(np.int8),
            scales=scales,
            axis=to.axis_number % weight.ndim,
            weights=digest_of_weights(weight),
            error=float(np.mean(before)),
            error_after=float(np.mean(after)),
        )

    def _integer_weight(self, op: TopOperation) -> np.ndarray | None:
        """The weights that `quantize-tensors` makes integers of; None where there are none."""
        if not isinstance(op, Linear) or not has_integer_form(op, self.integers_only):
            return None
        if moved_from(op.operands[0]) not in self.types:
            return None
        return constant(op.operands[op.quantized_weight()[0]], self.snapshot.weights)

    def _exact(self, value: SSAValue) -> Arrays:
        return self._pair(value).exact

    def _quantized(self, value: SSAValue) -> Arrays:
        return self._pair(value).quantized

    def _pair(self, value: SSAValue) -> Pair:
        array = constant(value, self.snapshot.weights)
        if array is None:
            return self.values[value]
        same = [array] * self.count
        return Pair(same, same)

    def _evaluated(self, op: TopOperation, operands: Sequence[Arrays]) -> list[Arrays]:
        """By result; operands by place, each in all examples."""
        found = [op.evaluate(*arrays) for arrays in _columns(operands, self.count)]
        return [[np.asarray(results[i]) for results in found] for i in range(len(op.results))]

    def _keep(self, value: SSAValue, exact: Arrays, quantized: Arrays) -> None:
        """A value; what gets a quantized type has no other numbers from here on."""
        to = self.types.get(value)
        if to is not None:
            quantized = [real_array(stored_array(a, to), to).astype(a.dtype) for a in quantized]
        self.values[value] = Pair(exact, quantized)

    def _forget(self, op: TopOperation) -> None:
        """What it read and nothing behind it reads."""
        for operand in op.operands:
            users = {use.operation for use in operand.uses}
            if users <= self.done | {op}:
                self.values.pop(operand, None)
        self.done.add(op)


def _columns(operands: Sequence[Arrays], count: int) -> list[tuple[np.ndarray, ...]]:
    """The operands of each example."""
    return list(zip(*operands, strict=True)) if operands else [()] * count


def mean_error(exact: Arrays, found: Arrays, axis: int) -> np.ndarray:
    """(channels,) f64: the mean of exact - found over all examples and other axes."""
    others = tuple(a for a in range(exact[0].ndim) if a != axis)
    parts = [
        (a.astype(np.float64) - b).mean(axis=others) for a, b in zip(exact, found, strict=True)
    ]
    return np.mean(parts, axis=0)


def sampled(count: int, snapshot: Snapshot) -> list[int]:
    """Numbers of examples that the walk takes, evenly spread, as many as memory and time allow."""
    by_memory = MAX_BYTES // max(2 * snapshot.peak_bytes, 1)
    by_time = MAX_MACS // max(snapshot.macs, 1)
    wanted = max(1, min(count, MAX_EXAMPLES, by_memory, by_time))
    return [number * count // wanted for number in range(wanted)]
