"""Triangular factors of matrices, and what says how they were found.

aten.linalg_cholesky(A)        L of L Lᵀ = A
aten.linalg_lu(A)              P, L and U of A = P L U

Where a matrix has no factor of Cholesky there is NaN, and PyTorch raises an error.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.indexing import GatherElementsOp
from explorer.ir.top.matrix_factors import CholeskyOp, LuOp

SAFE = 1e70
"""The fourth power of this and sums of such powers are doubles, and so are their inverses."""


def scale_of(x: Expr) -> Expr | None:
    """What each matrix of doubles is divided by, so that products of squares neither overflow nor
    vanish: 1 where they do not. None where no matrix needs one: narrower floats, no elements."""
    if x.dtype != np.float64 or 0 in x.shape:
        return None
    axes = [x.rank - 2, x.rank - 1]
    largest = abs(x).max(axes, True)
    zero, one, small, large = (x.constant(n) for n in (0, 1, 1 / SAFE, SAFE))
    return where(((largest <= large) & (largest >= small)) | (largest == zero), one, largest)


def cholesky(node: AtenNode, build: Build) -> Expr:
    """The lower triangular factor, or the upper one, of the triangle of that name."""
    x, is_upper = node.operand("self"), node.flag("upper")
    factor = build.value(CholeskyOp, [transposed(x) if is_upper else x])
    return transposed(factor) if is_upper else factor


def cholesky_with_error(node: AtenNode, build: Build) -> list[Expr]:
    """The factor, and how many rows of it there are before the matrix is not positive."""
    factor = cholesky(node, build)
    return [factor, _first_true(diagonal_of(factor).is_nan(), build)]


def lu_factor(node: AtenNode, build: Build) -> list[Expr]:
    """Both factors in one matrix, the exchanged rows, and which pivot is 0."""
    _require_pivots(node)
    factors, pivots = lu_of(node.operand(node.first()), build)
    return [factors, pivots, first_zero(factors, build)]


def lu(node: AtenNode, build: Build) -> list[Expr]:
    """P, L and U of A = P L U."""
    _require_pivots(node)
    factors, pivots = lu_of(node.operand("A"), build)
    return unpacked(factors, pivots, build)


def lu_unpack(node: AtenNode, build: Build) -> list[Expr]:
    """P, L and U of both factors in one matrix."""
    if not (node.flag("unpack_data", True) and node.flag("unpack_pivots", True)):
        raise Unsupported("factors that are unpacked in part")
    return unpacked(node.operand("LU_data"), node.operand("LU_pivots"), build)


def _require_pivots(node: AtenNode) -> None:
    if not node.flag("pivot", True):
        raise Unsupported("factors without pivots")


def lu_of(matrix: Expr, build: Build) -> list[Expr]:
    """Both factors in one matrix, and the exchanged rows counted from 1."""
    return build.values(LuOp, [matrix])


def unpacked(factors: Expr, pivots: Expr, build: Build) -> list[Expr]:
    rank = factors.rank
    rows, columns = factors.sizes([rank - 2, rank - 1], "factors")
    count = min(rows, columns)
    lower = triangle_of(factors.slice(rank - 1, 0, count), False, build)
    upper = triangle_of(factors.slice(rank - 2, 0, count), True, build)
    order = _order(pivots, rows, build).unsqueeze([rank - 2])
    places = build.weight(np.arange(rows)[:, np.newaxis])
    exchanged = (places == order).astype(factors.dtype)
    return [exchanged, with_unit_diagonal(lower, build), upper]


def _order(pivots: Expr, rows: int, build: Build) -> Expr:
    """Which row came to each place when rows were exchanged one after the other."""
    rank = pivots.rank
    (count,) = pivots.sizes([rank - 1], "exchanged rows")
    places = build.weight(np.arange(rows))
    order = expanded(places, [*pivots.all_sizes()[:-1], rows])
    others = pivots.astype(np.int64) - build.weight(np.array(1))
    for column in range(count):
        other = others.slice(rank - 1, column, column + 1)
        own_row = order.slice(rank - 1, column, column + 1)
        other_row = build.value(GatherElementsOp, [order, other], axis=rank - 1)
        is_other = places == other
        order = where(is_other, own_row, order)
        is_own = build.weight(np.arange(rows) == column)
        order = where(is_own, other_row, order)
    return order


def diagonal_of(x: Expr) -> Expr:
    rank = x.rank
    rows, columns = x.sizes([rank - 2, rank - 1], "a diagonal")
    flat = x.reshape([*x.all_sizes()[: rank - 2], rows * columns])
    return flat.take(np.arange(min(rows, columns)) * (columns + 1), rank - 2)


def first_zero(factors: Expr, build: Build) -> Expr:
    return _first_true(diagonal_of(factors) == 0, build)


def _first_true(found: Expr, build: Build) -> Expr:
    """The place of the first of the last axis that is true, from 1 on; 0 where none is."""
    axis = found.rank - 1
    (count,) = found.sizes([axis], "a diagonal")
    zero = build.weight(np.array(0, np.int32))
    if not count:
        return expanded(zero, found.all_sizes()[:axis])
    ranks = build.weight(np.arange(count, 0, -1, dtype=np.int32))  # the earliest is the highest
    best = where(found, ranks, zero).max([axis])
    place = build.weight(np.array(count + 1, np.int32)) - best
    return where(best == zero, zero, place)


def transposed(x: Expr) -> Expr:
    rank = x.rank
    return x.transpose([*range(rank - 2), rank - 1, rank - 2])


def triangle_of(x: Expr, is_upper: bool, build: Build) -> Expr:
    """One triangle of every matrix, with its diagonal."""
    rank = x.rank
    sizes = x.sizes([rank - 2, rank - 1], "a triangle")
    kept = (np.triu if is_upper else np.tril)(np.ones(sizes, np.bool_))
    return where(build.weight(kept), x, 0)


def with_unit_diagonal(x: Expr, build: Build) -> Expr:
    rows, columns = x.sizes([x.rank - 2, x.rank - 1], "a diagonal")
    return where(build.weight(np.eye(rows, columns, dtype=np.bool_)), 1, x)


CONVERTERS = {
    "linalg_cholesky": cholesky,
    "cholesky": cholesky,
    "linalg_cholesky_ex": cholesky_with_error,
    "linalg_lu_factor": lu_factor,
    "linalg_lu_factor_ex": lu_factor,
    "_lu_with_info": lu_factor,
    "linalg_lu": lu,
    "lu_unpack": lu_unpack,
}
