"""Triangular factors of matrices against NumPy, and as C."""

import numpy as np
import pytest

from explorer.ir.top.matrix_factors import CholeskyOp, LuOp


def positive(values, *shape):
    """Symmetric matrices whose factor is real."""
    x = values(*shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1], dtype=np.float32)


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 2, 3, 5), (1, 1)])
def test_factors_of_exchanged_rows(shape, values, build, check):
    x = values(*shape)
    op = build(LuOp, [x])
    check(op, [x])
    factors, pivots = op.evaluate(x)
    lower = np.tril(factors, -1) + np.eye(*shape[-2:], dtype=np.float32)
    count = min(shape[-2:])
    product = lower[..., :count] @ np.triu(factors)[..., :count, :]
    for index in np.ndindex(*shape[:-2]):
        rows = list(range(shape[-2]))
        for place, other in enumerate(pivots[index] - 1):
            rows[place], rows[other] = rows[other], rows[place]
        np.testing.assert_allclose(product[index], x[index][rows], atol=1e-5)


def test_a_column_without_a_pivot_keeps_its_zeros(build, check):
    x = np.array([[0, 1, 2], [0, 3, 4], [0, 5, 6]], np.float32)
    factors = np.array([[0, 1, 2], [0, 5, 6], [0, 0.6, 0.4]], np.float32)
    check(build(LuOp, [x]), [x], [factors, np.array([1, 3, 3], np.int32)], 1e-6)


@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (2, 2, 4, 4), (1, 1)])
def test_lower_factors_of_stacked_matrices(shape, values, build, check):
    x = positive(values, *shape)
    check(build(CholeskyOp, [x]), [x], [np.linalg.cholesky(x)], 1e-5)


def test_the_upper_triangle_is_not_read(values, build, check):
    x = positive(values, 4, 4)
    lower = np.tril(x) + np.triu(np.full_like(x, np.nan), 1)
    check(build(CholeskyOp, [lower]), [lower], [np.linalg.cholesky(x)], 1e-5)


def test_a_factor_ends_where_the_matrix_is_not_positive(build, check):
    x = np.diag(np.array([4, 0, 9], np.float32))
    nan = np.nan
    check(
        build(CholeskyOp, [x]),
        [x],
        [np.array([[2, 0, 0], [0, nan, 0], [0, nan, nan]], np.float32)],
    )


def test_what_does_not_fit_is_named(infer):
    assert infer(LuOp, [("n", 3, 4)]) == [("n", 3, 4), ("n", 3)]
    assert infer(CholeskyOp, [("n", 3, 3)]) == [("n", 3, 3)]
    with pytest.raises(ValueError, match="square matrices"):
        infer(CholeskyOp, [(2, 3)])
    with pytest.raises(ValueError, match="shorter is not known"):
        infer(LuOp, [("n", 3)])
    with pytest.raises(ValueError, match="floats expected"):
        infer(CholeskyOp, [(3, 3)], dtype="int32")
