"""Integer arithmetic: what is dequantized, computed and quantized again is computed in integers.

    %x = top.dequantize(%qx) {to = f32}
    %y = top.conv(%x, %w, bias = %b) {...}                       %w, %b : dequantized weights
    %r = top.unary(%y) {kind = "relu"}
    %q = top.quantize(%r) {to = !top.quantized<ui8, 0.1:0>}
 => %s = top.conv(%qx, %qw, bias = %qb) {...} : i32
    %q = top.requantize(%s) {by = #top.requantization<!top.quantized<ui8, 0.1:0>, float, ...>}

Rows that are multiplied with weights in blocks become bytes where a decision asks for it (`rows`).

The literal graph computes in floats that stand for integers; this is the arithmetic that such a
graph stands for, and what onnxruntime makes of it when its optimizations are on.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.requantization import AS_ONNXRUNTIME, Requantization
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions, apply_rules
from explorer.ir.rewriting.passes import KNOBS, RulePass
from explorer.passes.quantize.rules.averages import AverageIntegersOfCall, SumIntegers
from explorer.passes.quantize.rules.biases import AddToProduct
from explorer.passes.quantize.rules.bytes import MultiplyBytes, ScaleSums
from explorer.passes.quantize.rules.moves import (
    MoveIntegers,
    QuantizeBeforeMoves,
    QuantizePartsOfConcat,
)
from explorer.passes.quantize.rules.pairs import (
    ChooseScheme,
    ClampIntegers,
    MergeBits,
    MergeRequantizations,
    RequantizePairs,
    SaturateInstead,
)
from explorer.passes.quantize.rules.products import MultiplyIntegers
from explorer.passes.quantize.rules.quantize_rows import BYTES, ROWS, QuantizeRows, row_knobs
from explorer.passes.quantize.rules.whole_numbers import (
    AddWholeNumbers,
    RequantizeBytes,
    ScaleWeights,
)
from explorer.passes.quantize.rules.whole_weights import StoreWholeWeights
from explorer.passes.simplify.fold_constants import FoldConstant, FoldDequantized
from explorer.targets.capabilities import ORDINARY, Capabilities


@dataclass(frozen=True)
class ComputeInIntegers(RulePass):
    """Operations between dequantization and quantization work on the integers themselves.

    how: the scheme of all requantizations, the target's. Biases come first: a product of integers
    takes none any more. Weights that stay dequantized are folded at the end, once it is
    clear that no integer product wants them; rows of products with weights in blocks follow.
    """

    how: Requantization = AS_ONNXRUNTIME
    capabilities: Capabilities = ORDINARY

    name = "compute-in-integers"
    rules = (
        AddToProduct,
        MoveIntegers,
        FoldConstant,
        StoreWholeWeights,
        MultiplyIntegers,
        MultiplyBytes,
        ScaleSums,
        SumIntegers,
        AverageIntegersOfCall,
        RequantizePairs,
        RequantizeBytes,
        AddWholeNumbers,
        ScaleWeights,
        ClampIntegers,
        SaturateInstead,
        QuantizePartsOfConcat,
        QuantizeBeforeMoves,
        MergeRequantizations,
        MergeBits,
        ChooseScheme,
        FoldDequantized,
        QuantizeRows,
    )
    choices = (ROWS,)

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        *kinds, _ = self.rules
        made = [ChooseScheme(self.how) if rule is ChooseScheme else rule() for rule in kinds]
        rounds = (made[:1], made[1:-1], made[-1:])
        found = [r for rules in rounds for r in apply_rules(self.name, rules, rewriter, options)]
        return found + self._quantize_rows(rewriter, options)

    def _quantize_rows(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        """Of the products for which a knob asks for it."""
        is_able = self.capabilities.multiplies_blocks
        knobs = list(row_knobs(self.name, rewriter, options, is_able))
        rewriter.artifacts[KNOBS] = tuple(knob for knob, _ in knobs)
        wanted = {k.address.split("/", 2)[2]: why for k, why in knobs if k.value == BYTES}
        return apply_rules(self.name, [QuantizeRows(wanted)], rewriter, options) if wanted else []
