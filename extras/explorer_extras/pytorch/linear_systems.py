"""Systems of linear equations, inverses and powers of matrices.

aten.linalg_inv(A)                       the solution of A X = 1
aten.cholesky_solve(B, L)                solutions with both factors, one behind the other
aten.matrix_exp(A)                       Taylor's series of A / 256, squared eight times

A matrix that has no inverse gives NaN or infinities where PyTorch raises an error.
"""

from __future__ import annotations

import math

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.linear_systems import SolveOp
from explorer_extras.pytorch.matrix_factors import (
    first_zero,
    lu_of,
    transposed,
    triangle_of,
    unpacked,
    with_unit_diagonal,
)

_SQUARINGS, _DEGREE = 8, 16
"""Of an exponential: with them it is exact in doubles for matrices of a norm up to 256; at 89 its
elements leave the singles."""


def inverse(node: AtenNode, build: Build) -> Expr:
    """Of every matrix in the last two axes."""
    return inverted(node.operand(node.first()), build)


def solve(node: AtenNode, build: Build) -> Expr:
    """X of A X = B, or of X A = B (`left=False`). B may be a vector for each matrix."""
    matrix, right = node.operand("A"), node.operand("B")
    rank = right.rank
    own = matrix.shape[:-1]
    is_vector = rank == 1 or (rank == len(own) and right.shape == own)
    right = right.unsqueeze([rank]) if is_vector else right
    found = _solved(matrix, right, node.flag("left", True), build)
    return found.squeeze([found.rank - 1]) if is_vector else found


def solve_triangular(node: AtenNode, build: Build) -> Expr:
    """As `solve`, with one triangle of A, whose diagonal may count as ones."""
    name = "A" if node.has("A") else "self"
    matrix = triangle_of(node.operand(name), node.flag("upper"), build)
    if node.flag("unitriangular"):
        matrix = with_unit_diagonal(matrix, build)
    return _solved(matrix, node.operand("B"), node.flag("left", True), build)


def solve_triangular_of_old(node: AtenNode, build: Build) -> list[Expr]:
    """The solution, and the matrix as it was, for each right side."""
    right, given = _in_one_batch(node.operand("self"), node.operand("A"))
    matrix = triangle_of(given, node.flag("upper", True), build)
    if node.flag("unitriangular"):
        matrix = with_unit_diagonal(matrix, build)
    if node.flag("transpose"):
        matrix = transposed(matrix)
    return [_solved(matrix, right, True, build), given]


def cholesky_solve(node: AtenNode, build: Build) -> Expr:
    """X of L Lᵀ X = B."""
    factor = node.operand("input2" if node.has("input2") else "A")
    return _behind_factors(factor, node.operand("self"), node.flag("upper"), build)


def cholesky_inverse(node: AtenNode, build: Build) -> Expr:
    """The inverse of L Lᵀ."""
    factor = node.operand("self")
    return _behind_factors(factor, unit_like(factor, build), node.flag("upper"), build)


def power(node: AtenNode, build: Build) -> Expr:
    """A product of n times the matrix, by squares; of its inverse for negative n."""
    x, n = node.operand("self"), node.integer("n", build)
    if not n:
        return unit_like(x, build)
    square, rest = (inverted(x, build) if n < 0 else x), abs(n)
    result: Expr | None = None
    while rest:
        if rest % 2:
            result = square if result is None else result @ square
        rest //= 2
        square = square @ square if rest else square
    assert result is not None
    return result


def exponential(node: AtenNode, build: Build) -> Expr:
    """1 + A + A A / 2 + ..., computed in doubles."""
    x = node.operand("self")
    small = x.astype(np.float64).scaled(0.5**_SQUARINGS)
    one = unit_like(small, build)
    result = one
    for k in range(_DEGREE, 0, -1):
        term = (small @ result).scaled(1 / k)
        result = one + term
    for _ in range(_SQUARINGS):
        result = result @ result
    return result.astype(x.dtype)


def tensor_inverse(node: AtenNode, build: Build) -> Expr:
    """The inverse of the matrix whose rows are the first `ind` axes."""
    x, count = node.operand("self"), node.integer("ind", build, 2)
    sizes = x.sizes(range(x.rank), "an inverse of a tensor")
    rows = math.prod(sizes[:count])
    found = inverted(x.reshape([rows, rows]), build)
    return found.reshape([*sizes[count:], *sizes[:count]])


