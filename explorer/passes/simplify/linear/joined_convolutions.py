"""Convolutions of one input whose results are only transposed become one, with one transpose.

   %1 = top.conv(%x, %v) {...} : tensor<1x2x16x16xf32>
   %2 = top.transpose(%1) {permutation = [0, 2, 3, 1]} : tensor<1x16x16x2xf32>
   %3 = top.conv(%x, %w) {...} : tensor<1x32x16x16xf32>
   %4 = top.transpose(%3) {permutation = [0, 2, 3, 1]} : tensor<1x16x16x32xf32>
=> %1 = top.conv(%x, %vw) {...} : tensor<1x34x16x16xf32>
   %2 = top.transpose(%1) {permutation = [0, 2, 3, 1]} : tensor<1x16x16x34xf32>
   %3 = top.slice(%2) {starts = [0, 0, 0, 0], stops = [1, 16, 16, 2], ...} : tensor<1x16x16x2xf32>
   %4 = top.slice(%2) {starts = [0, 0, 0, 2], stops = [1, 16, 16, 34], ...} : tensor<1x16x16x32xf32>

So do the heads of detectors end: scores and boxes of one map, a row for each pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.origins import sources_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import is_static, static_shape
from explorer.passes.analysis.matching import constant, is_float, is_used_once
from explorer.passes.simplify.movement.slices import make_slice

CHANNELS = 1
SHARED = ("strides", "pads", "dilations")
"""Properties in which convolutions that become one agree."""


@dataclass(frozen=True)
class _Head:
    """A convolution that one transpose reads, and its numbers."""

    conv: ConvOp
    transpose: TransposeOp
    weight: np.ndarray
    bias: np.ndarray | None


class JoinConvolutions(Rule):
    """transpose(conv(x, v)), transpose(conv(x, w))   =>   slices of transpose(conv(x, [v, w]))

    Applies to convolutions of floats with constant filters of one size, read by nothing but
    transposes of one kind, which can go no further: reshapes or nothing stand behind them. Pays
    because x is read once, and one transpose is made instead of two. Exact.
    """

    matches = (ConvOp,)

    def rewrite(self, op: ConvOp, rewriter: RecordedRewriter) -> None:
        first = _head(op, rewriter)
        if first is None:
            return
        readers = dict.fromkeys(use.operation for use in op.input.uses)
        convs = [reader for reader in readers if isinstance(reader, ConvOp)]
        if len(convs) < 2:
            return
        found = [head for head in (_head(conv, rewriter) for conv in convs) if head is not None]
        alike = [head for head in found if _is_alike(head, first)]
        if len(alike) < 2:
            raise Declined(f"no other convolution of {identity_of(op)}'s input is like it")
        block = op.parent
        assert block is not None
        alike.sort(key=lambda head: block.get_operation_index(head.conv))
        if alike[0].conv is op:  # once for all of them
            _join(alike, rewriter)


def _head(op: ConvOp, rewriter: RecordedRewriter) -> _Head | None:
    """None where the operation is none of those that are joined."""
    is_fused = op.residual is not None or op.get("activation") or op.rounded_type is not None
    is_known = is_float(op.output) and is_static(op.output) and op.sums is None
    if is_fused or not is_known or op.get("group") != 1:
        return None
    weight = constant(op.weight, rewriter.weights)
    bias = None if op.bias is None else constant(op.bias, rewriter.weights)
    if weight is None or (op.bias is not None and bias is None) or not is_used_once(op):
        return None
    transpose = next(iter(op.output.uses)).operation
    if not isinstance(transpose, TransposeOp):
        return None
    if not all(isinstance(u.operation, ReshapeOp | ReturnOp) for u in transpose.output.uses):
        return None
    return _Head(op, transpose, weight, bias)


def _is_alike(head: _Head, other: _Head) -> bool:
    return (
        head.conv.input is other.conv.input
        and head.weight.shape[1:] == other.weight.shape[1:]
        and head.weight.dtype == other.weight.dtype
        and (head.bias is None) == (other.bias is None)
        and all(head.conv.get(name) == other.conv.get(name) for name in SHARED)
        and head.transpose.get("permutation") == other.transpose.get("permutation")
    )


def _join(heads: Sequence[_Head], rewriter: RecordedRewriter) -> None:
    first = heads[0]
    anchor, name = first.conv, identity_of(first.conv)
    weight = np.concatenate([head.weight for head in heads])
    changes = {"weight": rewriter.add_weight(anchor, f"{name}.joined", weight)}
    if first.bias is not None:
        bias = np.concatenate([head.bias for head in heads if head.bias is not None])
        changes["bias"] = rewriter.add_weight(anchor, f"{name}.joined_bias", bias)
    conv = first.conv.altered(**changes)
    sources = [source for head in heads for source in sources_of(head.conv)]
    rewriter.insert_before(anchor, conv, stem=name, sources=sources)
    transpose = first.transpose.altered(input=conv.output)
    sources = [source for head in heads for source in sources_of(head.transpose)]
    rewriter.insert_before(anchor, transpose, sources=sources)
    axis = first.transpose.get("permutation").index(CHANNELS)
    stops = list(accumulate(head.weight.shape[0] for head in heads))
    shape = static_shape(transpose.output)
    for head, stop in zip(heads, stops, strict=True):
        ranges = [range(size) for size in shape]
        ranges[axis] = range(stop - head.weight.shape[0], stop)
        rewriter.replace(head.transpose, make_slice(transpose.output, ranges))
        rewriter.erase(head.conv)
