"""The mean error of sums is taken away by the bias.

    %y = top.conv(%x, %w)  =>  %y = top.conv(%x, %w, bias = %b)     b = E[w x] - E[v y]

with weights w and inputs x in floats, v and y as the quantized program has them: rounding and
saturation shift a channel's mean, and what shifts all elements alike costs most.

Source: Nagel et al., Data-Free Quantization through Weight Equalization and Bias Correction, 2019,
section 4.2, empirically, layer by layer behind those that are corrected already (appendix D).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation, identity_of, set_identity
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.quantization.choosing import moved_from
from explorer.quantization.corrections.moments import Linear
from explorer.quantization.corrections.record import Corrections, Shift, digest_of_weights
from explorer.quantization.corrections.weights import float_tensors, is_wanted

RULE = "empirical"


@dataclass(frozen=True)
class CorrectBias(Pass):
    """Biases take away by how much sums are wrong on average over the data, channel by channel.

    Decisions: correct-bias/empirical/OPERATION, false to leave a bias as it is.
    """

    record: Corrections
    float_names: frozenset[str] = frozenset()
    """Tensors whose modes are F32: weights beside them stay as they are."""
    integers_only: bool = False

    name = "correct-bias"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        function = entry_function(rewriter.module)
        floats = float_tensors(function, self.float_names, self.integers_only)
        for op in list(function.body.block.ops):
            found = self.record.shifts.get(identity_of(op))
            if found is None or not isinstance(op, Linear):
                continue
            if moved_from(op.operands[0]) in floats:
                events.decline(RULE, op, "what it reads stays float")
                continue
            array = constant(op.operands[1], rewriter.weights)
            if array is None or digest_of_weights(array) != found.weights:
                events.decline(RULE, op, "the mean error was found with other weights")
                continue
            if not is_wanted(events.address(RULE, op), options):
                events.decline(RULE, op, "a decision forbids it")
                continue
            with events.rewrite(RULE, op, _words(found)):
                add_to_bias(op, found.numbers, rewriter)
        return events.rewrites


def add_to_bias(op: Linear, numbers: np.ndarray, rewriter: RecordedRewriter) -> None:
    """The numbers, one per channel, become part of the bias; of one that is made where none is."""
    own = None if op.bias is None else constant(op.bias, rewriter.weights)
    total = numbers if own is None else own.astype(np.float64) + numbers
    dtype = np.float32 if own is None else own.dtype
    bias = rewriter.add_weight(op, f"{identity_of(op)}.bias", total.astype(dtype), like=op)
    if op.bias is None:
        new = op.altered(bias=bias)
        set_identity(new, identity_of(op))  # thresholds and decisions go by it
        rewriter.replace(op, new)
        return
    before = op.bias.owner
    rewriter.set_operand(op, list(op.operands).index(op.bias), bias)
    if isinstance(before, TopOperation) and not any(r.uses for r in before.results):
        rewriter.erase(before)


def _words(found: Shift) -> str:
    largest = float(np.abs(found.numbers).max(initial=0.0))
    return (
        f"by up to {largest:.3g}: channels err by {found.error:.3g} on average, "
        f"then by {found.error_after:.3g}"
    )
