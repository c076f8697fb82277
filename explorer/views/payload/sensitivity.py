"""Sensitivities of tensors and points of mixed precision, as data for the explorer's pane."""

from __future__ import annotations

from explorer.results import Trace
from explorer.results.runs.sensitivity import MixedPoint, Quality, TensorSensitivity
from explorer.views.payload.measures import number, rounded
from explorer.views.payload.quantization import MODE
from explorer.views.payload.text import Json
from explorer.views.static.sensitivity import by_noise, modes_words, summary


def sensitivity_payload(trace: Trace) -> Json:
    """Tensors, the noisiest first, and points by cost; `modes` are those of this program."""
    record = trace.quantization
    if record is None or record.precision is None:
        return None
    found = record.precision
    makers = {tensor.name: tensor.operation for tensor in record.tensors}
    return {
        "wanted": found.wanted,
        "summary": summary(found),
        "tensors": [_tensor(tensor, makers) for tensor in by_noise(found)],
        "points": [_point(point) for point in found.points],
        "chosen": found.chosen,
        "modes": {tensor.name: tensor.mode for tensor in record.tensors},
        "modeAddress": MODE,
    }


def _tensor(tensor: TensorSensitivity, makers: dict[str, str]) -> Json:
    return {
        "name": tensor.tensor,
        "operation": makers.get(tensor.tensor, ""),
        "macs": tensor.macs,
        "alone": _quality(tensor.alone),
        "without": _quality(tensor.without),
        "wide": _quality(tensor.wide),
    }


def _point(point: MixedPoint) -> Json:
    return {
        "modes": dict(point.modes),
        "words": modes_words(point),
        "cost": number(point.cost),
        "quality": _quality(point.quality),
        "isMeasured": point.is_measured,
        "milliseconds": None if point.milliseconds is None else rounded(point.milliseconds),
        "isBest": point.is_best,
    }


def _quality(quality: Quality) -> Json:
    accuracy = None if quality.accuracy is None else rounded(quality.accuracy)
    return [rounded(quality.sqnr_db), quality.differ, accuracy]
