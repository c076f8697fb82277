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


@dataclass(frozen=True, kw_only=True)
class Invalid:
    """A node over inputs and weights, and words of the message that refuses it."""

    operator: str
    inputs: Mapping[str, np.ndarray]
    weights: Mapping[str, np.ndarray]
    words: str
    attributes: Mapping[str, object] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 18


INVALID = {
    "bias too short": Invalid(
        operator="Conv", inputs=IMAGE, weights={**FILTERS, "b": floats(3)}, words="the bias is 3"
    ),
    "bias too long": Invalid(
        operator="ConvTranspose",
        inputs=IMAGE,
        weights={**TURNED, "b": floats(12)},
        words="the bias is 12",
    ),
    "bias of two dimensions": Invalid(
        operator="Conv", inputs=IMAGE, weights={**FILTERS, "b": floats(8, 1)}, words="is 8x1"
    ),
    "bias as an input": Invalid(
        operator="Conv",
        inputs={**IMAGE, "w": floats(8, 3, 3, 3), "b": floats(3)},
        weights={},
        words="3",
    ),
    "kernel_shape": Invalid(
        operator="Conv",
        inputs=IMAGE,
        weights=FILTERS,
        words="[9, 9]",
        attributes={"kernel_shape": [9, 9]},
    ),
    "transposed kernel_shape": Invalid(
        operator="ConvTranspose",
        inputs=IMAGE,
        weights=TURNED,
        words="[9, 9]",
        attributes={"kernel_shape": [9, 9]},
    ),
    "groups": Invalid(
        operator="Conv",
        inputs=IMAGE,
        weights={"w": floats(8, 1, 3, 3)},
        words="3 groups",
        attributes={"group": 3},
    ),
    "negative part": Invalid(
        operator="Split",
        inputs={"x": floats(4)},
        weights={"s": whole(-1, 5)},
        words="[-1, 5]",
        attributes={},
        outputs=2,
    ),
    "more parts than outputs": Invalid(
        operator="Split",
        inputs={"x": floats(4)},
        weights={"s": whole(2, 2)},
        words="for 1",
        attributes={},
    ),
    "more outputs than parts": Invalid(
        operator="Split",
        inputs={"x": floats(4)},
        weights={},
        words="num_outputs",
        attributes={"num_outputs": 2**40},
        outputs=2,
    ),
    "inputs beyond the schema": Invalid(
        operator="Relu",
        inputs={f"x{i}": floats(2) for i in range(100)},
        weights={},
        words="100 inputs; it takes 1",
    ),
    "outputs beyond the schema": Invalid(
        operator="Relu",
        inputs={"x": floats(2)},
        weights={},
        words="51 outputs",
        attributes={},
        outputs=51,
    ),
    "inputs that are missing": Invalid(
        operator="Add", inputs={"x": floats(2)}, weights={}, words="1 inputs; it takes 2"
    ),
    "two types": Invalid(
        operator="MatMul",
        inputs={"x": floats(2, 2), "y": np.ones((2, 2), np.float16)},
        weights={},
        words="operands 0 (float32) and 1 (float16)",
    ),
    "hidden size": Invalid(
        operator="LSTM",
        inputs=LAYER,
        weights=LSTM,
        words="hidden_size is 1099511627776",
        attributes={"hidden_size": 2**40},
    ),
    "negative hidden size": Invalid(
        operator="GRU",
        inputs=LAYER,
        weights=GRU,
        words="hidden_size is -1",
        attributes={"hidden_size": -1},
    ),
    "layer's bias": Invalid(
        operator="LSTM",
        inputs=LAYER,
        weights={**LSTM, "b": floats(1, 31)},
        words="operand 3 is 1x31",
        attributes={"hidden_size": 4},
    ),
    "directions": Invalid(
        operator="GRU",
        inputs=LAYER,
        weights=GRU,
        words="'bidirectional'",
        attributes={"hidden_size": 4, "direction": "bidirectional"},
    ),
    "pads that cut too much": Invalid(
        operator="Pad", inputs=ROWS, weights={"p": whole(0, -3, 0, -2)}, words="pads -3 and -2"
    ),
    "pads of a pool": Invalid(
        operator="MaxPool",
        inputs=IMAGE,
        weights={},
        words="lies in the padding",
        attributes={"kernel_shape": [2, 2], "pads": [2, 2, 2, 2]},
    ),
    "gather": Invalid(
        operator="Gather", inputs=ROWS, weights={"i": whole(0, 99)}, words="index 99 at [1]"
    ),
    "gather before the first": Invalid(
        operator="Gather", inputs=ROWS, weights={"i": whole(-5)}, words="index -5 at [0]"
    ),
    "gather elements": Invalid(
        operator="GatherElements", inputs=ROWS, weights={"i": whole(0, 4)[None]}, words="at [0, 1]"
    ),
    "gather at coordinates": Invalid(
        operator="GatherND", inputs=ROWS, weights={"i": whole(0, 7)[None]}, words="axis 1"
    ),
    "root mean square": Invalid(
        operator="RMSNormalization",
        inputs=ROWS,
        weights={"s": floats(4)},
        words="axis 2 of a tensor with 2 dimensions",
        attributes={"axis": 2},
        opset=23,
    ),
    "scatter": Invalid(
        operator="ScatterElements",
        inputs=ROWS,
        weights={"i": whole(9)[None], "u": floats(1, 1)},
        words="9",
    ),
    "scatter at coordinates": Invalid(
        operator="ScatterND",
        inputs=ROWS,
        weights={"i": whole(4)[None], "u": floats(1, 4)},
        words="4",
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
    model = make_model([node], invalid.inputs, invalid.weights, invalid.opset)
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
