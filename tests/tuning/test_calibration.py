"""Calibration: what is seen, and which threshold is the best."""

import sys
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.errors import InputError
from explorer.quantization.methods import RANGES, Range
from explorer.tuning import calibration
from explorer.tuning.calibration import calibrate, observe, thresholds_of
from explorer.tuning.calibration_state import State
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


WRITTEN_IN_OTHERS = {
    "one dimension": """
lifted (float[1,4,16] x) => (float[1,5] y)
<float[8,4,3] w1, float[112,5] w2> {
  p = Conv (x, w1)
  r = Flatten (p)
  y = MatMul (r, w2)
}
""",
    "phases": """
spread (float[1,4,5,7] x) => (float[1,5,10,13] y)
<float[4,8,2,2] w1, float[5,8,1,1] w2> {
  p = ConvTranspose <strides = [2, 2], pads = [0, 0, 0, 1]> (x, w1)
  y = Conv (p, w2)
}
""",
    "phases in another shape": """
spread (float[1,4,8,8] x) => (float[1,32,5] y)
<float[4,8,2,2] w1, float[64,5] w2, int64[3] sizes = {1, 32, 64}> {
  p = ConvTranspose <strides = [2, 2]> (x, w1)
  r = Reshape (p, sizes)
  y = MatMul (r, w2)
}
""",
}


@pytest.mark.parametrize("text", WRITTEN_IN_OTHERS.values(), ids=WRITTEN_IN_OTHERS)
def test_results_that_legalization_writes_in_other_operations_are_seen(text, tmp_path):
    """As intermediate results of the source, and the table makes an integer program of them."""
    model = source_model(tmp_path, text)
    random = np.random.default_rng(0)
    data = {"x": random.normal(size=(3, *model.inputs[0].shape[1:])).astype(np.float32)}
    seen = observe(model, data)
    assert "p" in seen.tensors
    expected = tensor_of(model, "p", data["x"])
    assert seen.histograms["p"].low == pytest.approx(expected.min(), rel=1e-4)
    assert seen.histograms["p"].high == pytest.approx(expected.max(), rel=1e-4)
    compiled = explorer.compile(model, quantization=calibrate(model, data, "min-max"))
    accuracy = compiled.accuracy({"x": data["x"][:1]})
    assert accuracy.passed and accuracy.report.bit_exact, accuracy.summary


def tensor_of(model, name, rows):
    """Of each row by itself, as onnx's reference computes it."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load(model.path)
    proto.graph.output.append(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    )
    session = ReferenceEvaluator(proto)
    return np.stack([session.run([name], {"x": row[None]})[0] for row in rows])


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


# -- interrupted -----------------------------------------------------------------------------------


class Killed(Exception):
    pass


def killed_at(number):
    """Progress that ends the calibration before an example."""

    def progress(what, at, total):
        if (what, at) == ("example", number):
            raise Killed

    return progress


@pytest.fixture
def always_kept(monkeypatch):
    """States are written after every example."""
    monkeypatch.setattr(calibration, "State", lambda path, key: State(path, key, seconds=0.0))


def test_a_calibration_goes_on_where_it_was_killed(model, data, observed, tmp_path, always_kept):
    state = tmp_path / "table.unfinished"
    with pytest.raises(Killed):
        observe(model, data, progress=killed_at(17), state=state)
    with pytest.raises(Killed):  # what was seen is not seen again
        observe(model, data, progress=killed_at(17), state=state)
    told = []
    again = observe(model, data, progress=lambda *what: told.append(what), state=state)
    assert [at for what, at, _ in told if what == "example"] == list(range(17, 40))
    for name, histogram in observed.histograms.items():
        assert np.array_equal(again.histograms[name].counts, histogram.counts)
    for method in RANGES:
        assert thresholds_of(again, method).digest == thresholds_of(observed, method).digest
    calibrate(model, data, "mse", state=state)
    assert not list(tmp_path.iterdir())


def test_a_state_of_other_data_is_begun_anew(model, data, tmp_path, always_kept):
    state = tmp_path / "table.unfinished"
    with pytest.raises(Killed):
        observe(model, data, progress=killed_at(17), state=state)
    other = {"x": data["x"] + 1}
    assert observe(model, other, state=state).histograms["x"].count == other["x"].size
    content = bytearray(state.read_bytes())
    content[-40] ^= 1  # a damaged one, too
    state.write_bytes(bytes(content))
    assert observe(model, other, state=state).histograms["x"].count == other["x"].size


def test_data_that_are_mapped_and_those_in_memory_give_one_table(model, data, tmp_path):
    stored, packed = tmp_path / "stored.npz", tmp_path / "packed.npz"
    np.savez(stored, x=np.asfortranarray(data["x"]))
    np.savez_compressed(packed, x=data["x"])
    expected = calibrate(model, data, "kl").digest
    assert [calibrate(model, path, "kl").digest for path in (stored, packed)] == [expected] * 2
