"""Determinants, powers of elements, and norms of matrices by their rows and columns.

aten.linalg_slogdet(A)              sign(det A), log|det A|
aten.linalg_vander(x)               1, x, x², ... as columns
"""

from __future__ import annotations

import math

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.determinant import DeterminantOp


def determinant(node: AtenNode, build: Build) -> Expr:
    """Of every matrix in the last two axes."""
    return build.value(DeterminantOp, [node.operand("A" if node.has("A") else "self")])


def log_determinant(node: AtenNode, build: Build) -> Expr:
    """The logarithm of the determinant; nothing where it is negative."""
    return determinant(node, build).log()


def sign_and_logarithm(node: AtenNode, build: Build) -> list[Expr]:
    """The determinant's sign, and the logarithm of its size."""
    found = determinant(node, build)
    return [found.sign(), abs(found).log()]


def decomposed_determinant(node: AtenNode, build: Build) -> list[Expr]:
    """The determinant without the factors that PyTorch finds it by."""
    node.require_unused(1, "the factors of a matrix")
    return [determinant(node, build)]


def decomposed_sign_and_logarithm(node: AtenNode, build: Build) -> list[Expr]:
    """Its sign and the logarithm of its size, without these factors."""
    node.require_unused(2, "the factors of a matrix")
    return sign_and_logarithm(node, build)


def powers(node: AtenNode, build: Build) -> Expr:
    """x^0, x^1, ... as a new last axis, as many as x has elements in its last or as asked for."""
    x = node.operand("x")
    x = x if x.rank else x.reshape([1])
    count = node.integer("N", build, x.size(x.rank - 1) or 0)
    one = x.constant(1).broadcast_to(x.all_sizes())
    columns = [one]
    for _ in range(1, count):
        columns.append(columns[-1] * x)
    axis = x.rank
    return build.concat([column.unsqueeze([axis]) for column in columns], axis)


def norm_of_lines(x: Expr, order: float, axes: tuple[int, int], keeps: bool) -> Expr:
    """The largest or least sum of sizes: of columns (1, -1) or of rows (infinity)."""
    summed, compared = axes if abs(order) == 1 else reversed(axes)
    if abs(order) != 1 and not math.isinf(order):
        raise ValueError(f"a matrix has no norm {order}")
    sums = x.reduce("l1", [summed], True)
    result = sums.reduce("max" if order > 0 else "min", [compared], True)
    return result if keeps else result.squeeze(axes)


CONVERTERS = {
    "linalg_det": determinant,
    "det": determinant,
    "logdet": log_determinant,
    "_linalg_det": decomposed_determinant,
    "_linalg_slogdet": decomposed_sign_and_logarithm,
    "linalg_slogdet": sign_and_logarithm,
    "slogdet": sign_and_logarithm,
    "linalg_vander": powers,
}
