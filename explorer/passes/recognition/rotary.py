"""Rotary embeddings from their pieces, in the forms that exporters write.

    %b = top.slice(%x) {starts = [0, 0, 32], stops = [8, 64, 64], ...} : tensor<8x64x32xf32>
    %a = top.slice(%x) {starts = [0, 0, 0], stops = [8, 64, 32], ...} : tensor<8x64x32xf32>
    %n = top.unary(%b) {kind = "neg"} : tensor<8x64x32xf32>
    %r = top.concat(%n, %a) {axis = 2} : tensor<8x64x64xf32>
    %s = top.binary(%r, %sine) {kind = "mul"} : tensor<8x64x64xf32>
    %c = top.binary(%x, %cosine) {kind = "mul"} : tensor<8x64x64xf32>
    %y = top.binary(%c, %s) {kind = "add"} : tensor<8x64x64xf32>
 => %y = top.rotary(%x, %cosine, %sine) : tensor<8x64x64xf32>

The other form turns the two numbers of each pair by themselves and joins them. Pairs are halves of
the last axis, or neighbours in it; a part of the axis may be turned only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.attention import RotaryOp
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.movement import ConcatOp, ReshapeOp, SliceOp
from explorer.ir.types import is_static, shape_of, static_shape
from explorer.passes.matching import (
    both_orders,
    constant,
    is_float,
    is_kind,
    is_used_once,
    maker,
    weight_name,
)
from explorer.passes.movement.slices import make_slice, static_ranges


@dataclass(frozen=True)
class Part:
    """Positions of a value that are taken from another one, axis by axis."""

    base: SSAValue
    taken: tuple[range, ...]

    @staticmethod
    def of(value: SSAValue) -> Part:
        """A slice of something, else all of the value itself."""
        op = maker(value, SliceOp)
        ranges = None if op is None else static_ranges(op)
        if op is None or ranges is None:
            return Part(value, tuple(range(size) for size in static_shape(value)))
        return Part(op.input, tuple(ranges))

    def along_last(self, taken: range) -> Part:
        return Part(self.base, (*self.taken[:-1], taken))


def _paired(value: SSAValue) -> Part:
    """What a value takes from another one, also by a reshape that makes an axis of pairs.

    reshape(x : 8x64 to 8x32x2)[..., 1] are the odd elements, reshape(x to 8x2x32)[:, 1] the
    second half.
    """
    outer = maker(value, ReshapeOp)
    cut = None if outer is None else maker(outer.input, SliceOp)
    inner = None if cut is None else maker(cut.input, ReshapeOp)
    ranges = None if cut is None else static_ranges(cut)
    if inner is None or ranges is None or not is_static(inner.input):
        return Part.of(value)
    wide, split, own = (static_shape(v) for v in (inner.input, inner.output, value))
    for axis in (len(split) - 1, len(split) - 2):
        half = wide[-1] // 2
        parts = (half, 2) if axis == len(split) - 1 else (2, half)
        if axis < 1 or split != (*wide[:-1], *parts) or own != (*wide[:-1], half):
            continue
        whole = [r == range(n) for r, n in zip(ranges, split, strict=True)]
        if whole.count(False) > 1 or len(ranges[axis]) != 1:
            continue
        which, source = ranges[axis][0], Part.of(inner.input)
        last = source.taken[-1]
        return source.along_last(
            last[which::2] if parts[1] == 2 else last[which * half : (which + 1) * half]
        )
    return Part.of(value)


@dataclass(frozen=True)
class Pairs:
    """The first and the second numbers of pairs, joined to one tensor."""

    first: SSAValue
    second: SSAValue
    interleaved: bool
    steps: tuple[Operation, ...]

    @staticmethod
    def of(value: SSAValue) -> Pairs | None:
        """Of a concat along the last axis, or of one along an axis of pairs that is reshaped."""
        concat = maker(value, ConcatOp)
        if concat is not None and len(concat.inputs) == 2 and is_static(concat.output):
            first, second = concat.inputs
            is_last = concat.get("axis") == len(shape_of(value)) - 1
            return Pairs(first, second, False, (concat,)) if is_last else None
        merge = maker(value, ReshapeOp)
        concat = None if merge is None else maker(merge.input, ConcatOp)
        if merge is None or concat is None or len(concat.inputs) != 2 or not is_static(value):
            return None
        return _stacked(merge, concat)


def _stacked(merge: ReshapeOp, concat: ConcatOp) -> Pairs | None:
    splits = [maker(v, ReshapeOp) for v in concat.inputs]
    if not all(is_static(v) for v in concat.inputs):
        return None
    whole, axis = static_shape(merge.output), concat.get("axis")
    half = whole[-1] // 2
    own = (*whole[:-1], half)
    for interleaved, pair in ((True, (half, 2)), (False, (2, half))):
        if static_shape(concat.output) != (*whole[:-1], *pair):
            continue
        if axis != len(whole) - (0 if interleaved else 1):
            continue
        inner = [None if s is None else s.input for s in splits]
        first, second = inner
        if first is None or second is None or shape_of(first) != own or shape_of(second) != own:
            continue
        steps = [merge, concat, *[s for s in splits if s is not None]]
        return Pairs(first, second, interleaved, tuple(steps))
    return None


class RecognizeRotary(Rule):
    """x * cosine + concat(-x[half:], x[:half]) * sine   =>   rotary(x, cosine, sine)

    Applies to halves of the last axis and to neighbours in it (interleaved), with the signs in a
    constant sine as well, when nothing else reads the steps between. Pays because one kernel reads
    x once, instead of a tensor per step written and read again. Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "add" or not is_static(op.output) or not is_float(op.output):
            return
        for straight, crossed in both_orders(op):
            products = maker(straight, BinaryOp), maker(crossed, BinaryOp)
            if products[0] is None or products[1] is None:
                continue
            if not (is_kind(products[0], "mul") and is_kind(products[1], "mul")):
                continue
            for rotated, sine in both_orders(products[1]):
                found = _rotation(rotated, constant(sine, rewriter.weights) is not None)
                if found is None:
                    continue
                for x, cosine in both_orders(products[0]):
                    if Part.of(x) == found.part and x.type == op.output.type:
                        self._replace(op, x, cosine, sine, found, products, rewriter)
                        return

    def _replace(
        self,
        op: BinaryOp,
        x: SSAValue,
        cosine: SSAValue,
        sine: SSAValue,
        found: _Rotation,
        products: tuple[BinaryOp | None, ...],
        rewriter: RecordedRewriter,
    ) -> None:
        outer = [product for product in products if product is not None]
        for step in (*outer, *found.steps):
            if not is_used_once(step):
                raise Declined(f"{identity_of(step)} is needed elsewhere too")
        size = static_shape(x)[-1]
        for table in (cosine, sine):
            if not shape_of(table) or shape_of(table)[-1] != size:
                raise Declined(f"{identity_of(op)} turns all pairs by one angle")
        if found.is_signed:
            array = constant(sine, rewriter.weights)
            assert array is not None
            signs = np.ones(size, array.dtype)
            signs[0 :: 2 if found.interleaved else 1][: size // 2] = -1
            sine = rewriter.add_weight(op, weight_name(op, "sine"), array * signs)
        new = RotaryOp.make([x, cosine, sine], interleaved=found.interleaved or None)
        rewriter.replace(op, new, absorbs=[*outer, *found.steps])


@dataclass(frozen=True)
class _Rotation:
    """(-b, a) of the pairs (a, b) of a part of something; `is_signed`: without the minus."""

    part: Part
    interleaved: bool
    is_signed: bool
    steps: tuple[Operation, ...]


def _rotation(value: SSAValue, has_constant: bool) -> _Rotation | None:
    pairs = Pairs.of(value)
    if pairs is None:
        return None
    negated = maker(pairs.first, UnaryOp)
    is_signed = not is_kind(negated, "neg")
    if is_signed and not has_constant:
        return None
    second = pairs.first if is_signed or negated is None else negated.input
    part = _united(_paired(pairs.second), _paired(second), pairs.interleaved)
    if part is None:
        return None
    steps = pairs.steps if is_signed or negated is None else (*pairs.steps, negated)
    return _Rotation(part, pairs.interleaved, is_signed, steps)


def _united(first: Part, second: Part, interleaved: bool) -> Part | None:
    """The part whose pairs are the elements of both; None where they are no pairs."""
    a, b = first.taken[-1], second.taken[-1]
    if first.base is not second.base or first.taken[:-1] != second.taken[:-1]:
        return None
    if len(a) != len(b) or not a:
        return None
    if interleaved:
        step = b[0] - a[0]
        fits = len(a) == 1 or a.step == b.step == 2 * step
        return first.along_last(range(a[0], b[-1] + step, step)) if fits and step > 0 else None
    is_next = a.step == b.step == 1 or len(a) == 1
    return first.along_last(range(a[0], b[-1] + 1)) if is_next and b[0] == a[-1] + 1 else None


class RecognizeTurnedPairs(Rule):
    """concat(a * c - b * s, b * c + a * s)   =>   rotary(x, concat(c, c), concat(s, s))

    Applies to the halves a and b of the last axis of x, or of a part of it, and to its even and odd
    elements, when nothing else reads the steps between. Pays because one kernel reads x once,
    instead of a tensor per step written and read again. Exact.
    """

    matches = (ConcatOp, ReshapeOp)

    def rewrite(self, op: ConcatOp | ReshapeOp, rewriter: RecordedRewriter) -> None:
        pairs = Pairs.of(op.output)
        if pairs is None or not is_float(op.output):
            return
        for turn in _turned(pairs):
            part = _united(_paired(turn.a), _paired(turn.b), pairs.interleaved)
            if part is None or tuple(map(len, part.taken)) != static_shape(op.output):
                continue
            for step in (*pairs.steps[1:], *turn.steps):
                if not is_used_once(step):
                    raise Declined(f"{identity_of(step)} is needed elsewhere too")
            half = static_shape(turn.a)[-1]
            for table in (turn.cosine, turn.sine):
                if not is_static(table) or static_shape(table)[-1:] != (half,):
                    raise Declined(f"{identity_of(op)} turns all pairs by one angle")
            tables = [
                self._doubled(t, op, pairs.interleaved, rewriter) for t in (turn.cosine, turn.sine)
            ]
            new = RotaryOp.make(
                [self._whole(part, op, rewriter), *tables], interleaved=pairs.interleaved or None
            )
            rewriter.replace(op, new, absorbs=[*pairs.steps[1:], *turn.steps])
            return

    @staticmethod
    def _whole(part: Part, op: Operation, rewriter: RecordedRewriter) -> SSAValue:
        everything = tuple(range(size) for size in static_shape(part.base))
        if part.taken == everything:
            return part.base
        cut = make_slice(part.base, part.taken)
        rewriter.insert_before(op, cut)
        return cut.output

    @staticmethod
    def _doubled(
        table: SSAValue, op: Operation, interleaved: bool, rewriter: RecordedRewriter
    ) -> SSAValue:
        """The numbers of a table for both elements of each pair."""
        array = constant(table, rewriter.weights)
        if array is not None:
            twice = (
                np.repeat(array, 2, axis=-1)
                if interleaved
                else np.concatenate([array, array], axis=-1)
            )
            return rewriter.add_weight(op, f"{identity_of(op)}.table", twice)
        shape = static_shape(table)
        operands = [table, table]
        if interleaved:
            operands = []
            for _ in range(2):
                split = ReshapeOp.make([table, None], shape=[*shape, 1])
                rewriter.insert_before(op, split)
                operands.append(split.output)
        joined = ConcatOp.make([operands], axis=len(shape) if interleaved else len(shape) - 1)
        rewriter.insert_before(op, joined)
        if not interleaved:
            return joined.output
        merged = ReshapeOp.make([joined.output, None], shape=[*shape[:-1], 2 * shape[-1]])
        rewriter.insert_before(op, merged)
        return merged.output


@dataclass(frozen=True)
class _Turn:
    """a * cosine - b * sine and b * cosine + a * sine, with the operations that compute both."""

    a: SSAValue
    b: SSAValue
    cosine: SSAValue
    sine: SSAValue
    steps: tuple[Operation, ...]


def _turned(pairs: Pairs) -> Iterator[_Turn]:
    """The pairs as a rotation, in all orders of its factors."""
    difference, total = maker(pairs.first, BinaryOp), maker(pairs.second, BinaryOp)
    if difference is None or total is None:
        return
    if not is_kind(difference, "sub") or not is_kind(total, "add"):
        return
    products = [maker(v, BinaryOp) for v in (*difference.operands, *total.operands)]
    found = [p for p in products if p is not None and is_kind(p, "mul")]
    if len(found) != 4:
        return
    left, right, *others = found
    for a, cosine in both_orders(left):
        for b, sine in both_orders(right):
            for one, other in (others, reversed(others)):
                if _multiplies(one, b, cosine) and _multiplies(other, a, sine):
                    yield _Turn(a, b, cosine, sine, (difference, total, *found))


def _multiplies(product: BinaryOp, a: SSAValue, b: SSAValue) -> bool:
    return (product.left, product.right) in ((a, b), (b, a))


ROTARY_RULES: tuple[type[Rule], ...] = (RecognizeRotary, RecognizeTurnedPairs)
