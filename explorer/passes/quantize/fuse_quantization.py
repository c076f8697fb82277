"""Fusion of quantization: kernels read and write the narrow numbers.

   %a = top.dequantize(%qa) {to = f32}        %b = top.dequantize(%qb) {to = f32}
   %s = top.binary(%a, %b) {kind = "add"}
   %q = top.quantize(%s) {to = !top.quantized<ui8, 0.1:128>}
=> %q = top.binary(%qa, %qb) {kind = "add", to = !top.quantized<ui8, 0.1:128>}

Products read weights in blocks as they are. Zero points become part of constant filters and biases.
Where the target has no dot product of bytes, weights are put in pairs last; where there are no
pairs, signs are split off.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.rewriting import (
    RecordedRewriter,
    Rewrite,
    RewriteOptions,
    Rule,
    apply_rules,
)
from explorer.ir.rewriting.passes import RulePass
from explorer.passes.quantize.rules.fusion import FuseRequantize, ReadIntegers, WriteIntegers
from explorer.passes.quantize.rules.scaled_operands import ScaleLeft, ScaleProduct
from explorer.passes.quantize.rules.split_signs import SplitSigns
from explorer.passes.quantize.rules.stored_operands import WidenOperand
from explorer.passes.quantize.rules.unpack_weights import UnpackWeights
from explorer.passes.quantize.rules.weight_pairs import PairWeights
from explorer.passes.quantize.rules.zero_points import CenterFilters, FoldZeroPoint
from explorer.targets.capabilities import ORDINARY, Capabilities


@dataclass(frozen=True)
class FuseQuantization(RulePass):
    """Quantization, dequantization and requantization become the ends of other operations."""

    capabilities: Capabilities = ORDINARY

    name = "fuse-quantization"
    rules = (
        FuseRequantize,
        WriteIntegers,
        ReadIntegers,
        CenterFilters,
        FoldZeroPoint,
        UnpackWeights,
        ScaleProduct,
        ScaleLeft,
        WidenOperand,
        PairWeights,
        SplitSigns,
    )

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        late: list[type[Rule]] = [PairWeights, SplitSigns]
        if not self.capabilities.widens_operands:
            late += [ScaleProduct, ScaleLeft, WidenOperand]
        rules = [rule() for rule in self.rules if rule not in late]
        rewrites = apply_rules(self.name, rules, rewriter, options)
        if self.capabilities.multiplies_pairs:
            rewrites += apply_rules(self.name, [PairWeights()], rewriter, options)
        if self.capabilities.splits_signs:
            rewrites += apply_rules(self.name, [SplitSigns()], rewriter, options)
        return rewrites
