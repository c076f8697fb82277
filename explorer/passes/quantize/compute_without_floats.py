"""Programs of integers only: what `compute-in-integers` leaves in floats, for targets without them.

    %x = top.dequantize(%q) {to = f32}
    %y = top.layer_norm(%x, scale = %s, shift = %b) {...}
    %r = top.quantize(%y) {to = !top.quantized<ui8, 0.02:131>}
 => %r = top.integer_layer_norm(%q, %m, %o) {...}

Sums and products become fixed-point arithmetic, functions of one number tables, softmax and layer
normalization whole numbers of 64 bits. Results may be a step (two for normalizations) away from
what the same program computes with floats inside: from here on this is what the program means.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat

from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation
from explorer.ir.requantization import Requantization
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions, apply_rules
from explorer.ir.rewriting.passes import EventLog, RulePass
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.types import element_type_of
from explorer.passes.quantize.rules.functions import TabulateFunction
from explorer.passes.quantize.rules.without_floats import (
    AverageIntegers,
    ComputeInFixedPoint,
    NormalizeIntegers,
    SoftmaxOfIntegers,
    StoreMovedConstants,
)

FIXED_POINT = Requantization("doubling_high_multiply", "nearest_away_from_zero")
"""What takes the place of the scheme of floats where there are none."""

STAYS_FLOAT = "stays-float"
"""Rule of the events of operations that are computed in floats, whatever the cause."""


def without_floats(how: Requantization) -> Requantization:
    """The scheme, or one of integers in its place."""
    return FIXED_POINT if how.scheme == "float" else how


@dataclass(frozen=True)
class ComputeWithoutFloats(RulePass):
    """Elementwise operations, averages and normalizations of quantized numbers use integers only.

    how: the scheme of what is scaled. Operations that stay in floats are declined by name.
    """

    how: Requantization = FIXED_POINT

    name = "compute-without-floats"
    rules = (
        StoreMovedConstants,
        TabulateFunction,
        ComputeInFixedPoint,
        SoftmaxOfIntegers,
        NormalizeIntegers,
        AverageIntegers,
    )

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        scaling = (ComputeInFixedPoint, AverageIntegers)
        made = [rule(self.how) if rule in scaling else rule() for rule in self.rules]
        rewrites = apply_rules(self.name, made, rewriter, options)
        events = EventLog(self.name, rewriter)
        for op in entry_function(rewriter.module).body.block.ops:
            if isinstance(op, TopOperation) and computes_in_floats(op):
                events.decline(STAYS_FLOAT, op, f"{op.label()} has no form in integers here")
        return [*rewrites, *events.rewrites]


def computes_in_floats(op: TopOperation) -> bool:
    """Whether it is neither a weight nor between real and quantized numbers, and of floats."""
    if isinstance(op, WeightOp | ReturnOp | QuantizeOp | DequantizeOp):
        return False
    return any(isinstance(element_type_of(v), AnyFloat) for v in (*op.operands, *op.results))
