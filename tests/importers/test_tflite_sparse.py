"""Weights without their zeros are read with them."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.errors import ModelError
from explorer.importers.tflite.file.reading import read
from explorer.importers.tflite.file.sparse import Level, dense
from explorer.references.interface import reference_of
from verification.conformance.tflite.models import TensorOf, one_operator


def matrix(dtype: str) -> np.ndarray:
    generator = np.random.default_rng(1)
    values = generator.integers(-100, 101, (12, 16)).astype(dtype)
    values[generator.uniform(size=values.shape) < 0.7] = 0
    values[3] = 0  # a row of zeros
    return values


def test_products_with_sparse_weights_are_litert_s():
    pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")
    weights = matrix("float32")
    tensors = [TensorOf(name="x", shape=(5, 16)),
               TensorOf(name="w", shape=weights.shape, sparse=weights)]  # fmt: skip
    result = TensorOf(name="y", shape=(5, 12))
    content = one_operator("FULLY_CONNECTED", tensors, [result], "FullyConnectedOptions")
    model = read(memoryview(content), "sparse")
    x = np.random.default_rng(2).standard_normal((5, 16)).astype(np.float32)
    found = ex.interpret(model, {"x": x})["y"]
    expected = dict(reference_of(model).tensors(model, {"x": x}, ["y"]))["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(found, x @ weights.T, rtol=1e-5, atol=1e-3)


def test_blocks_are_axes_of_their_own():
    """4 x 4 in blocks of 2 x 2, of which the first row has the second, the second row both."""
    levels = [
        Level(0, 2),
        Level(1, 0, np.array([0, 1, 3]), np.array([1, 0, 1])),
        Level(2, 2),
        Level(3, 2),
    ]
    found = dense(np.arange(1, 13), (4, 4), levels, [0, 1], "w")
    assert found.tolist() == [[0, 0, 1, 2], [0, 0, 3, 4], [5, 6, 9, 10], [7, 8, 11, 12]]


@pytest.mark.parametrize(
    "level",
    [
        Level(1, 0, np.array([0, 2, 1]), np.array([0])),
        Level(1, 0, np.array([0, 1]), np.array([0])),
        Level(1, 0, np.array([0, 1, 2]), np.array([0, 4])),
        Level(1, 0, np.array([0, 1, 2]), np.array([0, -1])),
        Level(1, 1 << 40),
        Level(1, 2),
    ],
)
def test_levels_that_do_not_fit_are_refused(level: Level):
    with pytest.raises(ModelError, match="damaged"):
        dense(np.ones(2), (2, 2), [Level(0, 2), level], [], "w")


def test_a_short_file_cannot_ask_for_any_number_of_zeros():
    with pytest.raises(ModelError, match="elements"):
        dense(np.ones(1), (1 << 20, 1 << 20), [Level(0, 1), Level(1, 1)], [], "w")
