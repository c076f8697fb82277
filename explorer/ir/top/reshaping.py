"""Reshapes as copies: which element of one shape is which of another.

(4, 6) -> (8, 3)    both consist of 4 x 2 x 3    [d0, d1 * 3 + d2]  ->  [d0 * 2 + d1, d2]
(4, 6) -> (3, 8)    no common factors            element by element, subscripts by division
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir.affine import AffineExpr

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.operation import Access
from explorer.ir.top.definitions import load_element, store_element


def common_pieces(source: Sequence[int], target: Sequence[int]) -> list[int] | None:
    """Factors of which both shapes' dimensions are products; None where there are none.

    (4, 6) and (8, 3) consist of 4 x 2 x 3, (4, 6) and (3, 8) of nothing in common.
    """
    if 0 in source:
        return None
    cuts = sorted(
        {prod(shape[axis:]) for shape in (source, target) for axis in range(len(shape))} - {1}
    )
    pieces, previous = [], 1
    for cut in cuts:
        if cut % previous:
            return None
        pieces.append(cut // previous)
        previous = cut
    return pieces[::-1]


def joined_subscripts(
    shape: Sequence[int], pieces: Sequence[int], indices: Sequence[AffineExpr]
) -> list[Subscript]:
    """A shape's subscripts from the indices of its pieces: (4 x 2, 3) -> [d0 * 2 + d1, d2]."""
    remaining = list(zip(pieces, indices, strict=False))
    subscripts: list[Subscript] = []
    for size in reversed(shape):
        subscript: Subscript = 0
        stride = 1
        while stride < size:
            extent, index = remaining.pop()
            term = index * stride if stride > 1 else index
            subscript = term if isinstance(subscript, int) else term + subscript
            stride *= extent
        subscripts.append(subscript)
    return subscripts[::-1]


def define_flat_copy(
    k: KernelBuilder,
    x: Access,
    source: Sequence[int],
    output: Access,
    target: Sequence[int],
) -> None:
    """Element by element in row-major order, subscripts by division."""

    def position(s: ScalarBuilder, flat: Scalar, shape: Sequence[int]) -> list[Scalar]:
        indices = []
        for axis, size in enumerate(shape):
            quotient = flat / s.index(prod(shape[axis + 1 :]) or 1)
            indices.append(quotient.remainder(s.index(size)) if axis else quotient)
        return indices

    def copy(s: ScalarBuilder, flat: Scalar) -> None:
        value = load_element(s, x, position(s, flat, source))
        store_element(s, value, output, position(s, flat, target))

    k.nest({"d0": prod(source)}, copy, parallel="d0")
