"""Weights in blocks stay narrow until they are multiplied with.

    %w = top.dequantize_blocks(%q, %s) : tensor<768x3072xf32>
             %q : tensor<768x3072x!top.quantized<i4, axis 0, block 32>>
    %y = top.matmul(%x, %w, bias = %b)
 => %y = top.matmul_blocks(%x, %p, bias = %b, block_scales = %s) {bits = 4, block = 32}
             %p : tensor<384x3072xui8>

Two numbers of four bits lie in a byte then. Rows that are bytes in blocks, too, are multiplied as
they are. A product of few rows waits for its weights, so that
it is the faster the fewer bytes they are.
"""

from __future__ import annotations

import numpy as np

from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.linear.matmul_blocks import DOT, HALF_BITS, MatMulBlocksOp, packed_pairs
from explorer.passes.analysis.block_weights import (
    BlockWeight,
    block_weight,
    is_product_of_blocks,
    why_not_unpacked,
)
from explorer.passes.analysis.matching import weight_name
from explorer.passes.quantize.rules.quantize_rows import bytes_of_rows


class UnpackWeights(Rule):
    """matmul(x, dequantize_blocks(w))   =>   matmul_blocks(x, w)

    Applies to products in single precision with a constant matrix of at most 8 bits whose blocks
    lie along its rows. Pays because an eighth or a quarter of the bytes are read, and kept. The
    same numbers are multiplied: exact but for the order of the sums.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        if not is_product_of_blocks(op, op.right):
            return
        weight = block_weight(op.right, rewriter.weights)
        if weight is None:
            return
        reason = why_not_unpacked(weight)
        if reason:
            raise Declined(reason)
        names = {"activation", "alpha", "beta", "rounding"}
        kept = {name: p for name, p in op.properties.items() if name in names}
        numbers = _without_sign(weight.numbers, weight)
        rows = bytes_of_rows(op.left)
        left = (op.left, None, None) if rows is None else (rows.output, rows.scale, rows.sums)
        apart = 1 if rows is None else DOT
        arrays = {
            "packed": packed_pairs(numbers, apart) if weight.bits == HALF_BITS else numbers,
            "scales": _full(weight.scales.astype(np.float32), weight),
            "zeros": None if _is_symmetric(weight) else _zeros(weight),
        }
        stem = weight_name(weight.op, "{}")
        packed, scales, zeros = (
            None
            if array is None
            else rewriter.add_weight(op, stem.format(part), array, like=weight.op)
            for part, array in arrays.items()
        )
        new = MatMulBlocksOp.make(
            [left[0], packed, op.bias, op.residual, scales, zeros, *left[1:]],
            bits=weight.bits,
            block=weight.op.blocks.block_size,
            **kept,  # pyright: ignore[reportArgumentType]
        )
        rewriter.replace(op, new, absorbs=[weight.op])


def _without_sign(numbers: np.ndarray, weight: BlockWeight) -> np.ndarray:
    """Numbers of a type with a sign from its least one on, as ui8."""
    return (numbers.astype(np.int16) - weight.least).astype(np.uint8)


def _is_symmetric(weight: BlockWeight) -> bool:
    """Whether the middle of the numbers without a sign stands for zero everywhere."""
    middle = (1 << (weight.bits - 1)) + weight.least
    zeros = np.zeros(()) if weight.zeros is None else weight.zeros
    return bool(np.all(zeros.astype(np.int16) == middle))


def _zeros(weight: BlockWeight) -> np.ndarray:
    zeros = np.zeros((), np.int16) if weight.zeros is None else weight.zeros
    return _full(_without_sign(zeros, weight), weight)


def _full(parameters: np.ndarray, weight: BlockWeight) -> np.ndarray:
    """One for every block of every column."""
    rows, columns = weight.numbers.shape
    shape = (-(-rows // weight.op.blocks.block_size), columns)
    return np.ascontiguousarray(np.broadcast_to(parameters, shape))
