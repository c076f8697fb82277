"""Hybrid products of TFLite whose bytes have zero points, or filters scales of their own: equal to
LiteRT's reference kernels to the bit, interpreted and as C."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

import explorer as ex
from explorer.errors import ExplorerError
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from tests.importers.tflite_nodes import fixed, floats, random
from verification.conformance.tflite.models import TensorOf, one_operator

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

OUTPUTS = 12
WINDOW = {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1}
PICTURES = (2, 6, 7, OUTPUTS)


def weights(shape: tuple[int, ...], scales: int, axis: int = 0) -> TensorOf:
    generator = np.random.default_rng(scales)
    return TensorOf(
        name="w",
        shape=shape,
        element_type="int8",
        scales=generator.uniform(0.005, 0.02, scales).astype(np.float32).tolist(),
        zeros=[0] * scales,
        axis=axis,
        data=generator.integers(-127, 128, shape).astype(np.int8),
    )


def convolution(depth: int, scales: int) -> SourceModel:
    """Of 20 channels, by filters of `depth`."""
    operands = [
        floats("x", 2, 6, 7, 20),
        weights((OUTPUTS, 3, 3, depth), scales),
        fixed("b", random(1, OUTPUTS), "float32"),
    ]
    return model("CONV_2D", operands, PICTURES, "Conv2DOptions", WINDOW)


def depthwise(scales: int) -> SourceModel:
    operands = [
        floats("x", 2, 6, 7, 6),
        weights((1, 3, 3, OUTPUTS), scales, 3),
        fixed("b", random(1, OUTPUTS), "float32"),
    ]
    options = WINDOW | {"DepthMultiplier": 2}
    return model("DEPTHWISE_CONV_2D", operands, PICTURES, "DepthwiseConv2DOptions", options)


def dense(scales: int, has_zeros: bool, rows: int = 3) -> SourceModel:
    operands = [
        floats("x", rows, 40),
        weights((OUTPUTS, 40), scales),
        fixed("b", random(1, OUTPUTS), "float32"),
    ]
    options = {"AsymmetricQuantizeInputs": has_zeros}
    return model("FULLY_CONNECTED", operands, (rows, OUTPUTS), "FullyConnectedOptions", options)


def model(
    kind: str, operands: list[TensorOf], shape: tuple[int, ...], options: str, values: dict
) -> SourceModel:
    content = one_operator(kind, operands, [floats("y", *shape)], options, values)
    return read(memoryview(content), "net")


MODELS = {
    "filters with scales": lambda: convolution(20, OUTPUTS),
    "groups": lambda: convolution(10, OUTPUTS),
    "depthwise": lambda: depthwise(OUTPUTS),
    "matrix with scales": lambda: dense(OUTPUTS, False),
    "matrix with zero points": lambda: dense(1, True),
    "matrix with both": lambda: dense(OUTPUTS, True),
    "many rows": lambda: dense(1, True, rows=70),
}


def input_shape(net: SourceModel) -> list[int]:
    return [int(size) for size in net.inputs[0].shape or ()]


def answers(net: SourceModel, x: np.ndarray) -> list[np.ndarray]:
    """LiteRT's, the interpreter's and those of C."""
    meant = dict(reference_of(net).tensors(net, {"x": x}, ["y"]))["y"]
    with closing(ex.compile(net)) as compiled:
        return [meant, ex.interpret(net, {"x": x})["y"], compiled.run({"x": x})["y"]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", MODELS)
def test_it_is_litert_s_to_the_bit(form: str):
    net = MODELS[form]()
    x = random(7, *input_shape(net)) + np.float32(0.7)
    x[-1] = np.abs(x[-1])  # whose range begins at 0
    meant, interpreted, compiled = answers(net, x)
    np.testing.assert_array_equal(interpreted, meant)
    np.testing.assert_array_equal(compiled, meant)


@pytest.mark.parametrize("form", ["depthwise", "matrix with zero points"])
def test_zeros_leave_the_bias(form: str):
    net = MODELS[form]()
    meant, interpreted, compiled = answers(net, np.zeros(input_shape(net), np.float32))
    assert np.unique(meant).size > 1
    np.testing.assert_array_equal(interpreted, meant)
    np.testing.assert_array_equal(compiled, meant)


@pytest.mark.parametrize("make", [lambda: convolution(10, 1), lambda: depthwise(1)])
def test_one_scale_of_filters_in_groups_is_refused_as_litert_does(make):
    with pytest.raises(ExplorerError, match="in groups with one scale for all its filters"):
        ex.compile(make())
