"""Weights become integers times a scale, rounded so that sums err least.

    %y = top.conv(%x, %w, ...)          %w: 0.34 0.26 ...
 => %y = top.conv(%x, %v, ...)          %v: 0.30 0.30 ...    where the scale is 0.1

They stay floats here. Each is a multiple of its channel's scale, of which the largest is 127, so
that `quantize-tensors` finds the same scale and these very integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import identity_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.quantization.choosing import moved_from
from explorer.quantization.corrections.moments import Linear
from explorer.quantization.corrections.record import Corrections, Rounding, digest_of_weights
from explorer.quantization.corrections.weights import (
    decibels,
    float_tensors,
    is_wanted,
    set_weight,
)

RULE = "adaround"


@dataclass(frozen=True)
class RoundWeights(Pass):
    """Weights become those multiples of their scales with which sums err least over the data.

    Decisions: round-weights/adaround/OPERATION, false for the nearest multiples.
    """

    record: Corrections
    float_names: frozenset[str] = frozenset()
    """Tensors whose modes are F32: weights beside them stay as they are."""
    integers_only: bool = False

    name = "round-weights"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        function = entry_function(rewriter.module)
        floats = float_tensors(function, self.float_names, self.integers_only)
        for op in list(function.body.block.ops):
            found = self.record.roundings.get(identity_of(op))
            if found is None or not isinstance(op, Linear):
                continue
            if moved_from(op.operands[0]) in floats:
                events.decline(RULE, op, "what it reads stays float")
                continue
            index = op.quantized_weight()[0]
            array = constant(op.operands[index], rewriter.weights)
            if array is None or digest_of_weights(array) != found.weights:
                events.decline(RULE, op, "its weights are not those that were rounded")
                continue
            if not is_wanted(events.address(RULE, op), options):
                events.decline(RULE, op, "a decision forbids it")
                continue
            with events.rewrite(RULE, op, _words(array, found)):
                set_weight(op, index, multiples(found, array.dtype), rewriter)
        return events.rewrites


def multiples(found: Rounding, dtype: np.dtype) -> np.ndarray:
    """The weights that the integers stand for."""
    shape = [1] * found.integers.ndim
    shape[found.axis] = -1
    return (found.integers.astype(np.float32) * found.scales.reshape(shape)).astype(dtype)


def _words(array: np.ndarray, found: Rounding) -> str:
    shape = [1] * array.ndim
    shape[found.axis] = -1
    nearest = np.rint(array.astype(np.float32) / found.scales.reshape(shape))
    moved = int(np.count_nonzero(nearest != found.integers))
    gain = decibels(found.error, found.error_after)
    return f"{moved} of {array.size} weights go to the farther integer: sums err {gain} less"
