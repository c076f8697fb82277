"""Orthogonal columns against NumPy's singular values, and as C."""

import numpy as np
import pytest

from explorer.ir.top.singular_values import OrthogonalizeOp


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 2, 3, 2), (3, 1), (2, 3)])
def test_columns_become_orthogonal(shape, values, build, check):
    x = values(*shape).astype(np.float64)
    op = build(OrthogonalizeOp, [x])
    check(op, [x], tolerance=1e-9)
    columns, rotation = op.evaluate(x)
    np.testing.assert_allclose(x @ rotation, columns, atol=1e-12)
    unit = np.broadcast_to(np.eye(shape[-1]), rotation.shape)
    np.testing.assert_allclose(rotation.swapaxes(-1, -2) @ rotation, unit, atol=1e-12)
    found = -np.sort(-np.linalg.norm(columns, axis=-2), axis=-1)
    count = min(shape[-2:])
    np.testing.assert_allclose(found[..., :count], np.linalg.svd(x)[1], rtol=1e-9)
    np.testing.assert_allclose(found[..., count:], 0, atol=1e-12)


def test_columns_that_are_orthogonal_stay(build, check):
    x = np.diag(np.array([3, 0, 2], np.float32))
    check(build(OrthogonalizeOp, [x]), [x], [x, np.eye(3, dtype=np.float32)])


def test_what_does_not_fit_is_named(infer):
    assert infer(OrthogonalizeOp, [("n", 3, 2)]) == [("n", 3, 2), ("n", 2, 2)]
    with pytest.raises(ValueError, match="columns are those of matrices"):
        infer(OrthogonalizeOp, [(3,)])
    with pytest.raises(ValueError, match="floats expected"):
        infer(OrthogonalizeOp, [(3, 3)], dtype="int32")
