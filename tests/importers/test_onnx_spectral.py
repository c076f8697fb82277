"""Fourier transforms longer than one matrix, and signals of two dimensions, against NumPy."""

import numpy as np
import pytest
from onnx import helper

from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

# Of the largest bin: float32 sums of up to 256 products, twice.
TOLERANCE = 2e-6


def signal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def transformed(make_model, snapshot, x, points=None, **attributes):
    weights = {"axis": np.array(1)} | ({} if points is None else {"points": np.array(points)})
    names = ["x", "" if points is None else "points", "axis"]
    node = helper.make_node("DFT", names, ["y"], name="n", **attributes)
    program = snapshot(from_proto(make_model([node], {"x": x}, weights, 20)))
    (y,) = outputs_by_name(program.module, program.run({"x": x})).values()
    return y


def assert_close(found, expected):
    parts = np.stack([expected.real, expected.imag], axis=-1)[..., : found.shape[-1]]
    assert found.shape == parts.shape
    assert np.abs(found - parts).max() <= TOLERANCE * np.abs(parts).max()


def numbers(x):
    wide = x.astype(np.float64)
    return wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0]


# Powers, other factors, and a prime number of a thousand as one of them.
@pytest.mark.parametrize("points", [4096, 3000, 2054])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("parts", [1, 2])
def test_long_transforms(make_model, snapshot, parts, inverse, points):
    x = signal(2, points, parts)
    y = transformed(make_model, snapshot, x, inverse=inverse)
    assert_close(y, (np.fft.ifft if inverse else np.fft.fft)(numbers(x)))


@pytest.mark.parametrize("size", [5000, 2500, 3000])
def test_signals_are_filled_up_or_cut_off(make_model, snapshot, size):
    x = signal(1, size, 1)
    y = transformed(make_model, snapshot, x, points=3000, onesided=1)
    assert_close(y, np.fft.rfft(numbers(x), 3000))


@pytest.mark.parametrize(("bins", "points"), [(1501, 3000), (1502, 3003), (1200, 3000)])
def test_a_real_signal_is_made_of_one_side(make_model, snapshot, bins, points):
    x = signal(1, bins, 2)
    y = transformed(make_model, snapshot, x, points=points, onesided=1, inverse=1)
    assert_close(y, np.fft.irfft(numbers(x), points))


def test_a_large_prime_number_of_points_is_refused_by_name(make_model, snapshot):
    with pytest.raises(UnsupportedError, match="2053 points, a prime number above 2048"):
        transformed(make_model, snapshot, signal(1, 2053, 1))


@pytest.mark.parametrize("shape", [(2, 64), (2, 64, 1)])
@pytest.mark.parametrize("has_window", [True, False])
def test_frames_of_signals_with_and_without_parts(make_model, compare, shape, has_window):
    weights = {"step": np.array(8), "window": np.hanning(16).astype(np.float32)}
    names = ["x", "step", "window"]
    if not has_window:
        names = ["x", "step", "", "length"]
        weights = {"step": np.array(8), "length": np.array(16)}
    node = helper.make_node("STFT", names, ["y"], name="n")
    inputs = {"x": signal(*shape)}
    assert compare(from_proto(make_model([node], inputs, weights, 17)), inputs) <= TOLERANCE


def test_windows_longer_than_one_matrix(make_model, compare):
    weights = {"step": np.array(1000), "window": np.hanning(4096).astype(np.float32)}
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"], name="n")
    inputs = {"x": signal(1, 9000)}
    assert compare(from_proto(make_model([node], inputs, weights, 17)), inputs) <= TOLERANCE
