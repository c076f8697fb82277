"""Weights that are whole numbers held in floats become integers where their partner is quantized.

    %x = top.dequantize(%qx) {to = f32}
    %w = top.weight() {weight = "w"} : tensor<3x2x3x3xf32>            all of -128 ... 127
    %y = top.conv(%x, %w)
 => %qw = top.weight() {weight = "w.integers"} : tensor<3x2x3x3x!top.quantized<i8, 1.0:0>>
    %w = top.dequantize(%qw) {to = f32}

The product of two dequantized tensors is then one of integers (`products.py`).
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.ir.types import QuantizedType, element_type_of
from explorer.passes.analysis.matching import constant, maker, weight_name

I8 = QuantizedType.get(IntegerType(8), [1.0], [0])


class StoreWholeWeights(Rule):
    """conv(dequantize(x), w)   =>   conv(dequantize(x), dequantize(w as i8))

    Applies to convolutions and matmuls whose weights are whole numbers of 8 bits, as exporters for
    microcontrollers write them. Pays because the product becomes one of integers. Exact.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        first, array = (
            maker(op.operands[0], DequantizeOp),
            constant(op.operands[1], rewriter.weights),
        )
        if first is None or array is None or first.to != element_type_of(op.operands[1]):
            return
        if not np.array_equal(array, np.clip(np.rint(array), -128, 127)):
            raise Declined(f"the weights of {identity_of(op)} are no whole numbers of 8 bits")
        bias = None if op.bias is None else constant(op.bias, rewriter.weights)
        if op.bias is not None and (bias is None or not np.array_equal(bias, np.rint(bias))):
            raise Declined(f"the bias of {identity_of(op)} is not made of whole numbers")
        name = weight_name(op, "integers")
        stored = rewriter.add_weight(op, name, array.astype(np.int8), like=op)
        typed = BitcastOp.make([stored], to=I8)
        real = DequantizeOp.make([typed.output], to=first.to)
        for new in (typed, real):
            rewriter.insert_before(op, new, stem=identity_of(op), like=op)
        role = "weight" if isinstance(op, ConvOp) else "right"
        rewriter.replace(op, op.altered(**{role: real.output}))
