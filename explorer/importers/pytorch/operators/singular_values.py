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
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.linear_algebra import norm_of_lines
from explorer.importers.pytorch.operators.linear_systems import inverted, unit_like
from explorer.importers.pytorch.operators.matrix_factors import transposed
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.orthogonal_factors import completed
from explorer.importers.pytorch.operators.promotion import as_value
from explorer.importers.pytorch.operators.reductions import p_norm
from explorer.ir.top.indexing import GatherElementsOp
from explorer.ir.top.reductions.reduction import TopKOp
from explorer.ir.top.singular_values import OrthogonalizeOp

SAFE = 1e70
"""The fourth power of this and sums of such powers are doubles, and so are their inverses."""


@dataclass(frozen=True)
class Decomposed:
    """A = U S Vᵀ in doubles, with as many values as the shorter side of A has elements."""

    left: Expr
    values: Expr
    right: Expr
    """V, not transposed."""


def decomposed(x: Expr, build: Build, largest: bool = True) -> Decomposed:
    """largest: the largest value first, else the smallest."""
    rank = build.rank(x)
    rows, columns = build.sizes(x, [rank - 2, rank - 1], "singular values")
    scale = _scale(x, build) if build.dtype(x) == np.float64 else None
    x = build.cast(x, np.float64)
    x = x if scale is None else build.binary("div", x, scale)
    is_wide = rows < columns
    x = transposed(x, build) if is_wide else x
    scaled, right = build.values(OrthogonalizeOp, [x])
    norms = build.reduce("l2", scaled, [rank - 2])
    count = min(rows, columns)
    values, places = build.values(TopKOp, [norms], k=count, axis=rank - 2, largest=largest)
    scaled, right = (_in_order(v, places, build) for v in (scaled, right))
    row = build.unsqueeze(values, [rank - 2])
    is_zero = build.binary("equal", row, build.scalar_like(0, row))
    left = build.binary("div", scaled, build.select(is_zero, build.scalar_like(1, row), row))
    if scale is not None:
        values = build.binary("mul", values, build.squeeze(scale, [rank - 1]))
    return Decomposed(right, values, left) if is_wide else Decomposed(left, values, right)


def _scale(x: Expr, build: Build) -> Expr:
    """What each matrix of doubles is divided by, so that products of squares neither overflow nor
    vanish: 1 where they do not."""
    axes = [build.rank(x) - 2, build.rank(x) - 1]
    if 0 in build.shape(x):
        return build.scalar_like(1, x)
    largest = build.reduce("max", build.unary("abs", x), axes, True)
    zero, one, small, large = (build.scalar_like(n, x) for n in (0, 1, 1 / SAFE, SAFE))
    is_safe = build.binary("less_equal", largest, large)
    is_safe = build.binary("and", is_safe, build.binary("greater_equal", largest, small))
    is_zero = build.binary("equal", largest, zero)
    return build.select(build.binary("or", is_safe, is_zero), one, largest)


def _in_order(x: Expr, places: Expr, build: Build) -> Expr:
    """The columns of every matrix at these places."""
    rank = build.rank(x)
    rows = build.unsqueeze(places, [rank - 2])
    sizes = [*build.all_sizes(x)[: rank - 1], *build.all_sizes(places)[-1:]]
    return build.value(GatherElementsOp, [x, build.expand(rows, sizes)], axis=rank - 1)


def svd(node: AtenNode, build: Build) -> list[Expr]:
    """U, S and Vᵀ (`svd`: V); without vectors those are empty."""
    name = node.call.target.removeprefix("aten.")
    x = node.operand(node.first())
    dtype = build.dtype(x)
    found = decomposed(x, build)
    values = build.cast(found.values, dtype)
    if not node.flag("compute_uv", True):
        nothing = build.weight(np.zeros(0, dtype))
        return [nothing, values, nothing]
    sides = build.sizes(x, [build.rank(x) - 2, build.rank(x) - 1], "singular vectors")
    is_full = not node.flag("some", True) if name == "svd" else _is_full(node, name)
    left, right = (
        completed(vectors, build) if is_full and side > min(sides) else vectors
        for vectors, side in zip((found.left, found.right), sides, strict=True)
    )
    right = right if name == "svd" else transposed(right, build)
    return [build.cast(left, dtype), values, build.cast(right, dtype)]


