"""A digit and its quantized network, compiled once for each target."""

import functools

import numpy as np
import pytest

import explorer


@pytest.fixture(scope="package")
def digits(sample_models):
    """digits_cnn, its table of thresholds, and a digit."""
    model = sample_models / "digits_cnn.onnx"
    images = np.load(sample_models / "digits_test.npz")["images"]
    table = explorer.calibrate(model, {"image": images[:20]}, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    return model, table, {"image": images[200:201]}


@pytest.fixture(scope="package")
def compiled(digits):
    """The network for a target, by its name."""

    @functools.cache
    def of(target):
        return explorer.compile(digits[0], target, quantization=digits[1])

    yield of
    of.cache_clear()
