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

import numpy as np
from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import constant
from explorer.ir.operation import identity_of
from explorer.ir.patterns import (
    Found,
    Pattern,
    PatternRule,
    concat,
    neg,
    reshape,
    value,
    weight,
)
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.attention import RotaryOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.types import is_static, shape_of, static_shape
from explorer.passes.analysis.matching import is_float, weight_name
from explorer.passes.simplify.movement.parts import SlicePart, paired, united
from explorer.passes.simplify.movement.slices import make_slice

x, a, b, cosine, sine = (value(name) for name in ("x", "a", "b", "cosine", "sine"))
signed_sine = weight("sine")


class _Pairs:
    """The first and the second numbers of pairs, joined to one tensor.

    Either along the last axis, or along an axis of pairs, which is merged with the last one then.
    """

    def __init__(self, first: Pattern, second: Pattern) -> None:
        self._joint = concat(reshape(first), reshape(second))
        self._merged = reshape(self._joint)
        self._halves = first, second
        stacked = self._merged.where(lambda found: self._order(found) is not None)
        self.pattern = concat(first, second).having(_is_along_last) | stacked

    def _order(self, found: Found) -> bool | None:
        """Are the pairs neighbours of a merged axis? None where they are no pairs."""
        whole, joint = found[self._merged].output, found[self._joint]
        if not is_static(whole) or not is_static(joint.output):
            return None
        *batch, size = static_shape(whole)
        if any(shape_of(found.value(half)) != (*batch, size // 2) for half in self._halves):
            return None
        for is_interleaved, pair in ((True, (size // 2, 2)), (False, (2, size // 2))):
            axis = len(batch) + is_interleaved
            if static_shape(joint.output) == (*batch, *pair) and joint.get("axis") == axis:
                return is_interleaved
        return None

    def are_neighbours(self, found: Found) -> bool:
        return self._merged in found and bool(self._order(found))

    def part(self, found: Found) -> SlicePart | None:
        """What the pairs (a, b) are a part of; None where they are no pairs of it."""
        return united(paired(found[a]), paired(found[b]), self.are_neighbours(found))


def _is_along_last(op: ConcatOp) -> bool:
    return is_static(op.output) and op.get("axis") == len(shape_of(op.output)) - 1


def _require_tables(found: Found, tables: list[SSAValue], size: int) -> None:
    for table in tables:
        if not is_static(table) or static_shape(table)[-1:] != (size,):
            raise Declined(f"{identity_of(found.root)} turns all pairs by one angle")


class RecognizeRotary(PatternRule):
    """x * cosine + concat(-x[half:], x[:half]) * sine   =>   rotary(x, cosine, sine)

    Applies to halves of the last axis and to neighbours in it (interleaved), with the signs in a
    constant sine as well, when nothing else reads the steps between. Pays because one kernel reads
    x once, instead of a tensor per step written and read again. Exact.
    """

    turned, signed = _Pairs(neg(b), a), _Pairs(b, a)
    plain = turned.pattern * sine + x * cosine
    with_signs = signed.pattern * signed_sine + x * cosine
    pattern = (
        plain.where(
            lambda found: _is_whole(found, RecognizeRotary.turned),
            "what is turned are no pairs of what the cosines multiply",
        )
        | with_signs.where(lambda found: _is_whole(found, RecognizeRotary.signed))
    ).like(x)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> RotaryOp:
        is_signed = self.with_signs in found
        table = found.value(signed_sine if is_signed else sine)
        size = static_shape(found[x])[-1]
        _require_tables(found, [found[cosine], table], size)
        interleaved = (self.signed if is_signed else self.turned).are_neighbours(found)
        if is_signed:
            array = found[signed_sine]
            signs = np.ones(size, array.dtype)
            signs[0 :: 2 if interleaved else 1][: size // 2] = -1
            name = weight_name(found.root, "sine")
            table = rewriter.add_weight(found.root, name, array * signs)
        return RotaryOp.make([found[x], found[cosine], table], interleaved=interleaved or None)


def _is_whole(found: Found, pairs: _Pairs) -> bool:
    """Are the pairs those of all that is turned?"""
    given = found[x]
    return is_static(given) and is_float(given) and SlicePart.of(given) == pairs.part(found)


class RecognizeTurnedPairs(PatternRule):
    """concat(a * c - b * s, b * c + a * s)   =>   rotary(x, concat(c, c), concat(s, s))

    Applies to the halves a and b of the last axis of x, or of a part of it, and to its even and odd
    elements, when nothing else reads the steps between. Pays because one kernel reads x once,
    instead of a tensor per step written and read again. Exact.
    """

    pairs = _Pairs(a * cosine - b * sine, b * cosine + a * sine)
    pattern = pairs.pattern.where(lambda found: RecognizeTurnedPairs.fits(found))

    @classmethod
    def fits(cls, found: Found) -> bool:
        whole, part = found.root.results[0], cls.pairs.part(found)
        is_all = part is not None and tuple(map(len, part.taken)) == static_shape(whole)
        return is_all and is_float(whole)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> RotaryOp:
        op, part = found.root, self.pairs.part(found)
        assert part is not None
        _require_tables(found, [found[cosine], found[sine]], static_shape(found[a])[-1])
        interleaved = self.pairs.are_neighbours(found)
        tables = [
            self._doubled(found[table], op, interleaved, rewriter) for table in (cosine, sine)
        ]
        return RotaryOp.make(
            [self._whole(part, op, rewriter), *tables], interleaved=interleaved or None
        )

    @staticmethod
    def _whole(part: SlicePart, op: Operation, rewriter: RecordedRewriter) -> SSAValue:
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


ROTARY_RULES: tuple[type[Rule], ...] = (RecognizeRotary, RecognizeTurnedPairs)
