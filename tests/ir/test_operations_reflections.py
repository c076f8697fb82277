"""Reflections of Householder's against NumPy's QR, and as C."""

import numpy as np
import pytest

from explorer.ir.top.reflections import HouseholderOp, ReflectOp


def reflected(vectors, scales, x, build, is_transposed=False):
    op = build(ReflectOp, [vectors, scales, x], transposed=is_transposed)
    return op, op.evaluate(vectors, scales, x)[0]


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 2, 3, 5), (1, 1), (4, 1), (1, 3)])
def test_reflections_leave_a_triangle(shape, values, build, check):
    """NumPy's `raw` mode is LAPACK's geqrf, columns first."""
    x = values(*shape).astype(np.float64)
    op = build(HouseholderOp, [x])
    raw = [np.linalg.qr(matrix, "raw") for matrix in x.reshape(-1, *shape[-2:])]
    count = min(shape[-2:])
    factors = np.stack([factor.T for factor, _ in raw]).reshape(shape)
    scales = np.stack([scale for _, scale in raw]).reshape(*shape[:-2], count)
    check(op, [x], [factors, scales], 1e-12)


def test_a_column_that_is_zero_already_has_no_reflection(build, check):
    x = np.array([[3, 1, 2], [0, -2, 5], [0, 0, -4]], np.float32)
    check(build(HouseholderOp, [x]), [x], [x, np.zeros(3, np.float32)])


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 2, 4, 1), (1, 1)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_matrix_stands_behind_all_reflections(shape, is_transposed, values, build, check):
    x, right = (values(*shape[:-1], n).astype(np.float64) for n in (shape[-1], 3))
    factors, scales = build(HouseholderOp, [x]).evaluate(x)
    orthogonal = np.linalg.qr(x, "complete")[0]
    matrix = orthogonal.swapaxes(-1, -2) if is_transposed else orthogonal
    op, _ = reflected(factors, scales, right, build, is_transposed)
    check(op, [factors, scales, right], [matrix @ right], 1e-12)


def test_only_what_is_below_the_diagonal_is_a_vector(values, build):
    x, right = values(4, 3), values(4, 2)
    factors, scales = build(HouseholderOp, [x]).evaluate(x)
    lower = np.tril(factors, -1) + np.triu(np.full_like(factors, np.nan))
    _, expected = reflected(factors, scales, right, build)
    _, found = reflected(lower, scales, right, build)
    np.testing.assert_array_equal(found, expected)


def test_what_does_not_fit_is_named(infer):
    assert infer(HouseholderOp, [("n", 4, 3)]) == [("n", 4, 3), ("n", 3)]
    shapes = [("n", 4, 3), ("n", 3), ("n", 4, 5)]
    assert infer(ReflectOp, shapes, transposed=False) == [("n", 4, 5)]
    with pytest.raises(ValueError, match="shorter is not known"):
        infer(HouseholderOp, [("n", 3)])
    with pytest.raises(ValueError, match="floats expected"):
        infer(HouseholderOp, [(3, 3)], dtype="int32")
    with pytest.raises(ValueError, match="do not fit"):
        infer(ReflectOp, [(4, 3), (2,), (4, 5)], transposed=False)
    with pytest.raises(ValueError, match="4 reflections of 3 rows"):
        infer(ReflectOp, [(3, 4), (4,), (3, 5)], transposed=False)
