"""Calibration: a model runs over data, and every tensor that can be quantized gets a threshold.

    table = calibrate(model, {"image": images}, method="best")      # images (N, ...)

The program that runs is generated code for this processor in which all of these tensors exist:
nothing is fused, and each is read after it was computed. Memory is bounded: a histogram per tensor
(`quantization/histogram.py`), and for `best` some examples (`refining.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.accuracy.execution import TappedProgram
from explorer.compilation import Compilation, compile_model
from explorer.compilation.settings.quantizing import digest_of_model
from explorer.compilation.settings.settings import Progress, Settings, default_pipeline, device_for
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.ir.evaluation import entry_function
from explorer.ir.origins import Origin, origin_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.passes import Pass
from explorer.ir.structure import operations, value_name
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.types import is_static, static_shape
from explorer.passes import BEFORE_QUANTIZING, FUSION, QUANTIZATION, before_quantizing
from explorer.passes.analysis.matching import maker
from explorer.passes.lower.join_in_place import JoinInPlace
from explorer.passes.lower.legalize import Legalize
from explorer.passes.simplify.eliminate_dead_code import EliminateDeadCode
from explorer.passes.simplify.remove_no_ops import MergeReshapes
from explorer.quantization.choosing import Tensor, quantizable_tensors
from explorer.quantization.histogram import Histogram
from explorer.quantization.methods import RANGES, Range
from explorer.quantization.observations import observed_tensor
from explorer.quantization.table import WEIGHT_WIDTHS, Threshold, ThresholdTable
from explorer.results.names import near_name
from explorer.results.runs.quantization import ObservedTensor
from explorer.tuning.calibration_state import State
from explorer.tuning.examples import Chosen, Data, Examples, examples_of, read_data
from explorer.tuning.outliers import Outliers, located, outlier_words, outliers_in
from explorer.tuning.refining import MAX_EXAMPLES, is_same, refined_ranges
from explorer.tuning.simulation import simulated_program

Arithmetic = Literal["float", "integer"]
"""Of the target that the table is for."""
ARITHMETICS: tuple[Arithmetic, ...] = get_args(Arithmetic)
BEST, MIN_MAX = "best", "min-max"
Method = Literal[
    "best", "min-max", "moving-average", "percentile", "kl", "mse", "aciq-gauss", "aciq-laplace"
]
METHODS: tuple[Method, ...] = get_args(Method)
BITS = 8
KEPT_BYTES = 256 << 20
"""Of examples that `best` measures errors with; the first is always kept."""


@dataclass(frozen=True)
class Observed:
    """What was seen of all tensors that can be quantized."""

    tensors: tuple[str, ...]
    histograms: Mapping[str, Histogram]
    source: SourceModel
    dimensions: Mapping[str, int] | None
    kept: Sequence[Mapping[str, np.ndarray]]
    """Inputs of some examples, spread over all."""
    model: str
    """Digest of the model's file."""
    examples: int
    snapshot: Snapshot
    """The float program before it is quantized."""
    data: Examples
    integers_only: bool = False
    """Whether the tensors are those that a target without floats quantizes."""
    corrections: Sequence[Pass] = ()
    """Passes that the program had, which keep what it computes."""
    outliers: Sequence[Outliers] = ()
    """Of tensors that have numbers far beyond all others."""
    weight_bits: int = 8
    """What the weights are to take."""


def calibrate(
    model: SourceModel,
    data: Data | str | Path,
    method: str = BEST,
    dimensions: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    arithmetic: Arithmetic = "float",
    chosen: Chosen | None = None,
    state: Path | None = None,
    weight_bits: int = 8,
) -> ThresholdTable:
    """Thresholds of all tensors that can be quantized.

    data: arrays by input name, whose first axis counts examples, or an `.npz` file or a folder of
    them, which need not fit into memory; `best` chooses per tensor what makes the outputs of the
    whole network most like those in floats. arithmetic: "integer" for targets without floats,
    which need thresholds of more tensors. chosen: how many examples, at random. state: a file from
    which a calibration that was killed goes on; it is gone when the table is there. weight_bits: 4
    for arrays that multiply weights of 4 bits.

    Raises:
        InputError: for data that do not fit, are empty or not finite, and a method or an
            arithmetic that there is not.
    """
    require_asked(method, arithmetic, weight_bits)
    if isinstance(data, str | Path):
        data = read_data(Path(data))
    integers_only = arithmetic == "integer"
    observed = observe(
        model, data, dimensions, progress, integers_only, chosen=chosen, state=state,
        weight_bits=weight_bits,
    )  # fmt: skip
    table = thresholds_of(observed, method, progress)
    if state is not None:
        state.unlink(missing_ok=True)
    return table