def _is_full(node: AtenNode, name: str) -> bool:
    return node.flag("full_matrices", default=name == "linalg_svd")


def singular_values(node: AtenNode, build: Build) -> Expr:
    """The largest first."""
    x = node.operand("A")
    return build.cast(decomposed(x, build).values, build.dtype(x))


def rank_of_matrix(node: AtenNode, build: Build) -> Expr:
    """How many singular values are above a bound."""
    x = _whole(node, node.operand(node.first()), build)
    values = decomposed(x, build).values
    bound = _bound(node, x, values, build)
    is_above = build.binary("greater", values, bound)
    return build.reduce("sum", build.cast(is_above, np.int64), [build.rank(values) - 1])


def pseudo_inverse(node: AtenNode, build: Build) -> Expr:
    """V S⁻¹ Uᵀ, where values that are not above a bound count as 0 and have no inverse."""
    x = _whole(node, node.operand("self"), build)
    found = decomposed(x, build)
    is_above = build.binary("greater", found.values, _bound(node, x, found.values, build))
    zero = build.scalar_like(0, found.values)
    inverse = build.select(is_above, build.unary("reciprocal", found.values), zero)
    scaled = build.binary("mul", found.right, build.unsqueeze(inverse, [build.rank(x) - 2]))
    return build.cast(build.matmul(scaled, transposed(found.left, build)), build.dtype(x))


def _whole(node: AtenNode, x: Expr, build: Build) -> Expr:
    """The matrix of which the lower triangle counts, if it is said to be symmetric."""
    return _mirrored(x, False, build) if node.flag("hermitian") else x


def _bound(node: AtenNode, x: Expr, values: Expr, build: Build) -> Expr:
    """max(atol, rtol times the largest value); rtol is the rounding of a number times the longer
    side unless a bound is given."""
    sides = build.sizes(x, [build.rank(x) - 2, build.rank(x) - 1], "a bound of singular values")
    rounding = float(np.finfo(build.dtype(x)).eps) * max(sides)
    largest = build.reduce("max", values, [build.rank(values) - 1], True)
    absolute = _given_bound(node, ("tol", "atol"), largest, build)
    relative = _given_bound(node, ("rcond", "rtol"), largest, build)
    if relative is None:
        relative = build.scalar_like(0.0 if node.has("tol") else rounding, largest)
        if absolute is not None and not node.has("tol"):
            zero = build.scalar_like(0, largest)
            is_given = build.binary("greater", absolute, zero)
            relative = build.select(is_given, zero, relative)
    bound = build.binary("mul", largest, relative)
    return bound if absolute is None else build.binary("max", bound, absolute)


def _given_bound(node: AtenNode, names: Sequence[str], like: Expr, build: Build) -> Expr | None:
    """The argument of one of these names: a number, or one for each matrix."""
    name = next(filter(node.has, names), None)
    if name is None:
        return None
    found = as_value(node, name, build.dtype(like), build)
    return build.unsqueeze(found, [build.rank(found)]) if build.rank(found) else found


def condition(node: AtenNode, build: Build) -> Expr:
    """The norm of a matrix times that of its inverse; of singular values their quotient."""
    x, order = node.operand("self"), node.argument("p")
    order = 2 if order is None else order
    dtype, axes = build.dtype(x), (build.rank(x) - 2, build.rank(x) - 1)
    if order in (2, -2):
        values = decomposed(x, build).values
        ends = [
            build.reduce(kind, values, [build.rank(values) - 1])
            for kind in (("max", "min") if order == 2 else ("min", "max"))
        ]
        return build.cast(build.binary("div", *ends), dtype)
    both = [x, inverted(x, build)]
    return build.binary("mul", *(matrix_norm(v, order, axes, False, build) for v in both))


