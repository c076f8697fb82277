"""Calibration: what is seen, and which threshold is the best."""

import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.quantization.methods import RANGES, Range
from explorer.tuning.calibration import calibrate, observe, thresholds_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

PRODUCT = """
product (float[1,6] x) => (float[1,3] y)
<float[6,4] w1, float[4,3] w2> {
  p = MatMul (x, w1)
  r = Relu (p)
  y = MatMul (r, w2)
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return source_model(tmp_path_factory.mktemp("model"), PRODUCT)


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)}


@pytest.fixture(scope="module")
def observed(model, data):
    return observe(model, data)


def weights(model, name):
    import onnx
    from onnx import numpy_helper

    found = {i.name: i for i in onnx.load(model.path).graph.initializer}
    return numpy_helper.to_array(found[name]).astype(np.float64)


def test_every_tensor_was_seen_in_all_examples(model, observed, data):
    assert observed.tensors == ("x", "r")
    assert observed.histograms["x"].count == data["x"].size
    relu = np.maximum(data["x"] @ weights(model, "w1").astype(np.float32), 0)
    assert observed.histograms["r"].high == pytest.approx(relu.max(), rel=1e-5)
    assert observed.histograms["r"].zeros == np.sum(relu == 0)


def test_errors_are_those_of_what_reads_the_tensor(model, observed, data):
    """Of r, a product: by hand, for the examples that are kept."""
    chosen = [Range(0.0, 0.5), Range(0.0, 2.0)]
    kept = np.maximum(data["x"][:8].astype(np.float64) @ weights(model, "w1"), 0)
    expected = []
    for bounds in chosen:
        step = bounds.high / 255
        rounded = np.clip(np.rint(kept / step), 0, 255) * step
        expected.append(np.mean(((rounded - kept) @ weights(model, "w2")) ** 2))
    assert observed.consumers.errors("r", chosen, 8) == pytest.approx(expected, rel=1e-3)


def test_the_best_threshold_is_no_worse_than_that_of_any_method(observed):
    table = thresholds_of(observed, "best")
    for name in observed.tensors:
        best = table.thresholds[name]
        others = [method(observed.histograms[name], 8) for method in RANGES.values()]
        errors = observed.consumers.errors(name, [Range(best.low, best.high), *others], 8)
        assert errors[0] <= min(errors[1:]) * (1 + 1e-9)


def test_batches_of_the_same_numbers_give_the_same_table(model, data):
    tables = [calibrate(model, {"x": array}, "kl") for array in (data["x"], data["x"][::-1])]
    assert tables[0].thresholds == tables[1].thresholds


def test_tensors_that_never_change_are_told(model):
    table = calibrate(model, {"x": np.zeros((2, 6), np.float32)}, "min-max")
    assert table.thresholds["r"].threshold > 0
    assert any("r was 0 in all examples" in warning for warning in table.warnings)


def test_a_method_that_there_is_not_is_refused(model, data):
    with pytest.raises(InputError, match="no method 'kll'"):
        calibrate(model, data, "kll")
