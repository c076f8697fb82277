"""Sizes of weights times bytes whose bits are flipped: products that fit 16 bits in pairs.

    (x - o) * w = |w| * ((x - o) ^ s) + |w| * -s        s = -1 where w < 0, else 0

    %y = top.matmul(%x, %w) {subtracted = 0}
 => %y = top.matmul(%x, %w, sign_sums = %t) {splits_signs = true, subtracted = 128}

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
from explorer.ir.top.linear.matmul import TOGETHER, MatMulOp
from explorer.ir.top.quantization.integer_products import SIGNED_BYTES
from explorer.ir.types import QuantizedType, element_type_of
from explorer.passes.analysis.matching import constant, weight_name


class SplitSigns(Rule):
    """matmul(x, w)   =>   matmul(x, w, sign_sums = ...) {splits_signs}

    Applies to constant matrices of signed bytes that have no order in which pairs of products fit
    16 bits. Pays on processors that multiply bytes in such pairs, for bytes that are widened to be
    multiplied in 16 bits take a third more instructions. Exact.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        array = constant(op.right, rewriter.weights)
        if array is None or array.ndim != 2 or op.get("fits_pairs") or not op.multiplies_bytes:
            return
        kind, left = element_type_of(op.right), element_type_of(op.left)
        assert isinstance(kind, QuantizedType) and isinstance(left, QuantizedType)
        if len(array) % TOGETHER or (not op.adds_up_input and np.any(kind.zero_point_array)):
            return
        offset = SIGNED_BYTES[left.storage]
        wide = array.astype(np.int64)
        sums = -np.minimum(wide, 0).sum(axis=0)
        if op.left_zero is None:
            zeros = kind.along(kind.zero_point_array, array.ndim)
            sums = sums + (offset - op.input_offset) * (wide - zeros).sum(axis=0)
        name = weight_name(op, "sign_sums")
        value = rewriter.add_weight(op, name, sums.astype(np.int32), like=op)
        changed = op.altered(sign_sums=value, splits_signs=True, subtracted=offset)
        rewriter.replace(op, changed)
