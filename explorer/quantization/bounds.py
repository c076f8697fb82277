"""Ranges that tensors cannot leave: for averages of which a table does not have what they read.

    a = relu(conv(x, w) + b)     0 to the largest of the channels' b + sum of max(w low, w high)

Tables of today have thresholds of all that integers read. Those made before averages that leave
padding out were integers lack the tensors that such averages read. These get the range that the
weights allow: nothing is cut off, and steps are coarser than those of observed numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.constants import constant
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.weights import Weights
from explorer.quantization.choosing import Tensor
from explorer.quantization.table import Threshold

Range = tuple[float, float]


def bounded(
    tensors: Sequence[Tensor], thresholds: Mapping[str, Threshold], weights: Weights
) -> dict[str, Threshold]:
    """Of the tensors without a threshold that only such averages read, as far as there is one."""
    known = {t.value: thresholds[t.name].represented for t in tensors if t.name in thresholds}
    found: dict[str, Threshold] = {}
    for tensor in tensors:
        if tensor.name in thresholds or not _is_for_averages(tensor.value):
            continue
        limits = _range_of(tensor.value, known, weights)
        if limits is None or not np.all(np.isfinite(limits)):
            continue
        low, high = min(limits[0], 0.0), max(limits[1], 0.0)
        if high > low:
            found[tensor.name] = Threshold(tensor.name, max(-low, high), low, high)
    return found


def _is_for_averages(value: SSAValue) -> bool:
    readers = [use.operation for use in value.uses]
    return bool(readers) and all(
        isinstance(op, PoolOp)
        and op.get("kind") == "average"
        and not op.counts_padding
        and any(op.get("pads"))
        for op in readers
    )


def _range_of(value: SSAValue, known: Mapping[SSAValue, Range], weights: Weights) -> Range | None:
    """Ends of the numbers that a value may have; None where nothing is known of it."""
    if value in known:
        return known[value]
    op = value.owner
    if isinstance(op, UnaryOp) and op.clamps and op.result_type is None:
        inner = _range_of(op.input, known, weights)
        low, high = (0.0, np.inf) if op.kind.data == "relu" else op.parameters
        return None if inner is None else (max(inner[0], low), min(max(inner[1], low), high))
    if isinstance(op, ConvOp):
        return _range_of_sums(op, known, weights)
    return None


def _range_of_sums(op: ConvOp, known: Mapping[SSAValue, Range], weights: Weights) -> Range | None:
    inner, filters = _range_of(op.input, known, weights), constant(op.weight, weights)
    bias = np.zeros(1) if op.bias is None else constant(op.bias, weights)
    if inner is None or filters is None or bias is None or op.residual is not None:
        return None
    rows = filters.astype(np.float64).reshape(len(filters), -1)
    ends = np.minimum(inner[0], 0.0) * rows, np.maximum(inner[1], 0.0) * rows  # padding is 0
    low, high = (pick(*ends).sum(axis=1) + bias for pick in (np.minimum, np.maximum))
    return float(low.min()), float(high.max())
