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

from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.origins import inner_origins, origin_of, set_inner_origins, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.attention import COLUMNS, HEADS, ROWS, AttentionOp, head_group
from explorer.ir.top.elementwise import BinaryOp, SelectOp, UnaryOp
from explorer.ir.top.linear import MatMulOp
from explorer.ir.top.movement import ExpandOp, ReshapeOp, TransposeOp
from explorer.ir.top.normalization import SoftmaxOp
from explorer.ir.types import Shape, element_type_of, is_static, shape_of, static_shape
from explorer.ir.weights import Weights
from explorer.passes.matching import (
    both_orders,
    has_fused_parts,
    is_constant,
    is_float,
    is_kind,
    is_used_once,
    maker,
    scalar,
)


@dataclass(frozen=True)
class Scores:
    """scale * left right, with `fill` where the mask is false, + bias."""

    product: MatMulOp
    scale: float = 1.0
    mask: SSAValue | None = None
    fill: float = -np.inf
    bias: SSAValue | None = None
    steps: tuple[Operation, ...] = ()
    """What computes it behind the product, users first."""

    @property
    def is_plain(self) -> bool:
        return self.mask is None and self.bias is None

    @staticmethod
    def of(value: SSAValue, weights: Weights) -> Scores | None:
        """What scores are made of; None where they come from no product of two matrices."""
        op = value.owner
        if isinstance(op, MatMulOp):
            return Scores(op)
        if isinstance(op, SelectOp):
            return _masked(op, weights)
        if not isinstance(op, BinaryOp):
            return None
        if op.kind.data == "add":
            return _biased(op, weights)
        number = scalar(op.right, weights)
        if op.kind.data not in ("mul", "div") or not number:
            return None
        found = Scores.of(op.left, weights)
        if found is None or op.output.type != op.left.type or not found.is_plain:
            return None
        factor = number if op.kind.data == "mul" else 1 / number
        return replace(found, scale=found.scale * factor, steps=(op, *found.steps))


def _masked(op: SelectOp, weights: Weights) -> Scores | None:
    """Scores, and a number where the condition is false."""
    found, fill = Scores.of(op.if_true, weights), scalar(op.if_false, weights)
    if found is None or fill is None or not found.is_plain:
        return None
    if op.output.type != op.if_true.type:
        return None
    return replace(found, mask=op.condition, fill=fill, steps=(op, *found.steps))


def _biased(op: BinaryOp, weights: Weights) -> Scores | None:
    """Of a sum of two products the smaller one, or the one on the right, is the bias."""
    for value, other in both_orders(op):
        found = Scores.of(value, weights)
        if found is not None and found.bias is None and op.output.type == value.type:
            return replace(found, bias=other, steps=(op, *found.steps))
    return None


