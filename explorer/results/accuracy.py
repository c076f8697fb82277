"""Errors of every tensor after every pass against the source model's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.results.data import DataRecord, OutputError
from explorer.results.displayed import Displayed
from explorer.results.runs.quantization import QuantizationErrors

AS_EXACT = 2.0
"""Two runs that round at other places are off by other amounts: by no more than twice what others
reach counts as equally exact. Mistakes are off by orders of magnitude."""


@dataclass(frozen=True, kw_only=True)
class TensorError:
    """`max_relative = max|a-b| / max(max|b|, 1e-6)`; integers and booleans must be equal.

    NaN and infinities must stand at equal positions, else `max_relative` is infinity.
    """

    tensor: str
    """Name in the source model."""
    operation: str
    """Identity of the operation that makes it in this snapshot."""
    max_absolute: float
    max_relative: float
    cosine: float
    sqnr_db: float
    """Signal to quantization noise ratio; infinity when equal."""
    worst_index: tuple[int, ...] = ()
    """Position in the source tensor; empty in a scalar, and in padding that the source lacks."""
    worst_value: float = 0.0
    expected_value: float = 0.0
    detail: int | None = None
    """Place in `AccuracyReport.details`; None where none was kept."""
    from_exact: float | None = None
    """`max_relative` against the same program run in float64; None where nobody asked, that is
    where `max_relative` is within the tolerance."""
    reachable: float | None = None
    """How far from float64 others are, the largest of: the oracle; where errors travel, a run of
    the imported program that rounds every tensor once; half a step of a type that is coarser than
    the tolerance."""
    as_exact: bool = False
    """Out of tolerance and right all the same: as near to float64 as can be had."""
    bit_by_bit: bool = False
    """Integers or booleans: equal, or wrong."""

    @property
    def is_judged_by_float64(self) -> bool:
        """Whether the reference is so far off itself that it cannot tell."""
        return self.as_exact and self.from_exact is not None and self.reachable is not None

    def judged(self, tolerance: float) -> tuple[float, float]:
        """What the verdict rests on, and the most that it may be, in the unit of `max_relative`.

        The distance from the reference, and the tolerance; where float64 tells, the distance from
        that, and the tolerance or twice what others reach. An index that is tied is off by nothing.
        """
        if self.from_exact is not None and self.reachable is not None and self.as_exact:
            if self.from_exact <= tolerance:
                return self.from_exact, tolerance
            return self.from_exact, AS_EXACT * self.reachable
        return (0.0 if self.as_exact else self.max_relative), tolerance


@dataclass(frozen=True)
class WorstElement:
    """One element that is off: `difference = |value - expected|`, infinite where one of both is
    not a number or infinite and the other isn't."""

    index: tuple[int, ...]
    """Position in the source tensor; empty as in `TensorError.worst_index`."""
    value: float
    expected: float
    difference: float


@dataclass(frozen=True)
class TensorDetail:
    """Where a tensor's values and its errors lie. Tensors that are equal, bit by bit, after
    several passes or in both modes share one."""

    shape: tuple[int, ...]
    """As it is compared: that of the value, which may be a transpose or a slice of the source."""
    element_type: str
    """NumPy's name, e.g. float32."""
    low: float
    high: float
    """Range of the finite elements of both, cut into as many equal bins as there are counts."""
    expected_counts: tuple[int, ...]
    value_counts: tuple[int, ...]
    error_counts: tuple[int, ...]
    """Elements by `|value - expected| / scale` (the scale of `max_relative`), four bins a decade
    from 1e-10 to 10; smaller ones are in the first bin, larger and infinite ones in the last."""
    equal: int
    """Elements without any difference, which are in no error bin."""
    expected_special: tuple[int, int, int] = (0, 0, 0)
    """How many are NaN, infinity and minus infinity."""
    value_special: tuple[int, int, int] = (0, 0, 0)
    worst: tuple[WorstElement, ...] = ()
    """The elements with the largest differences, the largest first."""


@dataclass(frozen=True)
class NearTie:
    """An index (of argmax, argmin or top-k) that differs where the candidates are equally good, or
    a quantized number that differs by a step where rounding may go either way."""

    operation: str
    tensor: str
    """Name of the index in the source model; empty where it has none."""
    elements: int
    """How many of its elements differ."""
    index: tuple[int, ...]
    """Position of the first that differs."""
    found: int
    expected: int
    gap: float
    """Largest difference of the scores that both pick, relative to the largest score; for a
    quantized number a step of its real numbers, relative to the largest."""
    kind: str = "index"
    """index, or rounding for a quantized number."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong first. `rule` is empty where the pass is not made of rewrites."""

    pass_name: str
    rule: str
    operation: str
    tensor: str
    max_relative: float
    address: str = ""
    """The decision that switches the rewrite off."""

    def __str__(self) -> str:
        rule = f", rule {self.rule}" if self.rule else ""
        return (
            f"pass {self.pass_name}{rule}, operation {self.operation}: tensor {self.tensor} is "
            f"off by {self.max_relative:.2g}"
        )


