"""What calibration and a model's own quantization tell of its inputs."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import explorer
from explorer.accuracy.drawing import KnownValues, how_drawn
from explorer.importers.samples import sample
from explorer.quantization.table import Threshold, ThresholdTable
from explorer.results.data import CALIBRATED, OBSERVED, QUANTIZED, DataRecord
from explorer.results.runs.quantization import ObservedTensor, ValueHistogram

OTHERS = ("/stage1/relu1", "/stage1/relu2", "/stage2/relu1", "/classifier/relu1")
TABLE = {
    "image": Threshold("image", 16.0, 0.0, 16.0),
    **{name: Threshold(name, 30.0, 0.0, 30.0) for name in (f"{o}_output" for o in OTHERS)},
}


def test_a_quantized_network_is_judged_within_the_calibrated_range():
    c = explorer.compile(sample("digits_cnn"), quantization=ThresholdTable(TABLE))
    assert c.known == {"image": KnownValues(CALIBRATED, 0.0, 16.0)}
    image = c.example_inputs()["image"]
    assert 0 <= image.min() < image.max() <= 16
    drawn = DataRecord(drawn=how_drawn(c.model, c.known))
    assert str(drawn) == "seeded noise, within calibrated ranges"
    assert not drawn.is_noise


def test_the_observed_histogram_tells_more_than_the_range():
    histogram = ValueHistogram(start=0.0, width=8.0, counts=(9, 1), low=0.0, high=15.5, zeros=3)
    table = ThresholdTable(
        TABLE, observations={"image": ObservedTensor(histogram=histogram, candidates=())}
    )
    c = explorer.compile(sample("digits_cnn"), quantization=table)
    assert c.known == {"image": KnownValues(OBSERVED, 0.0, 16.0, (9, 1), (0.0, 15.5))}


def test_the_first_quantization_of_a_model_tells_the_range(tmp_path: Path):
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [
            numpy_helper.from_array(np.array(0.5, np.float32), "s"),
            numpy_helper.from_array(np.array(10, np.uint8), "z"),
        ],
    )
    path = tmp_path / "q.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    assert explorer.compile(path).known == {"x": KnownValues(QUANTIZED, -5.0, 122.5)}


def test_nothing_is_known_of_a_float_model():
    assert explorer.compile(sample("digits_mlp")).known == {}
