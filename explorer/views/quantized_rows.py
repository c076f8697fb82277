"""What quantizing costs, layer by layer: the rows of the view, the costliest first.

    rows(trace)     [QuantizedRow(name="/stage2/relu1_output", layers=(conv6: 40.6 dB,), ...), ...]

A row is a tensor that is quantized, or a result that stays float, with the operation that makes it;
where weights alone are quantized, it is a product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.results import (
    BlockedWeights,
    LayerErrors,
    QuantizationRecord,
    QuantizedTensor,
    Saturation,
    TensorError,
    Trace,
    WeightRanges,
)


@dataclass(frozen=True, kw_only=True)
class QuantizedRow:
    """One layer."""

    name: str
    operation: str
    tensor: QuantizedTensor | None
    """None of a result that only floats read: it needs no type of its own."""
    layer: LayerErrors | None
    """Measured by itself; None of inputs, and where nothing was compared."""
    weights: WeightRanges | None
    against_float: TensorError | None
    """The tensor in the program that runs, with the errors of all layers before it."""
    saturation: Saturation | None
    blocked: BlockedWeights | None = None
    """Its weights, where they alone are quantized."""

    @property
    def cost_db(self) -> float:
        """SQNR of the layer by itself: the lower, the more it costs."""
        return math.inf if self.layer is None else self.layer.both_db


def rows(trace: Trace) -> list[QuantizedRow]:
    """All tensors and layers, the lowest SQNR first; in program order where nothing is measured."""
    record, report = trace.quantization, trace.accuracy
    if record is None:
        return []
    errors = None if report is None else report.quantization
    layers = () if errors is None else errors.layers
    against = _last_errors(trace)
    saturation = {} if errors is None else {s.tensor: s for s in errors.saturation}
    own_layers = {layer.operation: layer for layer in layers}
    weights = {ranges.operation: ranges for ranges in record.weights}
    found = []
    for blocked in record.blocks:
        layer = own_layers.get(blocked.operation)
        found.append(
            QuantizedRow(
                name=blocked.operation,
                operation=blocked.operation,
                tensor=None,
                layer=layer,
                weights=None,
                against_float=None if layer is None else against.get(layer.tensor),
                saturation=None,
                blocked=blocked,
            )
        )
    met = {blocked.operation for blocked in record.blocks}
    for tensor in record.tensors:
        made = [layer for layer in layers if layer.tensor == tensor.name]
        layer = min(made, key=lambda made: made.both_db, default=None)
        met.update(layer.operation for layer in made)
        own = [w for w in record.weights if w.tensor == tensor.name]
        found.append(
            QuantizedRow(
                name=tensor.name,
                operation=tensor.operation,
                tensor=tensor,
                layer=layer,
                weights=weights.get(layer.operation) if layer else next(iter(own), None),
                against_float=against.get(tensor.name),
                saturation=saturation.get(tensor.name),
            )
        )
    for layer in layers:
        if layer.operation not in met:
            found.append(
                QuantizedRow(
                    name=layer.tensor or layer.operation,
                    operation=layer.operation,
                    tensor=None,
                    layer=layer,
                    weights=weights.get(layer.operation),
                    against_float=against.get(layer.tensor),
                    saturation=None,
                )
            )
    return sorted(found, key=lambda row: row.cost_db)


def blocked_bytes(record: QuantizationRecord) -> tuple[int, int]:
    """Bytes of the weights of all products, as they are and as floats."""
    return (
        sum(weights.size_bytes for weights in record.blocks),
        sum(weights.float_bytes for weights in record.blocks),
    )


def _last_errors(trace: Trace) -> dict[str, TensorError]:
    """Every tensor against the float source, after the last pass that has it."""
    report = trace.accuracy
    found: dict[str, TensorError] = {}
    for accuracy in () if report is None else report.against_float:
        found.update((error.tensor, error) for error in accuracy.tensors)
    if report is not None:
        found.update((error.tensor, error) for error in report.float_outputs)
    return found