class RecognizeAttention(Rule):
    """matmul(softmax(matmul(q, k^T) * c + m), v)   =>   attention(q, k, v, bias = m) {scale = c}

    Applies to products of computed matrices, with a mask (a selection from the scores and a
    number) before what is added, when nothing else reads the steps between; also to the transposed
    product of values in front of weights. Pays because what belongs together can be seen, and
    scheduled, as one.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        softmax, turned = _weights_of(op)
        if softmax is None or softmax.get("logarithm"):
            return
        if softmax.get("axis") != len(shape_of(softmax.output)) - 1 or not is_float(op.output):
            return
        scores = Scores.of(softmax.input, rewriter.weights)
        value = op.left if turned else op.right
        if scores is None:
            raise Declined(_why_no_scores(softmax))
        steps = [*([turned] if turned else []), softmax, *scores.steps, scores.product]
        _require_alone(op, steps, scores, value)
        query, on_query, query_steps = _unscaled(scores.product.left, rewriter.weights)
        key, on_key, key_steps = _unscaled(scores.product.right, rewriter.weights)
        scale = scores.scale * on_query * on_key
        _require_same_rounding(op, scale)
        turns = [m for m in (maker(v, TransposeOp) for v in (key, value)) if m is not None]
        steps += [*query_steps, *key_steps, *turns]
        _require_heads(
            op,
            shape_of(query),
            _swapped_shape(shape_of(key)),
            _swapped_shape(shape_of(value)) if turned else shape_of(value),
        )
        new = AttentionOp.make(
            [
                query,
                swapped(key, op, rewriter),
                swapped(value, op, rewriter) if turned else value,
                scores.mask,
                scores.bias,
            ],
            scale=scale,
            fill=None if scores.mask is None or np.isneginf(scores.fill) else scores.fill,
        )
        inner = [origin_of(softmax.input), origin_of(softmax.output)]
        if turned:
            order = _swap_last(len(shape_of(op.output)))
            origin = origin_of(op.output)
            set_origins(new, [None if origin is None else origin.then("permute", order)])
            rewriter.insert_before(op, new, like=op)
            rewriter.replace(op, TransposeOp.make([new.output], permutation=order), absorbs=steps)
        else:
            rewriter.replace(op, new, absorbs=steps)
        set_inner_origins(new, inner)


def _weights_of(op: MatMulOp) -> tuple[SoftmaxOp | None, TransposeOp | None]:
    """The softmax on the left; or on the right, transposed: then the values are, too."""
    softmax = maker(op.left, SoftmaxOp)
    if softmax is not None:
        return softmax, None
    turned = maker(op.right, TransposeOp)
    if turned is None or list(turned.get("permutation")) != _swap_last(len(shape_of(op.right))):
        return None, None
    return maker(turned.input, SoftmaxOp), turned


def _why_no_scores(softmax: SoftmaxOp) -> str:
    owner = softmax.input.owner
    name = identity_of(owner) if isinstance(owner, Operation) else "an input"
    return (
        f"the scores of {identity_of(softmax)} come from {name}: no product of two matrices that "
        "is scaled, then masked, then added to"
    )


def _require_alone(op: MatMulOp, steps: list[Operation], scores: Scores, value: SSAValue) -> None:
    """Declined where something else needs a step, or what is multiplied are weights."""
    for step in steps:
        if not is_used_once(step):
            raise Declined(f"{identity_of(step)} is needed elsewhere too")
    for product in (op, scores.product):
        if has_fused_parts(product):
            raise Declined(f"something is fused into {identity_of(product)} already")
    for operand, role in ((scores.product.right, "keys"), (value, "values")):
        if is_constant(operand):
            raise Declined(f"the {role} of {identity_of(op)} are weights: it is a layer")


def _require_same_rounding(op: MatMulOp, scale: float) -> None:
    """Declined where a scale in another place is not what the model computes, digit by digit."""
    kind = element_type_of(op.output)
    if scale != 1 and isinstance(kind, Float16Type | BFloat16Type):
        raise Declined(
            f"{identity_of(op)} is in {kind}: scaled in another place it rounds otherwise"
        )


def _require_heads(op: MatMulOp, query: Shape, key: Shape, value: Shape) -> None:
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


def _unscaled(value: SSAValue, weights: Weights) -> tuple[SSAValue, float, list[Operation]]:
    """The value without a number that it is multiplied by, that number, and the step."""
    product = maker(value, BinaryOp)
    if product is None or not is_used_once(product) or product.output.type != product.left.type:
        return value, 1.0, []
    number = scalar(product.right, weights)
    if not number or not (is_kind(product, "mul") or is_kind(product, "div")):
        return value, 1.0, []
    return product.left, number if is_kind(product, "mul") else 1 / number, [product]


def _swap_last(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def _swapped_shape(shape: Shape) -> Shape:
    return (*shape[:ROWS], shape[COLUMNS], shape[ROWS])


def swapped(value: SSAValue, anchor: Operation, rewriter: RecordedRewriter) -> SSAValue:
    """The value with its last two axes swapped: without a transpose that is there already."""
    order = _swap_last(len(shape_of(value)))
    source, before = value, maker(value, TransposeOp)
    if before is not None:
        order = [before.get("permutation")[axis] for axis in order]
        source = before.input
        if order == sorted(order):
            return source
    transpose = TransposeOp.make([source], permutation=order)
    origin = origin_of(source)
    set_origins(transpose, [None if origin is None else origin.then("permute", order)])
    rewriter.insert_before(anchor, transpose, like=before)
    return transpose.output


class ZeroBehindProduct(Rule):
    """matmul(select(c, 0, softmax(s)), v)   =>   select(c, 0, matmul(softmax(s), v))

    Applies to a condition with one answer for each row, and to the question whether the softmax is
    not a number: the guards that exporters write for queries whose keys are all masked. Pays
    because a product of the softmax itself is an attention, and because the result is mostly
    smaller than the scores. Exact for finite values.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        guard = maker(op.left, SelectOp)
        softmax = None if guard is None else maker(guard.if_false, SoftmaxOp)
        if guard is None or softmax is None or op.bias is not None or op.residual is not None:
            return
        if scalar(guard.if_true, rewriter.weights) != 0 or op.get("activation"):
            return
        shape = shape_of(softmax.output)
        if softmax.get("axis") != len(shape) - 1 or guard.output.type != softmax.output.type:
            return
        test = maker(guard.condition, UnaryOp)
        if not is_kind(test, "is_nan") or test is None or test.input is not softmax.output:
            test = None
        if test is None and shape_of(guard.condition)[COLUMNS:] != (1,):
            raise Declined(f"{identity_of(guard)} replaces single weights, not those of whole rows")
        guards = [guard] if test is None else [guard, test]
        if not all(is_used_once(step) for step in guards):
            raise Declined(f"{identity_of(guard)} is needed elsewhere too")
        product = op.altered(left=softmax.output)
        rewriter.insert_before(op, product)
        condition = guard.condition
        if test is not None:
            asked = test.altered(input=product.output)
            rewriter.insert_before(op, asked, like=test)
            condition = asked.output
        new = SelectOp.make([condition, guard.if_true, product.output])
        rewriter.replace(op, new, absorbs=guards)


