"""Calibration: what is seen, and which threshold is the best."""

import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.quantization.methods import RANGES, Range
from explorer.tuning.calibration import calibrate, observe, thresholds_of
from explorer.tuning.refining import Noise
from explorer.tuning.simulation import Simulator, simulated_program

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


def test_the_best_thresholds_are_no_worse_together_than_those_of_any_method(model, observed):
    """By what `best` measures: outputs of the network with all tensors quantized."""
    found = {}
    with Simulator(simulated_program(model), workers=1) as simulator:
        noise = Noise(simulator, observed.kept)
        for method in (*RANGES, "best"):
            table = thresholds_of(observed, method).thresholds
            found[method] = noise.of({n: Range(t.low, t.high) for n, t in table.items()}).noise
    assert found.pop("best") <= min(found.values()) * (1 + 1e-9)


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
