"""Attention is taken apart into what has schedules: two products with a softmax between them.

    %y = top.attention(%q, %k, %v, bias = %bias) {scale = 0.125} : tensor<1x4x128x64xf32>
 => %c = top.binary(%q, %eighth) {kind = "mul"} : tensor<1x4x128x64xf32>
    %t = top.transpose(%k) {permutation = [0, 1, 3, 2]} : tensor<1x4x64x128xf32>
    %s = top.matmul(%c, %t) : tensor<1x4x128x128xf32>
    %m = top.binary(%s, %bias) {kind = "add"} : tensor<1x4x128x128xf32>
    %p = top.softmax(%m) {axis = 3, logarithm = false} : tensor<1x4x128x128xf32>
    %y = top.matmul(%p, %v) : tensor<1x4x128x64xf32>

It stands in front of the passes that move transposes, scales and sums into the weights around.

Where the scores of a whole operation would not fit into a core's own cache, attention stays one
operation: its kernel computes scores for a few rows at a time (`fused`). The knob
`split-attention/attention/OPERATION` decides otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from explorer.errors import InputError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import Origin, inner_origins, origin_of, set_origins
from explorer.ir.rewriting import (
    Declined,
    RecordedRewriter,
    Rewrite,
    RewriteOptions,
    Rule,
    apply_rules,
)
from explorer.ir.rewriting.passes import KNOBS, RulePass
from explorer.ir.structure import operations
from explorer.ir.top.attention import COLUMNS, HEADS, AttentionOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.types import element_type_of, is_static, shape_of, static_shape
from explorer.passes.analysis.matching import dtype_of, weight_name
from explorer.passes.simplify.movement.swaps import swapped
from explorer.results import Knob

SPLIT, FUSED = CHOICES = ("split", "fused")

MAX_SCORES_BYTES = 1 << 20
"""Scores that stay in the second-level cache between the kernels of a split attention."""


class SplitAttention(Rule):
    """attention(q, k, v, bias = m) {scale = c}   =>   matmul(softmax(matmul(q * c, k^T) + m), v)

    Applies to every attention of known shape; heads of queries that share keys are the rows of one
    product. The factor stands on the queries, or on the scores where these are fewer. Pays because
    the products have tiled kernels, and because factor and transposes may go into the weights in
    front of them. Attention stays whole where its knob says `fused`.
    """

    matches = (AttentionOp,)

    def __init__(self, fused: Mapping[str, str] | None = None):
        self.fused = fused or {}
        """Operations that stay as they are, each with the reason."""

    def rewrite(self, op: AttentionOp, rewriter: RecordedRewriter) -> None:
        if identity_of(op) in self.fused:
            raise Declined(f"{identity_of(op)} is fused: {self.fused[identity_of(op)]}")
        if not all(is_static(v) for v in (*op.operands, op.output)):
            raise Declined(f"the shape of {identity_of(op)} is not known yet")
        scores_origin, weights_origin = inner_origins(op, 2)
        steps = _Steps(op, rewriter)
        is_masked = op.mask is not None or op.bias is not None
        group = op.group or 1
        shape = steps.scores_shape
        rows = _joined_heads(shape, group)
        query = steps.reshaped(op.query, (*rows[:COLUMNS], static_shape(op.query)[COLUMNS]))
        scale = op.get("scale")
        scales_query = np.prod(static_shape(query)) <= np.prod(shape)
        if scales_query:
            query = steps.scaled(query, scale)
        key = swapped(op.key, op, rewriter)
        scores = steps.added(MatMulOp.make([query, key, None, None]))
        if not scales_query:
            scores = steps.scaled(scores, scale)
        if is_masked:
            scores = steps.masked(steps.reshaped(scores, shape))
        steps.set_origin(scores, scores_origin)
        weights = steps.added(
            SoftmaxOp.make(
                [scores],
                axis=len(shape) - 1,
                logarithm=False,
                zero_masked=op.is_zero_masked or None,
            ),
            weights_origin,
        )
        weights = steps.reshaped(weights, rows)
        result = MatMulOp.make([weights, op.value, None, None])
        if shape_of(result.output) == shape_of(op.output):
            rewriter.replace(op, result)
            return
        steps.added(result)
        origin, own = origin_of(op.output), static_shape(result.output)
        set_origins(result, [None if origin is None else origin.then("reshape", own)])
        back = ReshapeOp.make([result.output, None], shape=list(static_shape(op.output)))
        rewriter.replace(op, back)


def _joined_heads(scores: tuple[int, ...], group: int) -> tuple[int, ...]:
    """The scores' shape with the rows of all heads that share keys one behind the other."""
    if group == 1:
        return scores
    heads, rows, columns = scores[HEADS:]
    return (*scores[:HEADS], heads // group, group * rows, columns)


@dataclass(frozen=True)
class _Steps:
    """Inserts the parts of an attention in front of it."""

    op: AttentionOp
    rewriter: RecordedRewriter

    @property
    def scores_shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.op.scores_shape)

    def added(self, new: TopOperation, origin: Origin | None = None) -> SSAValue:
        self.rewriter.insert_before(self.op, new)
        self.set_origin(new.results[0], origin)
        return new.results[0]

    def set_origin(self, value: SSAValue, origin: Origin | None) -> None:
        """Scores or weights of the source model, in the shape that they have here."""
        made, own = value.owner, static_shape(value)
        if origin is None or not isinstance(made, TopOperation):
            return
        set_origins(made, [origin if own == self.scores_shape else origin.then("reshape", own)])

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The value itself where it has that shape."""
        if static_shape(value) == tuple(shape):
            return value
        new = ReshapeOp.make([value, None], shape=list(shape))
        origin = origin_of(value)
        self.rewriter.insert_before(self.op, new)
        set_origins(new, [None if origin is None else origin.then("reshape", shape)])
        return new.output

    def scaled(self, value: SSAValue, factor: float) -> SSAValue:
        """value * factor; the value itself for 1."""
        if factor == 1:
            return value
        return self.added(BinaryOp.make([value, self._number(factor)], kind="mul"))

    def _number(self, number: float) -> SSAValue:
        array = np.array(number, dtype_of(self.op.query))
        return self.rewriter.add_weight(self.op, weight_name(self.op, "number"), array)

    def masked(self, scores: SSAValue) -> SSAValue:
        if self.op.mask is not None:
            fill = self._number(self.op.masked_score)
            scores = self.added(SelectOp.make([self.op.mask, scores, fill]))
        if self.op.bias is not None:
            scores = self.added(BinaryOp.make([scores, self.op.bias], kind="add"))
        return scores


@dataclass(frozen=True)
class SplitAttentions(RulePass):
    """Attention becomes two products with a softmax between them, or stays one fused kernel."""

    fuses: bool = True
    """Whether the target's kernels have room for a thread's rows of scores; else all are split."""

    name = "split-attention"
    is_required = True
    rules = (SplitAttention,)
    choices = ("attention",)

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        present = [op for op in operations(rewriter.module) if isinstance(op, AttentionOp)]
        knobs = [knob for op in present if (knob := _knob(self, op, options)) is not None]
        fused = {k.address.split("/")[-1]: k.why for k in knobs if k.value == FUSED}
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return apply_rules(self.name, [SplitAttention(fused)], rewriter, options)


def _knob(pass_: SplitAttentions, op: AttentionOp, options: RewriteOptions) -> Knob | None:
    """What becomes of an attention, and why; None where nothing is to be chosen.

    Raises InputError for an override that is not legal.
    """
    address = f"{pass_.name}/attention/{identity_of(op)}"
    asked = options.decision(address)
    obstacle = why_not_fused(op)
    if obstacle:
        if asked not in (None, SPLIT):
            raise InputError(
                f"{identity_of(op)} cannot be {asked!r}: {obstacle}", hint=f"{SPLIT} is legal"
            )
        return None
    size_bytes = 4 * int(np.prod([int(size) for size in op.scores_shape]))
    is_large = size_bytes > MAX_SCORES_BYTES
    best = FUSED if is_large and pass_.fuses else SPLIT
    relation = "more" if is_large else "no more"
    why = f"all scores take {size_bytes} bytes, {relation} than a core's cache holds"
    if is_large and not pass_.fuses:
        why += ", but tasks of this target have little memory of their own"
    if asked is None:
        return Knob(address, best, CHOICES, why)
    if asked not in CHOICES:
        raise InputError(f"{address} cannot be {asked!r}", hint=f"{SPLIT} and {FUSED} are legal")
    assert isinstance(asked, str)
    if asked != best:
        why = f"an override; by itself it would be {best}: {why}"
    return Knob(address, asked, CHOICES, why)


def why_not_fused(op: AttentionOp) -> str:
    """What a fused kernel does not do; empty if it can be one."""
    if not all(is_static(v) for v in (*op.operands, op.output)):
        return "its shape is not known yet"
    if op.mask is not None:
        return "its mask is of booleans"
    if any(element_type_of(v) != f32 for v in (*op.operands, op.output)):
        return "it is not of f32"
    if len(shape_of(op.query)) < -HEADS:
        return "it has no heads"
    if 0 in op.scores_shape or not static_shape(op.value)[COLUMNS]:
        return "it is empty"
    return ""