def norm(node: AtenNode, build: Build) -> Expr:
    """Of vectors along one axis or of all elements, of matrices along two."""
    x, keeps, rank = node.operand("self"), node.flag("keepdim"), build.rank(node.operand("self"))
    dtype = node.dtype()
    x = x if dtype is None else build.cast(x, dtype)
    order = node.argument("ord")
    axes = [build.axis(a, rank) for a in node.integers("dim", build, range(rank))] if rank else []
    is_matrix = len(axes) == 2 and (order is not None or node.call.target.endswith("str_ord"))
    if not is_matrix:
        p = 2.0 if order is None else node.number("ord")
        return p_norm(x, p, axes, keeps, build)
    return matrix_norm(x, order, (axes[0], axes[1]), keeps, build)


def nuclear_norm(node: AtenNode, build: Build) -> Expr:
    """The sum of singular values."""
    x = node.operand("self")
    rank = build.rank(x)
    axes = [build.axis(a, rank) for a in node.integers("dim", build, range(rank))]
    return matrix_norm(x, "nuc", (axes[0], axes[1]), node.flag("keepdim"), build)


def matrix_norm(x: Expr, order: object, axes: tuple[int, int], keeps: bool, build: Build) -> Expr:
    """By its name: fro, nuc, 2 and -2 (singular values), 1, -1 and infinities (sums of lines)."""
    if 0 in (build.size(x, axis) for axis in axes):  # the norm of nothing is 0
        order = "fro"
    if order in (None, "fro"):
        return p_norm(x, 2.0, list(axes), keeps, build)
    if order not in ("nuc", 2, -2):
        if not isinstance(order, int | float):
            raise Unsupported(f"a norm {order!r}")
        return norm_of_lines(x, float(order), axes, keeps, build)
    rest = [axis for axis in range(build.rank(x)) if axis not in axes]
    values = decomposed(build.transpose(x, [*rest, *axes]), build).values
    kind = {"nuc": "sum", 2: "max", -2: "min"}[order]  # pyright: ignore[reportArgumentType]
    found = build.reduce(kind, values, [build.rank(values) - 1])
    found = build.cast(found, build.dtype(x))
    return build.unsqueeze(found, sorted(axes)) if keeps else found


# -- symmetric matrices ----------------------------------------------------------------------------


def eigenvalues(node: AtenNode, build: Build) -> Expr:
    """Of symmetric matrices, the smallest first."""
    return eigenvectors(node, build)[0]


def eigenvectors(node: AtenNode, build: Build) -> list[Expr]:
    """Eigenvalues of symmetric matrices, the smallest first, and vectors as columns."""
    x = node.operand(node.first())
    rank, dtype = build.rank(x), build.dtype(x)
    whole = build.cast(_mirrored(x, node.text("UPLO", "L").upper() == "U", build), np.float64)
    bound = norm_of_lines(whole, math.inf, (rank - 2, rank - 1), True, build)
    shifted = build.binary("add", whole, build.binary("mul", unit_like(whole, build), bound))
    found = decomposed(shifted, build, largest=False)
    values = build.binary("sub", found.values, build.squeeze(bound, [rank - 1]))
    return [build.cast(v, dtype) for v in (values, found.right)]


def _mirrored(x: Expr, is_upper: bool, build: Build) -> Expr:
    """The matrix of which one triangle is given."""
    (size,) = build.sizes(x, [build.rank(x) - 1], "eigenvalues")
    kept: np.ndarray = (np.triu if is_upper else np.tril)(np.ones((size, size), np.bool_))
    return build.select(build.weight(kept), x, transposed(x, build))


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
