"""Orthogonal and triangular factors of matrices, by reflections; all in doubles.

aten.linalg_qr(A)        Q and R of A = Q R, with the signs that LAPACK gives them
aten.geqrf(A)            R and the reflections that Q is made of
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, where
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.reflections import HouseholderOp, ReflectOp
from explorer_extras.pytorch.matrix_factors import (
    diagonal_of,
    scale_of,
    transposed,
    triangle_of,
)


def qr(node: AtenNode, build: Build) -> list[Expr]:
    """Q and R: as many columns and rows as the shorter side has, as many as there are rows
    (`complete`, `some=False`), or R alone (`r`)."""
    x = node.operand(node.first())
    dtype = x.dtype
    mode = node.text("mode", "reduced" if node.flag("some", True) else "complete")
    if mode == "r":
        _, upper = qr_of(x, False, build)
        return [build.weight(np.zeros(0, dtype)), upper.astype(dtype)]
    return [v.astype(dtype) for v in qr_of(x, mode == "complete", build)]


def qr_of(x: Expr, is_complete: bool, build: Build) -> list[Expr]:
    """Both factors in doubles."""
    rank = x.rank
    rows, columns = x.sizes([rank - 2, rank - 1], "orthogonal factors")
    count = min(rows, columns)
    scale = scale_of(x)
    wide = x.astype(np.float64)
    wide = wide if scale is None else wide / scale
    factors, scales = build.values(HouseholderOp, [wide])
    height = rows if is_complete else count
    upper = triangle_of(factors.slice(rank - 2, 0, height), True, build)
    upper = upper if scale is None else upper * scale
    return [_product(factors.slice(rank - 1, 0, count), scales, height, build), upper]


def completed(x: Expr, build: Build) -> Expr:
    """Orthogonal columns of length 1, as many as there are rows; x is the first of them.

    A column of zeros counts as one that is not known.
    """
    rank = x.rank
    rows, columns = x.sizes([rank - 2, rank - 1], "orthogonal columns")
    orthogonal, upper = qr_of(x, True, build)
    none = [0] * (rank - 2)
    ends = diagonal_of(upper).pad([*none, 0], [*none, rows - columns])
    return where((ends < 0).unsqueeze([rank - 2]), -orthogonal, orthogonal)


def reflections(node: AtenNode, build: Build) -> list[Expr]:
    """R above the vectors of Q's reflections, and a number for each."""
    x = node.operand("self")
    found = build.values(HouseholderOp, [x.astype(np.float64)])
    return [v.astype(x.dtype) for v in found]


def product_of_reflections(node: AtenNode, build: Build) -> Expr:
    """The first columns of Q, as many as there are of the vectors."""
    x = node.operand(node.first())
    scales = node.operand("tau" if node.has("tau") else "input2")
    (columns,) = x.sizes([x.rank - 1], "a product of reflections")
    found = _product(_vectors(x, scales), scales.astype(np.float64), columns, build)
    return found.astype(x.dtype)


def reflected(node: AtenNode, build: Build) -> Expr:
    """Q C or C Q (`left=False`), or so with Q's transpose (`transpose`)."""
    vectors, scales, x = (node.operand(name) for name in ("self", "input2", "input3"))
    vectors, scales = _vectors(vectors, scales), scales.astype(np.float64)
    is_left, is_transposed = node.flag("left", True), node.flag("transpose")
    inside = (x if is_left else transposed(x)).astype(np.float64)
    found = build.value(ReflectOp, [vectors, scales, inside], transposed=is_transposed == is_left)
    return (found if is_left else transposed(found)).astype(x.dtype)


def _vectors(x: Expr, scales: Expr) -> Expr:
    """Those that have a number, in doubles."""
    (count,) = scales.sizes([scales.rank - 1], "reflections")
    return x.slice(x.rank - 1, 0, count).astype(np.float64)


def _product(vectors: Expr, scales: Expr, columns: int, build: Build) -> Expr:
    """The first columns of the matrix that all reflections are."""
    rank = vectors.rank
    (rows,) = vectors.sizes([rank - 2], "a product of reflections")
    unit = build.weight(np.eye(rows, columns))
    batch = vectors.all_sizes()[: rank - 2]
    unit = expanded(unit, [*batch, rows, columns])
    return build.value(ReflectOp, [vectors, scales, unit], transposed=False)


CONVERTERS = {
    "linalg_qr": qr,
    "qr": qr,
    "geqrf": reflections,
    "linalg_householder_product": product_of_reflections,
    "orgqr": product_of_reflections,
    "ormqr": reflected,
}