def require_asked(method: str, arithmetic: str, weight_bits: int = 8) -> None:
    """InputError where there is no method or no arithmetic of that name, or no such weights."""
    if weight_bits not in WEIGHT_WIDTHS:
        hint = " or ".join(map(str, WEIGHT_WIDTHS))
        raise InputError(f"weights cannot have {weight_bits!r} bits", hint=hint)
    if arithmetic not in ARITHMETICS:
        raise InputError(f"there is no arithmetic {arithmetic!r}", hint=" or ".join(ARITHMETICS))
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}", hint=near_name(method, METHODS))


def thresholds_of(
    observed: Observed, method: str, progress: Progress | None = None
) -> ThresholdTable:
    """The table of one method, of what was seen."""
    noises: dict[str, dict[Range, float]] = {name: {} for name in observed.tensors}
    if method == BEST:
        program = simulated_program(
            observed.source,
            observed.dimensions,
            returns_logits=True,
            integers_only=observed.integers_only,
            corrections=observed.corrections,
            weight_bits=observed.weight_bits,
        )

        def note(name: str, tried: Range, noise: float) -> None:
            noises[name][tried] = noise

        ranges = refined_ranges(program, observed.histograms, observed.kept, progress, note)
        # What a softmax at the end makes is no part of that program: all of it is represented.
        method_of_others = MIN_MAX
    else:
        ranges, method_of_others = {}, method
    others = (name for name in observed.tensors if name not in ranges)
    ranges |= {n: RANGES[method_of_others](observed.histograms[n], BITS) for n in others}
    found = {}
    for name in observed.tensors:
        chosen = ranges[name]
        # A tensor that is always 0 is represented by any scale.
        threshold = chosen.threshold or 1.0
        found[name] = Threshold(name, threshold, chosen.low, chosen.high)
    return ThresholdTable(
        found,
        observed.model,
        f"{method}, {observed.examples} examples",
        warnings=(*warnings_of(observed), *outlier_words(observed.outliers, found, method)),
        observations={
            name: observation_of(histogram, noises[name])
            for name, histogram in observed.histograms.items()
        },
        weight_bits=observed.weight_bits,
    )


def observation_of(histogram: Histogram, noises: Mapping[Range, float]) -> ObservedTensor:
    """The histogram with what every method says, and the noise of the outputs where it was tried,
    or where a range was that is as good as the same."""

    def decibels(chosen: Range) -> float | None:
        near = [noise for tried, noise in noises.items() if is_same(tried, chosen)]
        found = noises.get(chosen, near[0] if near else None)
        return None if found is None else -10 * math.log10(found)

    ranges = [(method, find(histogram, BITS)) for method, find in RANGES.items()]
    return observed_tensor(histogram, [(m, c, decibels(c)) for m, c in ranges], BITS)


def warnings_of(observed: Observed) -> Iterator[str]:
    """What makes thresholds doubtful: tensors that never change, numbers that are not finite."""
    for name, histogram in observed.histograms.items():
        if histogram.not_finite:
            yield f"{name} had {histogram.not_finite} numbers that are NaN or infinite: left out"
        if histogram.is_constant:
            yield f"{name} was {histogram.low:g} in all examples: its range is a guess"


def observe(
    model: SourceModel,
    data: Data,
    dimensions: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    integers_only: bool = False,
    corrections: Sequence[Pass] = (),
    chosen: Chosen | None = None,
    state: Path | None = None,
    weight_bits: int = 8,
) -> Observed:
    """Runs the model over all examples, from where a state says; InputError as for `calibrate`.

    corrections: passes behind `before_quantizing` that keep what the program computes.
    """
    program = calibration_program(model, dimensions, integers_only, corrections)
    snapshot = program[(*BEFORE_QUANTIZING, *corrections)[-1].name].after
    tensors = tensors_of(snapshot, integers_only)
    if not tensors:
        raise InputError("nothing in this model can be quantized: it has no products of floats")
    examples = examples_of(program, data, chosen)
    digest = digest_of_model(model)
    names = [kind.name for kind in corrections]
    kept = State(state, f"{digest} {examples.digest} {dict(dimensions or {})} {names}")
    tapped = TappedProgram(program.executable)
    places = places_of(program, {tensor.name: tensor.value for tensor in tensors})
    first, histograms = kept.read(tuple(places))

    def values(number: int, names: Iterable[str] = tuple(places)) -> dict[str, np.ndarray]:
        inputs = examples.at(number)
        found = inputs | tapped.values(inputs, {})
        return {n: inputs[n] if n in inputs else places[n].read(found) for n in names}

    for number in range(first, examples.count):
        if progress is not None:
            progress("example", number, examples.count)
        for name, tensor in values(number).items():
            histograms[name] = histograms[name].including(tensor)
        kept.keep(number + 1, histograms)
    far = {n: one for n in places if (one := outliers_in(n, histograms[n])) is not None}
    return Observed(
        tensors=tuple(places),
        histograms=histograms,
        source=model,
        dimensions=dimensions,
        kept=kept_examples(examples),
        model=digest,
        examples=examples.count,
        integers_only=integers_only,
        corrections=corrections,
        snapshot=snapshot,
        data=examples,
        outliers=located(far, examples.count, lambda number: values(number, far)),
        weight_bits=weight_bits,
    )


