"""What is known of the values of a compilation's inputs, for drawing some.

the table of thresholds has image 0 to 16     KnownValues("calibrated range", 0.0, 16.0)
... with its histograms                       KnownValues("observed histogram", counts ...)
image -> QuantizeLinear 0.05, zero point 3    KnownValues("quantized range", -6.55, 6.2)
"""

from __future__ import annotations

from explorer.accuracy.drawing import KnownValues
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.program import Snapshot
from explorer.ir.requantization import integer_limits
from explorer.ir.top.quantization.quantized import QuantizeOp
from explorer.quantization.table import ThresholdTable
from explorer.results.data import CALIBRATED, OBSERVED, QUANTIZED
from explorer.results.runs.quantization import ValueHistogram


def known_values(imported: Snapshot, table: ThresholdTable | None) -> dict[str, KnownValues]:
    """By input: the observed histogram, else the calibrated range, else the range of the first
    quantization. Inputs of which nothing is known are left out."""
    found = _of_first_quantization(imported)
    if table is not None:
        names = input_names(entry_function(imported.program))
        found |= {name: _calibrated(table, name) for name in names if name in table.thresholds}
    return found


def _calibrated(table: ThresholdTable, name: str) -> KnownValues:
    observed = table.observations.get(name)
    if observed is not None and observed.histogram.count:
        return _observed(observed.histogram)
    low, high = table.thresholds[name].represented
    return KnownValues(CALIBRATED, low, high)


def _observed(histogram: ValueHistogram) -> KnownValues:
    end = histogram.start + histogram.width * len(histogram.counts)
    limits = (histogram.low, histogram.high)
    return KnownValues(OBSERVED, histogram.start, end, histogram.counts, limits)


def _of_first_quantization(imported: Snapshot) -> dict[str, KnownValues]:
    """Of inputs that are read by quantizations with one scale, the widest of their ranges."""
    function = entry_function(imported.program)
    found: dict[str, KnownValues] = {}
    for name, argument in zip(input_names(function), function.body.block.args, strict=True):
        ranges = [
            _represented(use.operation)
            for use in argument.uses
            if isinstance(use.operation, QuantizeOp) and use.operation.to.is_per_tensor
        ]
        if ranges:
            low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
            found[name] = KnownValues(QUANTIZED, low, high)
    return found


def _represented(op: QuantizeOp) -> tuple[float, float]:
    """The least and the greatest real number that the quantized tensor holds."""
    low, high = integer_limits(op.to.storage)
    zero, scale = int(op.to.zero_point_array[0]), float(op.to.double_scales[0])
    return (low - zero) * scale, (high - zero) * scale
