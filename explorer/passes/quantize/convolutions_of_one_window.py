"""Convolutions that see their input in one window become products, whose weights can be narrow.

    %y = top.conv(%x, %w, bias = %b)     %x : tensor<1x64x1x1xf32>, %w : tensor<10x64x1x1xf32>
 => %1 = top.reshape(%x) {shape = [1, 64]} : tensor<1x64xf32>
    %2 = top.matmul(%1, %v, bias = %b) : tensor<1x10xf32>                 %v : tensor<64x10xf32>
    %y = top.reshape(%2) {shape = [1, 10, 1, 1]} : tensor<1x10x1x1xf32>

Filters are read once for all pixels of a result: where there is one pixel, reading them is what
takes time, as with every product of one row. Classifiers behind a mean over all pixels, gates of
channels, and networks of speech that see one frame at a time are made of such.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.constants import constant
from explorer.ir.operation import identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.support.quantized_scalars import F32
from explorer.ir.types import element_type_of, is_static, static_shape
from explorer.passes.analysis.matching import weight_name
from explorer.passes.simplify.movement.reshapes import SinkReshape
from explorer.passes.simplify.remove_no_ops import MergeReshapes, RemoveReshape


class ProductOfOneWindow(Rule):
    """conv(x : 1x64x1x1, w : 10x64x1x1)   =>   reshape(matmul(reshape(x) : 1x64, w^T))

    Applies to constant filters of one group that are as large as their input, which has no padding,
    in single precision. Pays because blocks of narrow weights are unpacked by products, and one
    pixel reads every weight once. Exact, but for the order of the sums.
    """

    matches = (ConvOp,)

    def rewrite(self, op: ConvOp, rewriter: RecordedRewriter) -> None:
        filters = constant(op.weight, rewriter.weights)
        if filters is None or not is_static(op.input):
            return
        if any(op.get("pads")) or static_shape(op.input)[1:] != filters.shape[1:]:
            return
        if op.sums is not None or any(element_type_of(o) != F32 for o in op.operands):
            return
        if op.residual is not None or op.get("activation"):
            raise Declined(f"something is fused into {identity_of(op)} already")
        images, channels = static_shape(op.input)[0], len(filters)
        columns = np.ascontiguousarray(filters.reshape(channels, -1).T)
        rows = _reshaped(op.input, (images, len(columns)), op, rewriter)
        weight = rewriter.add_weight(op, weight_name(op, "weight"), columns, like=op)
        new = MatMulOp.make([rows, weight, op.bias, None])
        origin = origin_of(op.output)
        set_origins(new, [None if origin is None else origin.then("reshape", (images, channels))])
        rewriter.insert_before(op, new, stem=identity_of(op), like=op)
        back = ReshapeOp.make([new.output, None], shape=list(static_shape(op.output)))
        rewriter.replace(op, back)


def _reshaped(
    value: SSAValue, shape: tuple[int, ...], op: ConvOp, rewriter: RecordedRewriter
) -> SSAValue:
    reshape = ReshapeOp.make([value, None], shape=list(shape))
    origin = origin_of(value)
    set_origins(reshape, [None if origin is None else origin.then("reshape", shape)])
    rewriter.insert_before(op, reshape)
    return reshape.output


@dataclass(frozen=True)
class ConvolutionsOfOneWindow(RulePass):
    """Convolutions whose filters are as large as their input become products of one row an image;
    reshapes between move on, so that what is fused into a convolution is fused into the product."""

    name = "convolutions-of-one-window"
    rules = (ProductOfOneWindow, SinkReshape, MergeReshapes, RemoveReshape)