@dataclass(frozen=True)
class PassAccuracy:
    """All tensors with an origin after one pass, in program order."""

    name: str
    mode: str
    """accumulated (errors travel) or isolated (every operation fed the reference's inputs)."""
    tensors: tuple[TensorError, ...]
    ties: tuple[str, ...] = ()
    """Operations whose index output (argmax, top-k) was a near-tie; what follows is isolated."""
    near_ties: tuple[NearTie, ...] = ()
    """The same with their elements and scores; an operation may have several."""

    @property
    def worst(self) -> TensorError | None:
        return max(self.tensors, key=lambda t: t.max_relative, default=None)


@dataclass(frozen=True, kw_only=True)
class TaskAccuracy:
    """Answers (the largest element of an output) that are what labels say."""

    output: str
    total: int
    right: int
    source_right: int
    """Of the source model, run by its reference."""

    def __str__(self) -> str:
        return f"{self.right} of {self.total} right, source {self.source_right} of {self.total}"


@dataclass(frozen=True, kw_only=True, repr=False)
class AccuracyReport(Displayed):
    target: str
    oracle: str
    """onnxruntime, golden outputs, or the imported program."""
    tolerance: float
    passes: tuple[PassAccuracy, ...]
    isolated: tuple[PassAccuracy, ...]
    outputs: tuple[TensorError, ...]
    """What the verdict rests on: `end_to_end`, or behind a tie what the isolated run makes."""
    passed: bool
    details: tuple[TensorDetail, ...] = ()
    """Of tensors by `TensorError.detail`, those with the worst errors where there were too many."""
    details_left_out: int = 0
    fault: Fault | None = None
    """What a bisection found, where one was made."""
    end_to_end: tuple[TensorError, ...] = ()
    """The outputs as a user gets them, whatever ties they stand behind. Empty in older reports."""
    isolated_outputs: tuple[TensorError, ...] = ()
    """The outputs of the isolated run; empty where none was made."""
    rests_on: str = "end_to_end"
    """end_to_end, or isolated: the outputs differ end to end, behind ties, and each operation is
    right by itself."""
    problem: str = ""
    """Why it did not pass, where no tensor's error says so: something could not be compared."""
    oracle_note: str = ""
    """Why the oracle is not onnxruntime, where that was not asked for."""
    against_float: tuple[PassAccuracy, ...] = ()
    """Of a float model that was quantized: its tensors in real numbers against the float model's,
    after every pass from the quantization on. Nothing is judged by them."""
    task: TaskAccuracy | None = None
    """Of inputs with labels: how many the program answers rightly. None where none are known."""
    float_outputs: tuple[TensorError, ...] = ()
    """The outputs of the binary against the float model's."""
    quantization: QuantizationErrors | None = None
    """What quantizing costs every operation by itself; None where nothing was quantized, and in
    older reports."""
    integers_from: str = ""
    """The pass from which on a model that arrived quantized has other integers than its source:
    the target scales by another scheme. Empty where all passes are held to the source's."""
    integers_note: str = ""
    """What that pass and all later ones are held to."""
    rounded: str = ""
    """What is quantized where no integers are compared: empty for weights alone."""
    bit_exact: bool | None = None
    """Whether every quantized tensor equals the one of the quantized program's NumPy meaning, bit
    by bit, after every later pass; None where nothing was quantized but weights, or rows that are
    multiplied with them."""
    data: DataRecord | None = None
    """What the numbers were measured on; None in older reports."""
    against_source: tuple[OutputError, ...] = ()
    """The outputs of the binary against the float source model's, over all examples of `data`;
    empty in older reports."""

    @property
    def from_float(self) -> tuple[OutputError, ...]:
        """Outputs of a quantized program against the float model's, over all examples of `data`;
        in older traces over the one run that is compared. Empty where nothing was quantized."""
        if not self.float_outputs:
            return ()
        return self.against_source or output_errors(self.float_outputs)

    @property
    def from_float_words(self) -> str:
        """`logits 40.7 dB (200 examples)`: `from_float`; empty where nothing was quantized."""
        words = ", ".join(f"{error.tensor} {error.sqnr_db:.1f} dB" for error in self.from_float)
        count = self.data.examples if self.data and self.against_source else 1
        return f"{words} ({count:,} examples)" if words and count > 1 else words

    @property
    def worst_output(self) -> OutputError | None:
        """The output that is farthest from the source model's."""
        return min(
            self.against_source or self.from_float, key=lambda error: error.sqnr_db, default=None
        )

    @property
    def largest_output_error(self) -> float | None:
        """The largest relative error of an output; None where none is known."""
        return max(
            (error.max_relative for error in self.against_source or self.from_float), default=None
        )


def output_errors(errors: Iterable[TensorError]) -> tuple[OutputError, ...]:
    """The errors of outputs in one run, as those over many examples are given."""
    return tuple(
        OutputError(tensor=e.tensor, sqnr_db=e.sqnr_db, max_relative=e.max_relative) for e in errors
    )