class ShareHeads(Rule):
    """attention(q, reshape(expand(reshape(k))), v likewise)   =>   attention(q, k, v)

    Applies where keys and values are repeated for heads of queries that share them (grouped
    queries), each head as often, one behind the other. Pays because the repeated tensors, the
    largest that a step of decoding reads, are never made. Exact.
    """

    matches = (AttentionOp,)

    def rewrite(self, op: AttentionOp, rewriter: RecordedRewriter) -> None:
        found = [_unrepeated(value) for value in (op.key, op.value)]
        key, value = found
        if key is None and value is None:
            return
        if key is None or value is None or op.group != 1:
            raise Declined(f"keys and values of {identity_of(op)} are not repeated alike")
        if shape_of(key[0])[:ROWS] != shape_of(value[0])[:ROWS]:
            raise Declined(f"keys and values of {identity_of(op)} are not repeated alike")
        new = op.altered(key=key[0], value=value[0])
        inner = inner_origins(op, 2)
        rewriter.replace(op, new, absorbs=[*key[1], *value[1]])
        set_inner_origins(new, inner)


def _unrepeated(value: SSAValue) -> tuple[SSAValue, list[Operation]] | None:
    """(..., heads, rows, columns) of which each head was repeated, and the steps; or None."""
    merge = maker(value, ReshapeOp)
    expand = None if merge is None else maker(merge.input, ExpandOp)
    split = None if expand is None else maker(expand.input, ReshapeOp)
    if merge is None or expand is None or split is None:
        return None
    if not all(is_static(v) for v in (value, expand.output, split.input)):
        return None
    whole, wide, own = (static_shape(v) for v in (value, expand.output, split.input))
    if len(own) < 3 or len(wide) != len(own) + 1 or len(whole) != len(own):
        return None
    *batch, heads, rows, columns = own
    times = wide[HEADS]
    is_repeated = (
        static_shape(split.output) == (*batch, heads, 1, rows, columns)
        and wide == (*batch, heads, times, rows, columns)
        and whole == (*batch, heads * times, rows, columns)
    )
    return (split.input, [merge, expand, split]) if is_repeated else None


ATTENTION_RULES: tuple[type[Rule], ...] = (
    ZeroBehindProduct,
    RecognizeAttention,
    ShareHeads,
)
