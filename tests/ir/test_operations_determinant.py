"""Determinants against onnxruntime, and as C."""

import numpy as np
import pytest

from explorer.ir.top.determinant import DeterminantOp


@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (3, 4, 4), (2, 2, 3, 3), (1, 1)])
def test_determinants_of_stacked_matrices(shape, values, build, check, onnx_outputs):
    x = values(*shape)
    check(build(DeterminantOp, [x]), [x], onnx_outputs("Det", [x]), 1e-5)


def test_rows_are_exchanged_where_a_pivot_is_zero(build, check):
    x = np.array([[0, 2, 0], [3, 0, 0], [0, 0, 5]], np.float32)
    check(build(DeterminantOp, [x]), [x], [np.array(-30, np.float32)])


def test_a_singular_matrix_has_determinant_zero(build, check):
    x = np.array([[0, 1, 2], [0, 3, 4], [0, 5, 6]], np.float32)
    check(build(DeterminantOp, [x]), [x], [np.array(0, np.float32)])


def test_what_does_not_fit_is_named(infer):
    assert infer(DeterminantOp, [("n", 3, 3)]) == [("n",)]
    with pytest.raises(ValueError, match="square matrices"):
        infer(DeterminantOp, [(2, 3)])
    with pytest.raises(ValueError, match="floats expected"):
        infer(DeterminantOp, [(3, 3)], dtype="int32")
