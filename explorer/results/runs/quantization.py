"""What calibration saw of a float model's tensors, what was made of it, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.displayed import Displayed
from explorer.results.runs.sensitivity import MixedPrecision

MAX_CHANNELS = 256
"""Channels whose ranges are kept of one weight."""


@dataclass(frozen=True, kw_only=True)
class ValueHistogram:
    """Numbers of one tensor in equal bins, a power of two wide each."""

    start: float
    """Lower end of the first bin, in the tensor's unit."""
    width: float
    counts: tuple[int, ...]
    low: float
    """The lowest number, and `high` the highest."""
    high: float
    zeros: int
    """Numbers that are exactly 0: every range represents them. They are in `counts`, too."""

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, kw_only=True)
class RangeCandidate:
    """What one method would represent of a tensor."""

    method: str
    low: float
    high: float
    squared_error: float
    """Expected squared error of the tensor's own numbers, in its unit squared."""
    outputs_db: float | None = None
    """Signal to noise of the model's outputs with this range and all other tensors quantized, too;
    None where that was not measured."""


@dataclass(frozen=True, kw_only=True)
class ObservedTensor:
    """A tensor as calibration saw it."""

    histogram: ValueHistogram
    candidates: tuple[RangeCandidate, ...]
    bits: int = 8
    """Of the steps that the errors of the candidates are about."""


@dataclass(frozen=True, kw_only=True)
class QuantizedTensor:
    """A tensor that can be quantized, and how it is."""

    name: str
    """As tables have it: of the source model's tensor."""
    operation: str
    """Identity of the operation that makes it; of an input its name."""
    mode: str
    """INT8, INT16 or F32."""
    storage: str
    """The integers that it is stored in; empty where it stays float."""
    threshold: float
    low: float
    """The numbers from `low` to `high` are represented; what is beyond saturates."""
    high: float
    observed: ObservedTensor | None = None
    """None where the table came without its histograms."""


@dataclass(frozen=True, kw_only=True)
class WeightRanges:
    """The weights of one operation, channel by channel."""

    operation: str
    tensor: str
    """The quantized tensor that the operation makes, perhaps behind others; or empty."""
    channels: tuple[int, ...]
    """Which ones these are: of more than `MAX_CHANNELS` the widest and the narrowest."""
    total: int
    """How many there are."""
    lows: tuple[float, ...]
    highs: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class BlockedWeights:
    """The weights of one product where weights alone are quantized: integers in blocks."""

    operation: str
    """As tables of modes have it."""
    mode: str
    """INT4, UINT4, INT8, UINT8 or F32."""
    block: int
    """Rows that share a scale; 0 where they stay float."""
    rounding: str
    """nearest or gptq; empty where they stay float."""
    size_bytes: int
    """With scales and zero points, and `float_bytes` as floats."""
    float_bytes: int
    nearest_db: float | None
    """SQNR of the weights themselves if each were the nearest number; None where they stay float.
    """
    weights_db: float | None
    """SQNR of the weights as they are. GPTQ lowers it: what it makes better are sums."""
    sums_gain_db: float | None = None
    """By how much sums err less than with the nearest numbers over what calibration saw; None
    where GPTQ did not round them."""


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantizationRecord(Displayed):
    """How a float model was quantized."""

    method: str
    """How thresholds were found, as the table says it."""
    table: str
    """The table's file, or empty."""
    tensors: tuple[QuantizedTensor, ...]
    """In program order, inputs first."""
    weights: tuple[WeightRanges, ...]
    blocks: tuple[BlockedWeights, ...] = ()
    """In program order; none where tensors are quantized, and in older traces."""
    precision: MixedPrecision | None = None
    """What the modes were chosen by; None where nothing searched for them, and in older traces."""


@dataclass(frozen=True, kw_only=True)
class LayerErrors:
    """One operation fed the float model's tensors: what quantizing its operands does to its result.

    SQNR in dB, infinity where nothing changed; None where there is nothing of that kind.
    """

    operation: str
    tensor: str
    """The quantized tensor that it makes, or its result in the source model; or empty."""
    weights_db: float | None
    """Only its weights are rounded."""
    activations_db: float | None
    """Only what it reads is."""
    both_db: float
    reads: tuple[str, ...] = ()
    """The quantized tensors that it reads, perhaps behind moves."""


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """Elements of a tensor that lie outside of what is represented."""

    tensor: str
    operation: str
    clipped: int
    total: int

    @property
    def share(self) -> float:
        return self.clipped / max(self.total, 1)


@dataclass(frozen=True, kw_only=True)
class CostliestLayer:
    """What a bisection over sets of quantized layers found; nothing of it is wrong.

    SQNR in dB, of the outputs against the float model's; where a softmax is the end, of what it
    reads.
    """

    tensor: str
    """The quantized tensor; quantized with it are the weights that it is multiplied with."""
    operation: str
    """Identity of the operation that makes it; of an input its name."""
    alone_db: float
    """Only this layer is quantized."""
    all_db: float
    without_db: float
    """All but this one are."""
    runs: int
    """How many programs were run."""
    is_certain: bool
    """Whether no other can cost more; else several cost about as much."""
    address: str
    """The decision that keeps it a float: its value would be F32."""
    is_before_softmax: bool = False
    """Whether it is what a softmax reads that is judged, for its result hides errors."""


@dataclass(frozen=True, kw_only=True)
class QuantizationErrors:
    """Measured on the inputs of a comparison with the source model."""

    layers: tuple[LayerErrors, ...]
    """Operations with a form in integers, or with narrow weights, in program order."""
    saturation: tuple[Saturation, ...]
    costliest: CostliestLayer | None = None
    """The layer that costs the outputs most; None where no output is of floats, and in older
    reports."""
