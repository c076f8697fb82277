"""Quantized networks, compiled once for each target: of a digit, and with residual sums."""

import functools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from chains import chain, measured

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


@pytest.fixture(scope="package")
def residual(tmp_path_factory):
    """By target and decisions what came of a network with residual sums."""
    model = chain(tmp_path_factory.mktemp("chain"), count=3)
    known = {}

    def of(target, **decisions):
        key = target, tuple(decisions.items())
        if key not in known:
            known[key] = measured(model, target, **decisions)
        return known[key]

    return of