def tensor_solve(node: AtenNode, build: Build) -> Expr:
    """x of A x = b, where A has b's axes in front and those of x behind them."""
    x, right = node.operand("self"), node.operand("other")
    rank = x.rank
    moved = [build.axis(a, rank) for a in node.integers("dims", build, [])]
    x = x.transpose([*(a for a in range(rank) if a not in moved), *moved])
    sizes = x.sizes(range(rank), "a system of tensors")[right.rank :]
    rows = math.prod(sizes)
    column = right.reshape([rows, 1])
    return _solved(x.reshape([rows, rows]), column, True, build).reshape(sizes)


def inverse_with_error(node: AtenNode, build: Build) -> list[Expr]:
    """The inverse, and which pivot of the matrix is 0."""
    matrix = node.operand(node.first())
    factors, _ = lu_of(matrix, build)
    return [inverted(matrix, build), first_zero(factors, build)]


def solve_with_error(node: AtenNode, build: Build) -> list[Expr]:
    """The solution, and which pivot of the matrix is 0; in between the factors if asked for."""
    matrix = node.operand("A")
    factors, pivots = lu_of(matrix, build)
    between = [factors, pivots] if node.call.target.startswith("aten._") else []
    return [solve(node, build), *between, first_zero(factors, build)]


def lu_solve(node: AtenNode, build: Build) -> Expr:
    """X of P L U X = B, or of X P L U = B (`left=False`); of the transpose with `adjoint`."""
    is_old = node.has("LU_data")
    factors, pivots, right = (
        node.operand(name)
        for name in (("LU_data", "LU_pivots", "self") if is_old else ("LU", "pivots", "B"))
    )
    parts = unpacked(factors, pivots, build)
    is_left = node.flag("left", True)
    if node.flag("adjoint"):
        parts = [transposed(part) for part in reversed(parts)]
    for part in parts if is_left else reversed(parts):
        right = _solved(part, right, is_left, build)
    return right


def inverted(matrix: Expr, build: Build) -> Expr:
    return build.value(SolveOp, [matrix, unit_like(matrix, build)])


def unit_like(matrix: Expr, build: Build) -> Expr:
    """Ones on the diagonal of every matrix, zeros elsewhere."""
    (size,) = matrix.sizes([matrix.rank - 1], "a unit matrix")
    return expanded(build.weight(np.eye(size, dtype=matrix.dtype)), matrix.all_sizes())


def _solved(matrix: Expr, right: Expr, is_left: bool, build: Build) -> Expr:
    """The solution for matrices and right sides that broadcast."""
    if not is_left:
        return transposed(_solved(transposed(matrix), transposed(right), True, build))
    return build.value(SolveOp, [*_in_one_batch(matrix, right)])


def _in_one_batch(first: Expr, second: Expr) -> list[Expr]:
    """Matrices in the stack that both broadcast to."""
    batches = [x.shape[:-2] for x in (first, second)]
    if batches[0] == batches[1]:
        return [first, second]
    values = (first, second)
    numbers = [x.sizes(range(x.rank), "stacks that broadcast") for x in values]
    batch = np.broadcast_shapes(*(tuple(sizes[:-2]) for sizes in numbers))
    return [expanded(x, [*batch, *sizes[-2:]]) for x, sizes in zip(values, numbers, strict=True)]


def _behind_factors(factor: Expr, right: Expr, is_upper: bool, build: Build) -> Expr:
    lower = triangle_of(factor, is_upper, build)
    lower = transposed(lower) if is_upper else lower
    return _solved(transposed(lower), _solved(lower, right, True, build), True, build)


CONVERTERS = {
    "linalg_inv": inverse,
    "inverse": inverse,
    "linalg_inv_ex": inverse_with_error,
    "linalg_solve": solve,
    "linalg_solve_ex": solve_with_error,
    "_linalg_solve_ex": solve_with_error,
    "linalg_solve_triangular": solve_triangular,
    "triangular_solve": solve_triangular_of_old,
    "cholesky_solve": cholesky_solve,
    "_cholesky_solve_helper": cholesky_solve,
    "cholesky_inverse": cholesky_inverse,
    "linalg_lu_solve": lu_solve,
    "lu_solve": lu_solve,
    "linalg_matrix_power": power,
    "matrix_power": power,
    "linalg_matrix_exp": exponential,
    "matrix_exp": exponential,
    "linalg_tensorinv": tensor_inverse,
    "linalg_tensorsolve": tensor_solve,
}
