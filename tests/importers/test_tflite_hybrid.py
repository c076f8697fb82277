"""Hybrid convolutions of TFLite: floats become bytes by their range, multiplied in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

import explorer as ex
from explorer.compilation import Compilation
from explorer.importers.tflite.file.reading import read
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.types import layout_of
from verification.conformance.tflite.models import TensorOf, one_operator

CHANNELS, FILTERS = 20, 12
"""Neither is a whole number of blocks."""
RANDOM = np.random.default_rng(3)
WEIGHT = RANDOM.integers(-127, 128, (FILTERS, 3, 3, CHANNELS)).astype(np.int8)
BIAS = RANDOM.standard_normal(FILTERS).astype(np.float32)
X = RANDOM.standard_normal((1, 6, 7, CHANNELS)).astype(np.float32)


@pytest.fixture(scope="module")
def compiled() -> Iterator[Compilation]:
    content = one_operator(
        "CONV_2D",
        [
            TensorOf(name="x", shape=X.shape),
            TensorOf(
                name="w", shape=WEIGHT.shape, element_type="int8", scales=(0.01,), data=WEIGHT
            ),
            TensorOf(name="b", shape=BIAS.shape, data=BIAS),
        ],
        [TensorOf(name="y", shape=(1, 6, 7, FILTERS))],
        "Conv2DOptions",
        {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1},
    )
    with closing(ex.compile(read(memoryview(content), "net"))) as compilation:
        yield compilation


def test_it_is_computed_in_blocks_of_channels(compiled: Compilation):
    after = compiled["assign-layouts"].after.module
    (product,) = [op for op in after.walk() if isinstance(op, ConvOp)]
    assert product.multiplies_bytes or product.splits_signs  # the latter where AVX2 is all there is
    assert layout_of(product.output).block


def test_it_gives_what_its_integers_are_scaled_by(compiled: Compilation):
    """Padding is zero, as the bytes of which it is beside have no zero point."""
    scale = np.abs(X).max() / 127
    stored = np.pad(np.rint(X / scale), [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(stored, (3, 3), axis=(1, 2))
    sums = np.einsum("nijcpq,opqc->nijo", windows, WEIGHT.astype(np.float64))
    expected = np.maximum(sums * scale * 0.01 + BIAS, 0)
    np.testing.assert_allclose(compiled.run({"x": X})["y"], expected, rtol=1e-4, atol=1e-4)
