"""Constants that are added to a product of dequantized tensors become its bias, and so integers.

    %y = top.matmul(%dx, %dw) {...} : tensor<8x48xf32>           %dx, %dw : dequantized
    %z = top.binary(%y, %b) {kind = "add"} : tensor<8x48xf32>    %b : tensor<48xf32>
 => %z = top.matmul(%dx, %dw, bias = %b) {...} : tensor<8x48xf32>

ONNX's MatMul has no bias: every quantized model of matrices of more than two dimensions adds it
behind the product.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from explorer.ir.interfaces import Moving
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.passes.fuse.fuse_bias import FuseAddedConstant


class AddToProduct(FuseAddedConstant):
    """matmul(dequantize(x), dequantize(w)) + b   =>   matmul(dequantize(x), dequantize(w), b)

    Applies as `fuse-added-constant` does, where both operands of the product are dequantized,
    however they were moved since. Pays
    because the product has integers as sums then, with the bias where they begin, and the result
    need not be made of floats.
    """

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        makers = (op.left.owner, op.right.owner)
        linear = next((m for m in makers if isinstance(m, ConvOp | MatMulOp)), None)
        if linear is None:
            return
        if all(_is_dequantized(operand) for operand in list(linear.operands)[:2]):
            super().rewrite(op, rewriter)


def _is_dequantized(value: SSAValue) -> bool:
    """Also where its numbers were moved since."""
    while isinstance(value.owner, Moving) and value.owner.keeps_numbers:
        moved = value.owner.moved_operands()
        if len(moved) != 1:
            return False
        value = moved[0]
    return isinstance(value.owner, DequantizeOp)
