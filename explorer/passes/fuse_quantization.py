"""Fusion of quantization: kernels read and write the narrow numbers.

   %a = top.dequantize(%qa) {to = f32}        %b = top.dequantize(%qb) {to = f32}
   %s = top.binary(%a, %b) {kind = "add"}
   %q = top.quantize(%s) {to = !top.quantized<ui8, 0.1:128>}
=> %q = top.binary(%qa, %qb) {kind = "add", to = !top.quantized<ui8, 0.1:128>}

Zero points become part of constant filters and biases.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.passes import RulePass
from explorer.passes.quantized.fusion import FuseRequantize, ReadIntegers, WriteIntegers
from explorer.passes.quantized.zero_points import CenterFilters, FoldZeroPoint


@dataclass(frozen=True)
class FuseQuantization(RulePass):
    """Quantization, dequantization and requantization become the ends of other operations."""

    name = "fuse-quantization"
    rules = (FuseRequantize, WriteIntegers, ReadIntegers, CenterFilters, FoldZeroPoint)
