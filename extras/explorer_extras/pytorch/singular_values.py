"""Singular values and what rests on them, and eigenvalues of symmetric matrices; all in doubles.

aten.linalg_svd(A)          columns turned until they are orthogonal, the longest first
aten.linalg_pinv(A)         V S⁻¹ Uᵀ without the values that count as 0
aten.linalg_eigh(A)         singular values of A + c, less c, where no eigenvalue is below -c

Vectors have signs of their own, as PyTorch's have: what is computed from them should not ask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, maximum, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_value
from explorer.importers.pytorch.operators.reductions import p_norm
from explorer.ir.top.indexing import GatherElementsOp
from explorer.ir.top.reductions.reduction import TopKOp
from explorer.ir.top.singular_values import OrthogonalizeOp
from explorer_extras.pytorch.linear_algebra import norm_of_lines
from explorer_extras.pytorch.linear_systems import inverted, unit_like
from explorer_extras.pytorch.matrix_factors import scale_of, transposed
from explorer_extras.pytorch.orthogonal_factors import completed


@dataclass(frozen=True)
class Decomposed:
    """A = U S Vᵀ in doubles, with as many values as the shorter side of A has elements."""

    left: Expr
    values: Expr
    right: Expr
    """V, not transposed."""


def decomposed(x: Expr, build: Build, largest: bool = True) -> Decomposed:
    """largest: the largest value first, else the smallest."""
    rank = x.rank
    rows, columns = x.sizes([rank - 2, rank - 1], "singular values")
    scale = scale_of(x)
    x = x.astype(np.float64)
    x = x if scale is None else x / scale
    is_wide = rows < columns
    x = transposed(x) if is_wide else x
    scaled, right = build.values(OrthogonalizeOp, [x])
    norms = scaled.reduce("l2", [rank - 2])
    count = min(rows, columns)
    values, places = build.values(TopKOp, [norms], k=count, axis=rank - 2, largest=largest)
    scaled, right = (_in_order(v, places, build) for v in (scaled, right))
    row = values.unsqueeze([rank - 2])
    is_zero = row == 0
    left = scaled / where(is_zero, 1, row)
    if scale is not None:
        values = values * scale.squeeze([rank - 1])
    return Decomposed(right, values, left) if is_wide else Decomposed(left, values, right)


def _in_order(x: Expr, places: Expr, build: Build) -> Expr:
    """The columns of every matrix at these places."""
    rank = x.rank
    rows = places.unsqueeze([rank - 2])
    sizes = [*x.all_sizes()[: rank - 1], *places.all_sizes()[-1:]]
    return build.value(GatherElementsOp, [x, rows.broadcast_to(sizes)], axis=rank - 1)


def svd(node: AtenNode, build: Build) -> list[Expr]:
    """U, S and Vᵀ (`svd`: V); without vectors those are empty."""
    name = node.call.target.removeprefix("aten.")
    x = node.operand(node.first())
    dtype = x.dtype
    found = decomposed(x, build)
    values = found.values.astype(dtype)
    if not node.flag("compute_uv", True):
        nothing = build.weight(np.zeros(0, dtype))
        return [nothing, values, nothing]
    sides = x.sizes([x.rank - 2, x.rank - 1], "singular vectors")
    is_full = not node.flag("some", True) if name == "svd" else _is_full(node, name)
    left, right = (
        completed(vectors, build) if is_full and side > min(sides) else vectors
        for vectors, side in zip((found.left, found.right), sides, strict=True)
    )
    right = right if name == "svd" else transposed(right)
    return [left.astype(dtype), values, right.astype(dtype)]


def _is_full(node: AtenNode, name: str) -> bool:
    return node.flag("full_matrices", default=name == "linalg_svd")


def singular_values(node: AtenNode, build: Build) -> Expr:
    """The largest first."""
    x = node.operand("A")
    return decomposed(x, build).values.astype(x.dtype)


def rank_of_matrix(node: AtenNode, build: Build) -> Expr:
    """How many singular values are above a bound."""
    x = _whole(node, node.operand(node.first()), build)
    values = decomposed(x, build).values
    return (values > _bound(node, x, values, build)).astype(np.int64).sum([values.rank - 1])


def pseudo_inverse(node: AtenNode, build: Build) -> Expr:
    """V S⁻¹ Uᵀ, where values that are not above a bound count as 0 and have no inverse."""
    x = _whole(node, node.operand("self"), build)
    found = decomposed(x, build)
    is_above = found.values > _bound(node, x, found.values, build)
    zero = found.values.constant(0)
    inverse = where(is_above, found.values.reciprocal(), zero)
    scaled = found.right * inverse.unsqueeze([x.rank - 2])
    return (scaled @ transposed(found.left)).astype(x.dtype)


def _whole(node: AtenNode, x: Expr, build: Build) -> Expr:
    """The matrix of which the lower triangle counts, if it is said to be symmetric."""
    return _mirrored(x, False, build) if node.flag("hermitian") else x


def _bound(node: AtenNode, x: Expr, values: Expr, build: Build) -> Expr:
    """max(atol, rtol times the largest value); rtol is the rounding of a number times the longer
    side unless a bound is given."""
    sides = x.sizes([x.rank - 2, x.rank - 1], "a bound of singular values")
    rounding = float(np.finfo(x.dtype).eps) * max(sides)
    largest = values.max([values.rank - 1], True)
    absolute = _given_bound(node, ("tol", "atol"), largest, build)
    relative = _given_bound(node, ("rcond", "rtol"), largest, build)
    if relative is None:
        relative = largest.constant(0.0 if node.has("tol") else rounding)
        if absolute is not None and not node.has("tol"):
            zero = largest.constant(0)
            is_given = absolute > zero
            relative = where(is_given, zero, relative)
    bound = largest * relative
    return bound if absolute is None else maximum(bound, absolute)


def _given_bound(node: AtenNode, names: Sequence[str], like: Expr, build: Build) -> Expr | None:
    """The argument of one of these names: a number, or one for each matrix."""
    name = next(filter(node.has, names), None)
    if name is None:
        return None
    found = as_value(node, name, like.dtype, build)
    return found.unsqueeze([found.rank]) if found.rank else found


def condition(node: AtenNode, build: Build) -> Expr:
    """The norm of a matrix times that of its inverse; of singular values their quotient."""
    x, order = node.operand("self"), node.argument("p")
    order = 2 if order is None else order
    dtype, axes = x.dtype, (x.rank - 2, x.rank - 1)
    if order in (2, -2):
        values = decomposed(x, build).values
        last = [values.rank - 1]
        ends = (
            (values.max(last), values.min(last))
            if order == 2
            else (values.min(last), values.max(last))
        )
        return (ends[0] / ends[1]).astype(dtype)
    other = inverted(x, build)
    return matrix_norm(x, order, axes, False, build) * matrix_norm(other, order, axes, False, build)


def norm(node: AtenNode, build: Build) -> Expr:
    """Of vectors along one axis or of all elements, of matrices along two."""
    x, keeps, rank = node.operand("self"), node.flag("keepdim"), node.operand("self").rank
    dtype = node.dtype()
    x = x if dtype is None else x.astype(dtype)
    order = node.argument("ord")
    axes = [build.axis(a, rank) for a in node.integers("dim", build, range(rank))] if rank else []
    is_matrix = len(axes) == 2 and (order is not None or node.call.target.endswith("str_ord"))
    if not is_matrix:
        p = 2.0 if order is None else node.number("ord")
        return p_norm(x, p, axes, keeps)
    return matrix_norm(x, order, (axes[0], axes[1]), keeps, build)


def nuclear_norm(node: AtenNode, build: Build) -> Expr:
    """The sum of singular values."""
    x = node.operand("self")
    rank = x.rank
    axes = [build.axis(a, rank) for a in node.integers("dim", build, range(rank))]
    return matrix_norm(x, "nuc", (axes[0], axes[1]), node.flag("keepdim"), build)


def matrix_norm(x: Expr, order: object, axes: tuple[int, int], keeps: bool, build: Build) -> Expr:
    """By its name: fro, nuc, 2 and -2 (singular values), 1, -1 and infinities (sums of lines)."""
    if 0 in (x.size(axis) for axis in axes):  # the norm of nothing is 0
        order = "fro"
    if order in (None, "fro"):
        return p_norm(x, 2.0, list(axes), keeps)
    if order not in ("nuc", 2, -2):
        if not isinstance(order, int | float):
            raise Unsupported(f"a norm {order!r}")
        return norm_of_lines(x, float(order), axes, keeps)
    rest = [axis for axis in range(x.rank) if axis not in axes]
    values = decomposed(x.transpose([*rest, *axes]), build).values
    kind = {"nuc": "sum", 2: "max", -2: "min"}[order]  # pyright: ignore[reportArgumentType]
    found = values.reduce(kind, [values.rank - 1]).astype(x.dtype)
    return found.unsqueeze(sorted(axes)) if keeps else found


# -- symmetric matrices ----------------------------------------------------------------------------


def eigenvalues(node: AtenNode, build: Build) -> Expr:
    """Of symmetric matrices, the smallest first."""
    return eigenvectors(node, build)[0]


def eigenvectors(node: AtenNode, build: Build) -> list[Expr]:
    """Eigenvalues of symmetric matrices, the smallest first, and vectors as columns."""
    x = node.operand(node.first())
    rank, dtype = x.rank, x.dtype
    whole = _mirrored(x, node.text("UPLO", "L").upper() == "U", build).astype(np.float64)
    bound = norm_of_lines(whole, math.inf, (rank - 2, rank - 1), True)
    shifted = whole + unit_like(whole, build) * bound
    found = decomposed(shifted, build, largest=False)
    values = found.values - bound.squeeze([rank - 1])
    return [v.astype(dtype) for v in (values, found.right)]


def _mirrored(x: Expr, is_upper: bool, build: Build) -> Expr:
    """The matrix of which one triangle is given."""
    (size,) = x.sizes([x.rank - 1], "eigenvalues")
    kept: np.ndarray = (np.triu if is_upper else np.tril)(np.ones((size, size), np.bool_))
    return where(build.weight(kept), x, transposed(x))


CONVERTERS = {
    "linalg_svdvals": singular_values,
    "linalg_svd": svd,
    "_linalg_svd": svd,
    "svd": svd,
    "pinverse": pseudo_inverse,
    "linalg_matrix_rank": rank_of_matrix,
    **{
        f"linalg_matrix_rank.{o}": rank_of_matrix
        for o in ("tol_tensor", "atol_rtol_tensor", "atol_rtol_float")
    },
    "linalg_pinv": pseudo_inverse,
    **{
        f"linalg_pinv.{o}": pseudo_inverse
        for o in ("rcond_tensor", "atol_rtol_tensor", "atol_rtol_float")
    },
    "linalg_cond": condition,
    "linalg_cond.p_str": condition,
    "linalg_norm": norm,
    "linalg_norm.ord_str": norm,
    "linalg_matrix_norm": norm,
    "linalg_matrix_norm.str_ord": norm,
    "nuclear_norm": nuclear_norm,
    "nuclear_norm.dim": nuclear_norm,
    "linalg_eigvalsh": eigenvalues,
    "linalg_eigh": eigenvectors,
    "_linalg_eigh": eigenvectors,
}
