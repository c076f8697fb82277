"""Squeeze and Unsqueeze whose axes the inputs decide: reshapes to a shape that is computed.

    y = Unsqueeze(x, axes)      x: AxB, axes: 1 element, an input
 => is_new = [0, 1, 2] == axes mod 3                    for each axis of y
    number = how many axes before it are not new
    shape  = is_new ? 1 : size of x at number
    y = top.reshape(x, shape) : ?x?x?

How many axes there are must be known, since it decides the rank.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Undecided
from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.program.build import Build
from explorer.ir.top.movement.reshape import ReshapeOp


def unsqueeze_by_data(x: Expr, axes: Expr, build: Build) -> Expr:
    """axes: a vector of i64, whose elements count in the result."""
    count, own = _count(axes), x.rank
    rank = own + count
    if not own:
        return x.reshape([1] * rank)
    is_new = _is_among(axes, rank, build)
    is_old = _numbers([1] * rank, build) - is_new
    number = _before(is_old, rank, build)
    sizes = _sizes_at(number, x, build)
    return build.value(ReshapeOp, [x, sizes * is_old + is_new], allow_zero=True)


def squeeze_by_data(x: Expr, axes: Expr, build: Build) -> Expr:
    """axes: a vector of i64. That they have size 1 shows when it runs."""
    count, own = _count(axes), x.rank
    if count > own:
        raise ValueError(f"{count} axes of a tensor with {own} dimensions")
    if count == own:
        return x.reshape([])
    is_gone = _is_among(axes, own, build)
    is_kept = _numbers([1] * own, build) - is_gone
    number = _before(is_kept, own, build)
    wanted = build.weight(np.arange(own - count)[:, np.newaxis])
    fits = (wanted == number.unsqueeze([0])).astype(np.int64)
    chosen = fits * is_kept.unsqueeze([0])
    sizes = build.shape_vector(x.all_sizes()).unsqueeze([0])
    return build.value(ReshapeOp, [x, (chosen * sizes).sum([1])], allow_zero=True)


def _count(axes: Expr) -> int:
    count = axes.size(0) if axes.rank == 1 else None
    if count is None:
        raise Undecided("how many axes there are depends on the inputs")
    return count


def _is_among(axes: Expr, rank: int, build: Build) -> Expr:
    """(rank) of 0 and 1: which axes of a tensor are listed, counted from either end."""
    zero = build.weight(np.zeros((), np.int64))
    behind = axes + build.weight(np.array(rank))
    front = where(axes < zero, behind, axes)
    numbers = build.weight(np.arange(rank)[:, np.newaxis])
    return (numbers == front.unsqueeze([0])).astype(np.int64).max([1])


def _before(marked: Expr, rank: int, build: Build) -> Expr:
    """(rank): how many marked axes stand before each."""
    earlier = build.weight(np.tri(rank, k=-1, dtype=np.int64))
    return (earlier * marked.unsqueeze([0])).sum([1])


def _sizes_at(number: Expr, x: Expr, build: Build) -> Expr:
    """The sizes of x at numbers of axes; 0 behind the last."""
    own = x.rank
    fits = number.unsqueeze([1]) == build.weight(np.arange(own))
    sizes = build.shape_vector(x.all_sizes()).unsqueeze([0])
    return (fits.astype(np.int64) * sizes).sum([1])


def _numbers(numbers: list[int], build: Build) -> Expr:
    return build.weight(np.array(numbers, np.int64))
