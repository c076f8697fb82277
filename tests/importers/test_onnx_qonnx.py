"""QONNX' operators under the domains in which they are written, against their definitions."""

import numpy as np
import pytest
from onnx import helper

from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

QONNX, CHANNELS_LAST = "qonnx.custom_op.general", "qonnx.custom_op.channels_last"
TIES = np.float32([5.5, 2.5, 1.6, 1.1, 1.0, 0.0, -0.4, -1.0, -1.1, -1.6, -2.5, -5.5])
X = np.random.default_rng(5).normal(0, 4, (2, 3, 4)).astype(np.float32)


def result(make_model, snapshot, operator, operands, domain=QONNX, **attributes):
    names = [f"x{i}" for i in range(len(operands))]
    arrays = dict(zip(names, (np.asarray(o, np.float32) for o in operands), strict=True))
    node = helper.make_node(operator, names, ["y"], name="n", domain=domain, **attributes)
    inputs = {"x0": arrays.pop("x0")}
    model = make_model([node], inputs, arrays, 11, [domain] if domain else [])
    program = snapshot(from_proto(model))
    (y,) = outputs_by_name(program.module, program.run(inputs)).values()
    return y


@pytest.mark.parametrize("domain", [QONNX, "finn.custom_op.general", "onnx.brevitas", ""])
@pytest.mark.parametrize(
    ("signed", "narrow", "low", "high"), [(1, 0, -4, 3), (1, 1, -3, 3), (0, 0, 0, 7), (0, 1, 0, 6)]
)
def test_three_bits(make_model, snapshot, domain, signed, narrow, low, high):
    scale, zero = np.float32([[[0.5], [1], [0.25]]]), np.float32(1)
    attributes = {"signed": signed, "narrow": narrow, "rounding_mode": "ROUND"}
    y = result(make_model, snapshot, "Quant", [X, scale, zero, 3], domain, **attributes)
    whole = np.rint(np.clip(X / scale + zero, low, high))
    np.testing.assert_array_equal(y, (whole - zero) * scale)


# The table of its documentation, with a column for every mode.
ROUNDED = {
    "ROUND": [6, 2, 2, 1, 1, 0, 0, -1, -1, -2, -2, -6],
    "HALF_EVEN": [6, 2, 2, 1, 1, 0, 0, -1, -1, -2, -2, -6],
    "CEIL": [6, 3, 2, 2, 1, 0, 0, -1, -1, -1, -2, -5],
    "floor": [5, 2, 1, 1, 1, 0, -1, -1, -2, -2, -3, -6],
    "UP": [6, 3, 2, 2, 1, 0, -1, -1, -2, -2, -3, -6],
    "DOWN": [5, 2, 1, 1, 1, 0, 0, -1, -1, -1, -2, -5],
    "HALF_UP": [6, 3, 2, 1, 1, 0, 0, -1, -1, -2, -3, -6],
    "HALF_DOWN": [5, 2, 2, 1, 1, 0, 0, -1, -1, -2, -2, -5],
}


@pytest.mark.parametrize("mode", ROUNDED)
def test_modes_of_rounding(make_model, snapshot, mode):
    operands = [TIES, 1, 0, 8]
    y = result(make_model, snapshot, "IntQuant", operands, rounding_mode=mode)
    np.testing.assert_array_equal(y, ROUNDED[mode])


def test_an_unknown_mode_is_refused_by_name(make_model, snapshot):
    with pytest.raises(UnsupportedError, match="rounding_mode 'STOCHASTIC'"):
        result(make_model, snapshot, "Quant", [TIES, 1, 0, 8], rounding_mode="stochastic")


def test_one_bit_is_a_sign(make_model, snapshot):
    signs = np.where(TIES >= 0, np.float32(0.5), np.float32(-0.5))
    quantized = result(make_model, snapshot, "Quant", [TIES, 0.5, 0, 1], "onnx.brevitas")
    np.testing.assert_array_equal(quantized, signs)
    bipolar = result(make_model, snapshot, "BipolarQuant", [TIES, 0.5], "finn.custom_op.general")
    np.testing.assert_array_equal(bipolar, signs)


@pytest.mark.parametrize("mode", ["FLOOR", "ROUND", "CEIL"])
def test_truncation_keeps_the_scale(make_model, snapshot, mode):
    """Version 1: ten bits become seven."""
    x = np.rint(X * 20) * np.float32(0.25)
    y = result(make_model, snapshot, "Trunc", [x, 0.25, 0, 10, 7], rounding_mode=mode)
    rounding = {"FLOOR": np.floor, "ROUND": np.rint, "CEIL": np.ceil}[mode]
    np.testing.assert_array_equal(y, rounding(np.rint(x / 0.25) / 8) * np.float32(0.25))


@pytest.mark.parametrize("has_zero_point", [True, False])
@pytest.mark.parametrize("narrow", [0, 1])
def test_truncation_to_a_scale_of_its_own(make_model, snapshot, narrow, has_zero_point):
    """Version 2: four times the scale, clipped to five bits."""
    x = np.rint(X * 20) * np.float32(0.25)
    own = [1.0, 4, 5] if has_zero_point else [1.0, 5]
    y = result(make_model, snapshot, "Trunc", [x, 0.25, 8, 10, *own], narrow=narrow)
    cut = np.floor(np.clip((np.rint(x / 0.25) + 8) / 4, -16 + narrow, 15))
    np.testing.assert_array_equal(y, cut - 8 / 4)


def channels_first(array):
    return np.moveaxis(array, -1, 1)


@pytest.mark.parametrize(
    ("operator", "others", "attributes"),
    [
        ("Conv", [(5, 3, 3, 3), (5,)], {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
        ("MaxPool", [], {"kernel_shape": [2, 3]}),
        ("AveragePool", [], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("BatchNormalization", [(3,)] * 4, {"epsilon": 1e-3}),
    ],
)
@pytest.mark.parametrize("version", [1, 13])
def test_channels_may_come_last(make_model, snapshot, version, operator, others, attributes):
    """The same as ONNX's operator with the channels moved to the front and back again."""
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 6, 7, 3)).astype(np.float32)
    weights = {f"w{i}": random.uniform(0.5, 1, s).astype(np.float32) for i, s in enumerate(others)}
    moved = {n: channels_first(w) if w.ndim == 4 else w for n, w in weights.items()}
    results = []
    for domain, inputs, arrays in ((CHANNELS_LAST, x, weights), ("", channels_first(x), moved)):
        names = ["x", *arrays]
        node = helper.make_node(operator, names, ["y"], name="n", domain=domain, **attributes)
        model = make_model([node], {"x": inputs}, arrays, 13, [domain] if domain else [])
        if domain:
            model.opset_import[1].version = version
        program = snapshot(from_proto(model))
        (y,) = outputs_by_name(program.module, program.run({"x": inputs})).values()
        results.append(y)
    np.testing.assert_array_equal(channels_first(results[0]), results[1])
