"""Attention from its pieces: two products with a softmax between them.

    %t = top.transpose(%k) {permutation = [0, 1, 3, 2]} : tensor<1x4x64x128xf32>
    %s = top.matmul(%q, %t) : tensor<1x4x128x128xf32>
    %c = top.binary(%s, %eighth) {kind = "mul"} : tensor<1x4x128x128xf32>
    %m = top.binary(%c, %bias) {kind = "add"} : tensor<1x4x128x128xf32>
    %p = top.softmax(%m) {axis = 3, logarithm = false} : tensor<1x4x128x128xf32>
    %y = top.matmul(%p, %v) : tensor<1x4x128x64xf32>
 => %y = top.attention(%q, %k, %v, bias = %bias) {scale = 0.125} : tensor<1x4x128x64xf32>

Numbers may stand behind the product, on the queries or on the keys; scores may be replaced by a
number where a mask says so, and get something added after that.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import is_constant
from explorer.ir.operation import identity_of
from explorer.ir.origins import inner_origins, origin_of, set_inner_origins, set_origins
from explorer.ir.patterns import (
    Found,
    Pattern,
    PatternRule,
    is_nan,
    kept,
    number,
    operation,
    optional,
    product,
    reshape,
    select,
    shared,
    softmax,
    transpose,
    value,
)
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.attention import COLUMNS, HEADS, ROWS, AttentionOp, head_group
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ExpandOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.types import Shape, element_type_of, is_static, shape_of, static_shape
from explorer.passes.analysis.matching import has_fused_parts, is_float
from explorer.passes.simplify.movement.swaps import swap_of, swapped, swapped_shape

q, k, v, mask, bias = (value(name) for name in ("q", "k", "v", "mask", "bias"))
key, values = shared(optional(transpose, k)), shared(optional(transpose, v))
fill, scale, on_query, on_key = (
    number("fill"),
    *(number(name, bool) for name in ("scale", "scale of q", "scale of k")),
)


def _is_over_columns(op: SoftmaxOp) -> bool:
    return op.get("axis") == len(shape_of(op.output)) - 1


def _is_alone(op: MatMulOp) -> bool:
    return not has_fused_parts(op)


def _swaps_last(op: TransposeOp) -> bool:
    return list(op.get("permutation")) == swap_of(len(shape_of(op.output)))


class RecognizeAttention(PatternRule):
    """matmul(softmax(matmul(q, k^T) * c + m), v)   =>   attention(q, k, v, bias = m) {scale = c}

    Applies to products of computed matrices, with a mask (a selection from the scores and a
    number) before what is added, when nothing else reads the steps between; also to the transposed
    product of values in front of weights. Pays because what belongs together can be seen, and
    scheduled, as one.
    """

    scores = (product(on_query, q) @ product(on_key, key)).having(
        _is_alone, "nothing fused into the product of queries and keys"
    )
    masked = optional(
        lambda s: select(mask, s, fill).like(s),
        product(scale, scores.called("a product of queries and keys")),
    )
    biased = optional(lambda s: (s + bias).like(s), masked)
    weights = softmax(biased).telling().having(_is_over_columns, "a softmax over the last axis")
    turned = values @ transpose(weights).having(_swaps_last)
    pattern = (weights @ values | turned).where(lambda found: is_float(found.root.results[0]))

    def apply(self, found: Found, rewriter: RecordedRewriter) -> None:
        op, is_turned = found.root, self.turned in found
        keys, given = found.value(key), found.value(values)
        for operand, role in ((keys, "keys"), (given, "values")):
            if is_constant(operand):
                raise Declined(f"the {role} of {identity_of(op)} are weights: it is a layer")
        factor = found[scale] * found[on_query] * found[on_key]
        _require_same_rounding(op, factor)
        shape = shape_of(given)
        _require_heads(
            op,
            shape_of(found[q]),
            swapped_shape(shape_of(keys)),
            swapped_shape(shape) if is_turned else shape,
        )
        softmax = found[self.weights]
        inner = [origin_of(softmax.input), origin_of(softmax.output)]
        filled = found.get(fill)
        new = AttentionOp.make(
            [
                found[q],
                swapped(keys, op, rewriter),
                swapped(given, op, rewriter) if is_turned else given,
                found.get(mask),
                found.get(bias),
            ],
            scale=factor,
            fill=None if filled is None or np.isneginf(filled) else filled,
            zero_masked=softmax.is_zero_masked or None,
        )
        if is_turned:
            order = swap_of(len(shape))
            origin = origin_of(op.results[0])
            set_origins(new, [None if origin is None else origin.then("permute", order)])
            rewriter.insert_before(op, new, like=op)
            back = TransposeOp.make([new.output], permutation=order)
            rewriter.replace(op, back, absorbs=found.steps)
        else:
            rewriter.replace(op, new, absorbs=found.steps)
        set_inner_origins(new, inner)


def _require_same_rounding(op: Operation, scale: float) -> None:
    """Declined where a scale in another place is not what the model computes, digit by digit."""
    kind = element_type_of(op.results[0])
    if scale != 1 and isinstance(kind, Float16Type | BFloat16Type):
        raise Declined(
            f"{identity_of(op)} is in {kind}: scaled in another place it rounds otherwise"
        )


def _require_heads(op: Operation, query: Shape, key: Shape, value: Shape) -> None:
    """Declined where a product broadcasts otherwise than by heads that share keys and values."""
    fits = (
        len(query) == len(key) == len(value)
        and query[:HEADS] == key[:HEADS]
        and key[:ROWS] == value[:ROWS]
        and bool(head_group(query, key))
    )
    if not fits:
        shown = ", ".join("x".join(map(str, shape)) for shape in (query, key, value))
        raise Declined(
            f"queries, keys and values of {identity_of(op)} are {shown}: they broadcast in "
            "another way than heads that share keys and values"
        )


class ZeroBehindProduct(PatternRule):
    """matmul(select(c, 0, softmax(s)), v)   =>   select(c, 0, matmul(softmax(s), v))

    Applies to a condition with one answer for each row, and to the question whether the softmax is
    not a number: the guards that exporters write for queries whose keys are all masked. Pays
    because a product of the softmax itself is an attention, and because the result is mostly
    smaller than the scores. Exact for finite values.
    """

    weights = kept(operation(SoftmaxOp, value("s")).having(_is_over_columns))
    rows, test = value("rows"), is_nan(weights)
    guard = select(test | rows, 0, weights)
    mixed = operation(MatMulOp, guard.like(weights), v).having(_is_alone)
    pattern = mixed

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> SelectOp:
        guard, test = found[self.guard], found.get(self.test)
        if test is None and shape_of(found[self.rows])[COLUMNS:] != (1,):
            raise Declined(f"{identity_of(guard)} replaces single weights, not those of whole rows")
        product = found[self.mixed].altered(left=found.value(self.weights))
        rewriter.insert_before(found.root, product)
        condition = guard.condition
        if test is not None:
            asked = test.altered(input=product.output)
            rewriter.insert_before(found.root, asked, like=test)
            condition = asked.output
        return SelectOp.make([condition, guard.if_true, product.output])


def _repeated(heads: Pattern[SSAValue]) -> Pattern[SSAValue]:
    """Each head as often, one behind the other."""
    split = reshape(heads)
    wide = operation(ExpandOp, split)
    whole = reshape(wide)
    parts = (heads, split, wide, whole)
    return shared(whole.where(lambda found: _is_repeated(*map(found.value, parts)))) | heads


def _is_repeated(own: SSAValue, split: SSAValue, wide: SSAValue, whole: SSAValue) -> bool:
    if not all(is_static(value) for value in (own, wide, whole)) or len(static_shape(own)) < 3:
        return False
    *batch, heads, rows, columns = static_shape(own)
    times = static_shape(wide)[HEADS]
    return (
        static_shape(split) == (*batch, heads, 1, rows, columns)
        and static_shape(wide) == (*batch, heads, times, rows, columns)
        and static_shape(whole) == (*batch, heads * times, rows, columns)
    )


class ShareHeads(PatternRule):
    """attention(q, reshape(expand(reshape(k))), v likewise)   =>   attention(q, k, v)

    Applies where keys and values are repeated for heads of queries that share them (grouped
    queries), each head as often, one behind the other. Pays because the repeated tensors, the
    largest that a step of decoding reads, are never made. Exact.
    """

    attention = operation(AttentionOp, q, _repeated(k), _repeated(v))
    pattern = attention

    def apply(self, found: Found, rewriter: RecordedRewriter) -> None:
        op, own = found[self.attention], (found[k], found[v])
        is_shared = [before is not now for before, now in zip((op.key, op.value), own, strict=True)]
        if not any(is_shared):
            return
        if (
            not all(is_shared)
            or op.group != 1
            or shape_of(own[0])[:ROWS] != shape_of(own[1])[:ROWS]
        ):
            raise Declined(f"keys and values of {identity_of(op)} are not repeated alike")
        new, inner = op.altered(key=own[0], value=own[1]), inner_origins(op, 2)
        rewriter.replace(op, new, absorbs=found.steps)
        set_inner_origins(new, inner)


ATTENTION_RULES: tuple[type[Rule], ...] = (
    ZeroBehindProduct,
    RecognizeAttention,
    ShareHeads,
)
