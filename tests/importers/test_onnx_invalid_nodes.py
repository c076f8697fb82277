"""Models that onnxruntime refuses for their operands are refused, with the node's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from explorer.errors import ModelError, UnsupportedError
from explorer.importers.onnx import from_proto, to_top


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


IMAGE = {"x": floats(1, 3, 8, 8)}
FILTERS = {"w": floats(8, 3, 3, 3)}
TURNED = {"w": floats(3, 8, 3, 3)}
ROWS = {"x": floats(4, 4)}
LAYER = {"x": floats(5, 2, 3)}
LSTM = {"w": floats(1, 16, 3), "r": floats(1, 16, 4)}
GRU = {"w": floats(1, 12, 3), "r": floats(1, 12, 4)}


@dataclass(frozen=True)
class Invalid:
    """A node over inputs and weights, and words of the message that refuses it."""

    operator: str
    inputs: Mapping[str, np.ndarray]
    weights: Mapping[str, np.ndarray]
    words: str
    attributes: Mapping[str, object] = field(default_factory=dict)
    outputs: int = 1


INVALID = {
    "bias too short": Invalid("Conv", IMAGE, {**FILTERS, "b": floats(3)}, "the bias is 3"),
    "bias too long": Invalid("ConvTranspose", IMAGE, {**TURNED, "b": floats(12)}, "the bias is 12"),
    "bias of two dimensions": Invalid("Conv", IMAGE, {**FILTERS, "b": floats(8, 1)}, "is 8x1"),
    "bias as an input": Invalid(
        "Conv", {**IMAGE, "w": floats(8, 3, 3, 3), "b": floats(3)}, {}, "3"
    ),
    "kernel_shape": Invalid("Conv", IMAGE, FILTERS, "[9, 9]", {"kernel_shape": [9, 9]}),
    "transposed kernel_shape": Invalid(
        "ConvTranspose", IMAGE, TURNED, "[9, 9]", {"kernel_shape": [9, 9]}
    ),
    "groups": Invalid("Conv", IMAGE, {"w": floats(8, 1, 3, 3)}, "3 groups", {"group": 3}),
    "negative part": Invalid("Split", {"x": floats(4)}, {"s": whole(-1, 5)}, "[-1, 5]", {}, 2),
    "more parts than outputs": Invalid("Split", {"x": floats(4)}, {"s": whole(2, 2)}, "for 1", {}),
    "more outputs than parts": Invalid(
        "Split", {"x": floats(4)}, {}, "num_outputs", {"num_outputs": 2**40}, 2
    ),
    "inputs beyond the schema": Invalid(
        "Relu", {f"x{i}": floats(2) for i in range(100)}, {}, "100 inputs; it takes 1"
    ),
    "outputs beyond the schema": Invalid("Relu", {"x": floats(2)}, {}, "51 outputs", {}, 51),
    "inputs that are missing": Invalid("Add", {"x": floats(2)}, {}, "1 inputs; it takes 2"),
    "two types": Invalid(
        "MatMul",
        {"x": floats(2, 2), "y": np.ones((2, 2), np.float16)},
        {},
        "operands 0 (float32) and 1 (float16)",
    ),
    "hidden size": Invalid(
        "LSTM", LAYER, LSTM, "hidden_size is 1099511627776", {"hidden_size": 2**40}
    ),
    "negative hidden size": Invalid("GRU", LAYER, GRU, "hidden_size is -1", {"hidden_size": -1}),
    "layer's bias": Invalid(
        "LSTM", LAYER, {**LSTM, "b": floats(1, 31)}, "operand 3 is 1x31", {"hidden_size": 4}
    ),
    "directions": Invalid(
        "GRU", LAYER, GRU, "'bidirectional'", {"hidden_size": 4, "direction": "bidirectional"}
    ),
    "pads that cut too much": Invalid("Pad", ROWS, {"p": whole(0, -3, 0, -2)}, "pads -3 and -2"),
    "pads of a pool": Invalid(
        "MaxPool",
        IMAGE,
        {},
        "lies in the padding",
        {"kernel_shape": [2, 2], "pads": [2, 2, 2, 2]},
    ),
    "gather": Invalid("Gather", ROWS, {"i": whole(0, 99)}, "index 99 at [1]"),
    "gather before the first": Invalid("Gather", ROWS, {"i": whole(-5)}, "index -5 at [0]"),
    "gather elements": Invalid("GatherElements", ROWS, {"i": whole(0, 4)[None]}, "at [0, 1]"),
    "gather at coordinates": Invalid("GatherND", ROWS, {"i": whole(0, 7)[None]}, "axis 1"),
    "scatter": Invalid("ScatterElements", ROWS, {"i": whole(9)[None], "u": floats(1, 1)}, "9"),
    "scatter at coordinates": Invalid(
        "ScatterND", ROWS, {"i": whole(4)[None], "u": floats(1, 4)}, "4"
    ),
}


@pytest.mark.parametrize("invalid", INVALID.values(), ids=INVALID.keys())
def test_what_onnxruntime_refuses_is_refused_by_name(
    invalid: Invalid, make_model: Callable
) -> None:
    names = [*invalid.inputs, *invalid.weights]
    results = [f"out{i}" for i in range(invalid.outputs)]
    node = helper.make_node(
        invalid.operator, names, results, name="culprit", **dict(invalid.attributes)
    )
    model = make_model([node], invalid.inputs, invalid.weights, 18)
    with pytest.raises((ModelError, UnsupportedError)) as caught:
        to_top(from_proto(model))
    assert caught.value.node == "culprit"
    assert invalid.words in caught.value.message
    assert caught.value.hint
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        onnxruntime.InferenceSession(model.SerializeToString(), options).run(
            None, dict(invalid.inputs)
        )
