"""Numbers and pictures of weights: by NumPy, on arrays that are made to break them."""

import base64

import ml_dtypes
import numpy as np
import pytest

from explorer.results.encoding import from_json, to_json
from explorer.results.weights import MAX_COLUMNS, MAX_ROWS, MAX_TENSORS, WeightsRecord, WeightTensor


def record_of(array: np.ndarray) -> WeightTensor:
    (tensor,) = WeightsRecord.of([("w", "conv1", array)]).tensors
    return tensor


def pixels_of(tensor: WeightTensor) -> np.ndarray:
    return np.frombuffer(base64.b64decode(tensor.pixels), np.uint8).reshape(tensor.picture)


@pytest.mark.parametrize(
    "array",
    [
        np.linspace(-1, 2, 24, dtype=np.float32).reshape(2, 3, 4),
        np.array([np.inf, -np.inf, np.nan, 1, -3], np.float32),
        np.full(7, np.nan, np.float32),
        np.array([3e38, -3e38, 3e38], np.float32),
        np.array([1e308, -1e308], np.float64),
        np.array([1e-45, 0, -0.0, -1e-45], np.float32),
        np.array([[-128, 127], [0, 0]], np.int8),
        np.array([2**63 - 1, -(2**63)], np.int64),
        np.array([True, False, True]),
        np.array([0.5, -448, 448], ml_dtypes.float8_e4m3fn),
        np.array([[1, -2], [3, 0]], ml_dtypes.bfloat16),
        np.array([-8, 7, 0], ml_dtypes.int4),
        np.full((3, 5), 2.5, np.float32),
    ],
    ids=lambda array: f"{array.dtype}-{array.size}",
)
def test_numbers_are_those_of_numpy(array: np.ndarray):
    tensor = record_of(array)
    exact = array.astype(np.float64).reshape(-1)
    finite = exact[np.isfinite(exact)]
    assert tensor.not_finite == exact.size - finite.size
    assert sum(tensor.counts) == max(finite.size, 1)
    assert tensor.zeros == np.mean(exact == 0)
    if finite.size:
        scale = np.abs(finite).max() or 1.0
        assert (tensor.low, tensor.high) == (finite.min(), finite.max())
        assert np.isclose(tensor.mean / scale, np.mean(finite / scale), atol=1e-12)
        assert np.isclose(tensor.deviation / scale, np.std(finite / scale), atol=1e-12)
    record = WeightsRecord(tensors=(tensor,), left_out=0)
    assert from_json(WeightsRecord, to_json(record)) == record


def test_a_picture_keeps_places_signs_and_outliers():
    small = record_of(np.array([[1, -2, 0], [0.5, 0, 2]], np.float32))
    assert pixels_of(small).tolist() == [[192, 1, 128], [160, 128, 255]]
    large = np.zeros((100, 40, 3, 3), np.float32)
    large[57, 20, 1, 1] = -9
    pixels = pixels_of(record_of(large))
    assert pixels.shape == (MAX_ROWS, MAX_COLUMNS)
    assert np.argwhere(pixels == 1).tolist() == [[57 * MAX_ROWS // 100, 184 * MAX_COLUMNS // 360]]


def test_text_and_single_numbers_are_passed_over_and_the_rest_is_counted():
    arrays = [np.array(["a", "b"]), np.ones(1), np.ones(0), np.array([1j, 2])]
    arrays += [np.arange(2.0)] * (MAX_TENSORS + 3)
    record = WeightsRecord.of((f"w{i}", "op", array) for i, array in enumerate(arrays))
    assert len(record.tensors) == MAX_TENSORS and record.left_out == 3
    assert record.tensors[0].name == "w4"


def test_a_large_weight_is_sampled_over_its_whole_length():
    array = np.zeros(3 << 20, np.float32)
    array[0], array[-3] = -1, 1
    tensor = record_of(array)
    assert (tensor.low, tensor.high, sum(tensor.counts)) == (-1, 1, 1 << 20)
