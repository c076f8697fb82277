"""How a model was quantized, as data for the explorer's pane and overlays."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.results import BlockedWeights, ObservedTensor, Trace, WeightRanges
from explorer.views.payload.measures import costliest_payload, number, rounded
from explorer.views.payload.text import Json
from explorer.views.quantized_rows import QuantizedRow, blocked_bytes, rows

THRESHOLD, MODE = "quantize-tensors/threshold/", "quantize-tensors/mode/"
WEIGHTS = "quantize-weights/mode/"


def quantization_payload(trace: Trace) -> Json:
    """Rows as the pane lists them, the layer that costs most, and how far the outputs are off."""
    record, report = trace.quantization, trace.accuracy
    if record is None:
        return None
    outputs = () if report is None else report.float_outputs
    knobs = {knob.address: knob.value for knob in trace.knobs}
    return {
        "method": record.method,
        "table": record.table,
        "isMeasured": report is not None and report.quantization is not None,
        "costliest": costliest_payload(report),
        "blockedBytes": list(blocked_bytes(record)) if record.blocks else None,
        "rows": [_row(row, knobs) for row in rows(trace)],
        "outputs": [[o.tensor, rounded(o.sqnr_db), number(o.cosine)] for o in outputs],
    }


def _row(row: QuantizedRow, knobs: Mapping[str, object]) -> Json:
    layer, tensor, saturation = row.layer, row.tensor, row.saturation
    return {
        "name": row.name,
        "operation": row.operation,
        "layer": None
        if layer is None
        else {
            "operation": layer.operation,
            "weights": _optional(layer.weights_db),
            "activations": _optional(layer.activations_db),
            "both": _optional(layer.both_db),
            "reads": list(layer.reads),
        },
        "tensor": None
        if tensor is None
        else {
            "mode": tensor.mode,
            "storage": tensor.storage,
            "low": number(tensor.low),
            "high": number(tensor.high),
            "address": f"{THRESHOLD}{tensor.name}",
            "modeAddress": f"{MODE}{tensor.name}",
            "knob": knobs.get(f"{THRESHOLD}{tensor.name}"),
        },
        "againstFloat": None if row.against_float is None else rounded(row.against_float.sqnr_db),
        "clipped": None if saturation is None else [saturation.clipped, saturation.total],
        "observed": None
        if tensor is None or tensor.observed is None
        else _observed(tensor.observed),
        "weights": None if row.weights is None else _weights(row.weights),
        "blocked": None if row.blocked is None else _blocked(row.blocked, knobs),
    }


def _observed(seen: ObservedTensor) -> Json:
    histogram = seen.histogram
    return {
        "start": number(histogram.start),
        "width": number(histogram.width),
        "counts": list(histogram.counts),
        "low": number(histogram.low),
        "high": number(histogram.high),
        "zeros": histogram.zeros,
        "bits": seen.bits,
        "candidates": [
            {
                "method": c.method,
                "low": number(c.low),
                "high": number(c.high),
                "own": rounded(c.squared_error),
                "outputs": _optional(c.outputs_db),
            }
            for c in seen.candidates
        ],
    }


def _weights(ranges: WeightRanges) -> Json:
    return {
        "operation": ranges.operation,
        "channels": list(ranges.channels),
        "total": ranges.total,
        "lows": [rounded(n) for n in ranges.lows],
        "highs": [rounded(n) for n in ranges.highs],
    }


def _blocked(blocked: BlockedWeights, knobs: Mapping[str, object]) -> Json:
    address = f"{WEIGHTS}{blocked.operation}"
    return {
        "mode": blocked.mode,
        "block": blocked.block,
        "rounding": blocked.rounding,
        "bytes": [blocked.size_bytes, blocked.float_bytes],
        "nearest": _optional(blocked.nearest_db),
        "own": _optional(blocked.weights_db),
        "gain": _optional(blocked.sums_gain_db),
        "modeAddress": address if address in knobs else None,
    }


def _optional(value: float | None) -> Json:
    return None if value is None else rounded(value)
