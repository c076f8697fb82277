"""Orthogonal and triangular factors of matrices, by reflections; all in doubles.

aten.linalg_qr(A)        Q and R of A = Q R, with the signs that LAPACK gives them
aten.geqrf(A)            R and the reflections that Q is made of
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.matrix_factors import (
    diagonal_of,
    transposed,
    triangle_of,
)
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.reflections import HouseholderOp, ReflectOp


def qr(node: AtenNode, build: Build) -> list[Expr]:
    """Q and R: as many columns and rows as the shorter side has, as many as there are rows
    (`complete`, `some=False`), or R alone (`r`)."""
    x = node.operand(node.first())
    dtype = build.dtype(x)
    mode = node.text("mode", "reduced" if node.flag("some", True) else "complete")
    if mode == "r":
        _, upper = qr_of(x, False, build)
        return [build.weight(np.zeros(0, dtype)), build.cast(upper, dtype)]
    return [build.cast(v, dtype) for v in qr_of(x, mode == "complete", build)]


def qr_of(x: Expr, is_complete: bool, build: Build) -> list[Expr]:
    """Both factors in doubles."""
    rank = build.rank(x)
    rows, columns = build.sizes(x, [rank - 2, rank - 1], "orthogonal factors")
    count = min(rows, columns)
    factors, scales = build.values(HouseholderOp, [build.cast(x, np.float64)])
    height = rows if is_complete else count
    upper = triangle_of(build.slice(factors, rank - 2, 0, height), True, build)
    vectors = build.slice(factors, rank - 1, 0, count)
    return [_product(vectors, scales, height, build), upper]


def completed(x: Expr, build: Build) -> Expr:
    """Orthogonal columns of length 1, as many as there are rows; x is the first of them.

    A column of zeros counts as one that is not known.
    """
    rank = build.rank(x)
    rows, columns = build.sizes(x, [rank - 2, rank - 1], "orthogonal columns")
    orthogonal, upper = qr_of(x, True, build)
    none = [0] * (rank - 2)
    ends = build.padded(diagonal_of(upper, build), [*none, 0], [*none, rows - columns])
    is_turned = build.unsqueeze(build.binary("less", ends, build.scalar_like(0, ends)), [rank - 2])
    return build.select(is_turned, build.unary("neg", orthogonal), orthogonal)


def reflections(node: AtenNode, build: Build) -> list[Expr]:
    """R above the vectors of Q's reflections, and a number for each."""
    x = node.operand("self")
    found = build.values(HouseholderOp, [build.cast(x, np.float64)])
    return [build.cast(v, build.dtype(x)) for v in found]


def product_of_reflections(node: AtenNode, build: Build) -> Expr:
    """The first columns of Q, as many as there are of the vectors."""
    x = node.operand(node.first())
    scales = node.operand("tau" if node.has("tau") else "input2")
    (columns,) = build.sizes(x, [build.rank(x) - 1], "a product of reflections")
    found = _product(_vectors(x, scales, build), build.cast(scales, np.float64), columns, build)
    return build.cast(found, build.dtype(x))


def reflected(node: AtenNode, build: Build) -> Expr:
    """Q C or C Q (`left=False`), or so with Q's transpose (`transpose`)."""
    vectors, scales, x = (node.operand(name) for name in ("self", "input2", "input3"))
    vectors, scales = _vectors(vectors, scales, build), build.cast(scales, np.float64)
    is_left, is_transposed = node.flag("left", True), node.flag("transpose")
    inside = build.cast(x if is_left else transposed(x, build), np.float64)
    found = build.value(ReflectOp, [vectors, scales, inside], transposed=is_transposed == is_left)
    return build.cast(found if is_left else transposed(found, build), build.dtype(x))


def _vectors(x: Expr, scales: Expr, build: Build) -> Expr:
    """Those that have a number, in doubles."""
    (count,) = build.sizes(scales, [build.rank(scales) - 1], "reflections")
    return build.cast(build.slice(x, build.rank(x) - 1, 0, count), np.float64)


def _product(vectors: Expr, scales: Expr, columns: int, build: Build) -> Expr:
    """The first columns of the matrix that all reflections are."""
    rank = build.rank(vectors)
    (rows,) = build.sizes(vectors, [rank - 2], "a product of reflections")
    unit = build.weight(np.eye(rows, columns))
    batch = build.all_sizes(vectors)[: rank - 2]
    unit = expanded(unit, [*batch, rows, columns], build)
    return build.value(ReflectOp, [vectors, scales, unit], transposed=False)


CONVERTERS = {
    "linalg_qr": qr,
    "qr": qr,
    "geqrf": reflections,
    "linalg_householder_product": product_of_reflections,
    "orgqr": product_of_reflections,
    "ormqr": reflected,
}