def kept_examples(examples: Examples) -> list[dict[str, np.ndarray]]:
    """As many as `best` can make use of and memory is for, at equal distances."""
    size = sum(array.nbytes for array in examples.at(0).values())
    most = max(min(MAX_EXAMPLES, KEPT_BYTES // max(size, 1), examples.count), 1)
    return [examples.at(int(number)) for number in np.linspace(0, examples.count - 1, most)]


def tensors_of(snapshot: Snapshot, integers_only: bool = False) -> list[Tensor]:
    function = entry_function(snapshot.program)
    assert isinstance(function, func.FuncOp)
    return quantizable_tensors(function, integers_only)


class LegalizeEachTensor(Legalize):
    """Without the rule that drops what lies between two reshapes: convolutions of one dimension and
    transposed ones end with a reshape, and their results have to be read."""

    rules = tuple(rule for rule in Legalize.rules if rule is not MergeReshapes)


@dataclass(frozen=True)
class Place:
    """Where a program has a tensor: in one of its values, whose elements come in another shape."""

    value: str
    shape: tuple[int, ...] | None = None

    def read(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        array = values[self.value]
        return array if self.shape is None else array.reshape(self.shape)


def places_of(program: Compilation, tensors: Mapping[str, SSAValue]) -> dict[str, Place]:
    """Of values before they are quantized, in a calibration program, by the names given here.

    What legalization writes in other operations ends with one that has the origin, and another
    name, of the value whose place it takes. A reshape lies in the buffer of what it reshapes.
    """
    names: dict[str, Origin | None] = {}
    others: dict[Origin, Place] = {}
    for op in operations(program[Legalize.name].after.program):
        for result in op.results:
            names[value_name(result)] = origin = origin_of(result)
            if origin is not None and is_static(result):
                others.setdefault(origin, _place_in_buffer(result))

    def place(value: SSAValue) -> Place:
        name, origin = value_name(value), origin_of(value)
        if origin is not None and names.get(name) != origin and origin in others:
            return others[origin]
        return Place(name)

    return {name: place(value) for name, value in tensors.items()}


def _place_in_buffer(value: SSAValue) -> Place:
    whole = value
    while (reshape := maker(whole, ReshapeOp)) is not None:
        whole = reshape.input
    return Place(value_name(whole), None if whole is value else static_shape(value))


def calibration_program(
    model: SourceModel,
    dimensions: Mapping[str, int] | None = None,
    integers_only: bool = False,
    corrections: Sequence[Pass] = (),
) -> Compilation:
    """The float program with a value for each tensor that can be quantized, for this processor.

    corrections: passes before the quantization that keep what the program computes.
    """
    plain = compile_model(model, "cpu", dimensions=dimensions, tuned=False)
    passes = calibration_passes(plain.settings, integers_only, corrections)
    return plain.fork(pipeline=passes)


def calibration_passes(
    settings: Settings, integers_only: bool = False, corrections: Sequence[Pass] = ()
) -> list[Pass]:
    """The target's passes without fusion, but for what changes weights, which comes first.

    What joins tensors has a buffer of its own: a concat that is made in place has none to be read.
    """
    passes = default_pipeline(settings, device_for(settings.target))
    kept = (Legalize, EliminateDeadCode)
    dropped = tuple(kind for kind in (*QUANTIZATION, *FUSION, JoinInPlace) if kind not in kept)
    found = [p for p in passes if not isinstance(p, dropped)]
    place, legalize = next((i, p) for i, p in enumerate(found) if isinstance(p, Legalize))
    before = [*before_quantizing(integers_only), *corrections]
    lowering = [LegalizeEachTensor(legalize.capabilities), *found[place + 1 :]]
    return [*found[:place], *before, *lowering]
