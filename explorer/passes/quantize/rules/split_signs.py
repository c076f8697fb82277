"""Sizes of weights times bytes whose bits are flipped: products that fit 16 bits in pairs.

    (x - o) * w = |w| * ((x - o) ^ s) + |w| * -s        s = -1 where w < 0, else 0

    %y = top.conv(%x, %w) {subtracted = 0}
 => %y = top.conv(%x, %w, sign_sums = %t) {splits_signs = true, subtracted = 128}

Processors without VNNI multiply unsigned with signed bytes two at a time, in 16 bits
(`vpmaddubsw`). 255 * 127 twice does not fit; 128 times a signed byte does, for all weights. Flipped
bits are one less than a changed sign (~x = -x - 1): what that takes from a sum does not depend on
x, and is added before. Signs could be changed by subtracting, which overflows for -128.
References: Intel, Intrinsics Guide, _mm256_maddubs_epi16; Jacob et al., "Quantization and Training
of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, section 2.3.
"""

from __future__ import annotations

import numpy as np

from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import TOGETHER, MatMulOp
from explorer.ir.top.quantization.integer_products import SIGNED_BYTES
from explorer.ir.types import QuantizedType, element_type_of, shape_of
from explorer.passes.analysis.matching import constant, weight_name
from explorer.passes.quantize.rules.weight_pairs import FEWEST_COLUMNS

PICTURE_RANK = 4
"""Of tensors that are blocked by channels, as dot products take them."""


class SplitSigns(Rule):
    """matmul(x, w)   =>   matmul(x, w, sign_sums = ...) {splits_signs}

    Applies to constant matrices of signed bytes that have no order in which pairs of products fit
    16 bits, and to the filters of dense convolutions. Pays on processors that multiply bytes in
    such pairs, for bytes that are widened to be multiplied in 16 bits take a third more
    instructions. Exact.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        left, right, *_ = op.operands
        array = constant(right, rewriter.weights)
        if array is None or not op.multiplies_bytes or op.sign_sums is not None:
            return
        if not (_has_dots(op) if isinstance(op, ConvOp) else _has_unfitting_rows(op, array)):
            return
        kind, storage = element_type_of(right), element_type_of(left)
        assert isinstance(kind, QuantizedType) and isinstance(storage, QuantizedType)
        if not op.adds_up_input and np.any(kind.zero_point_array):
            return
        offset = SIGNED_BYTES[storage.storage]
        wide = array.astype(np.int64)
        axes = tuple(range(1, wide.ndim)) if isinstance(op, ConvOp) else (0,)
        sums = -np.minimum(wide, 0).sum(axis=axes)
        if op.left_zero is None:
            zeros = kind.along(kind.zero_point_array, array.ndim)
            sums = sums + (offset - op.input_offset) * (wide - zeros).sum(axis=axes)
        name = weight_name(op, "sign_sums")
        value = rewriter.add_weight(op, name, sums.astype(np.int32), like=op)
        changed = op.altered(sign_sums=value, splits_signs=True, subtracted=offset)
        rewriter.replace(op, changed)


def _has_unfitting_rows(op: MatMulOp, array: np.ndarray) -> bool:
    """Whether rows come four by four, and not in an order in which pairs fit 16 bits."""
    is_matrix = array.ndim == 2 and array.shape[1] >= FEWEST_COLUMNS
    return is_matrix and not op.get("fits_pairs") and len(array) % TOGETHER == 0


def _has_dots(op: ConvOp) -> bool:
    """Whether its kernel has dot products: filters that read all channels of pictures."""
    return op.get("group") == 1 and len(shape_of(op.weight)) == PICTURE_RANK
