"""Systems of equations against NumPy, and as C."""

import numpy as np
import pytest

from explorer.ir.top.linear_systems import SolveOp


@pytest.mark.parametrize(
    ("batch", "size", "columns"), [((), 3, 2), ((4,), 5, 1), ((2, 3), 2, 4), ((), 1, 1)]
)
def test_solutions_of_stacked_systems(batch, size, columns, values, build, check):
    matrix, right = values(*batch, size, size), values(*batch, size, columns)
    expected = np.linalg.solve(matrix.astype(np.float64), right).astype(np.float32)
    check(build(SolveOp, [matrix, right]), [matrix, right], [expected], 1e-3)


def test_rows_are_exchanged_where_a_pivot_is_zero(build, check):
    matrix = np.array([[0, 2, 0], [0, 0, 5], [3, 0, 0]], np.float32)
    right = np.array([[2], [10], [9]], np.float32)
    expected = np.array([[3], [1], [2]], np.float32)
    check(build(SolveOp, [matrix, right]), [matrix, right], [expected])


def test_a_singular_matrix_has_no_finite_solution(build):
    op = build(SolveOp, [np.ones((2, 2), np.float32), np.ones((2, 1), np.float32)])
    (found,) = op.evaluate(np.ones((2, 2), np.float32), np.array([[1], [2]], np.float32))
    assert not np.isfinite(found).any()


def test_what_does_not_fit_is_named(infer):
    assert infer(SolveOp, [("n", 3, 3), ("n", 3, 2)]) == [("n", 3, 2)]
    with pytest.raises(ValueError, match="square matrices"):
        infer(SolveOp, [(2, 3), (2, 3)])
    with pytest.raises(ValueError, match="have no right side"):
        infer(SolveOp, [(3, 3), (2, 1)])
    with pytest.raises(ValueError, match="floats expected"):
        infer(SolveOp, [(3, 3), (3, 1)], dtype="int32")
