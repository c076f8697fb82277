"""Functions of ONNX that no other program computes in float64: formulas against NumPy, and the
verdicts that rest on them."""

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.importers.onnx.file.reading import from_proto
from explorer.references.onnx_float64 import evaluate_exactly

GROUPS = """<ir_version: 9, opset_import: ["" : {opset}]>
g (float[2,4,5] x, float[{size}] scale, float[{size}] bias) => (float[2,4,5] y) {{
  y = GroupNormalization <num_groups = 2> (x, scale, bias)
}}"""
MEAN_VARIANCE = """<ir_version: 9, opset_import: ["" : 17]>
g (float[2,3,4,4] x) => (float[2,3,4,4] y) { y = MeanVarianceNormalization (x) }"""


def standardized(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    wide = x.astype(np.float64)
    variance = wide.var(axes, keepdims=True)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(variance + epsilon)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("mean", [0.0, 3e3, 1e8])
def test_group_normalization_does_not_cancel(opset, mean):
    numbers = np.random.default_rng(0)
    size = 2 if opset == 18 else 4
    model = onnx.parser.parse_model(GROUPS.format(opset=opset, size=size))
    x = (numbers.standard_normal((2, 4, 5)) * (1 + mean / 100) + mean).astype(np.float32)
    scale, bias = numbers.standard_normal((2, size)).astype(np.float32)
    (found,) = evaluate_exactly(model.graph.node[0], model, [x, scale, bias])
    y = standardized(x.reshape(2, 2, 10), (2,), 1e-5).reshape(x.shape)
    each = (np.repeat(a.astype(np.float64), 4 // size)[:, None] for a in (scale, bias))
    factor, shift = each
    np.testing.assert_allclose(found, y * factor + shift, rtol=0, atol=1e-9)


@pytest.mark.parametrize("mean", [0.0, 1e8])
def test_mean_variance_normalization_does_not_cancel(mean):
    model = onnx.parser.parse_model(MEAN_VARIANCE)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 4)) * (1 + mean / 100) + mean
    x = x.astype(np.float32)
    (found,) = evaluate_exactly(model.graph.node[0], model, [x])
    np.testing.assert_allclose(found, standardized(x, (0, 2, 3), 0), rtol=0, atol=1e-8)


def test_equal_elements_become_zeros():
    model = onnx.parser.parse_model(MEAN_VARIANCE)
    (found,) = evaluate_exactly(model.graph.node[0], model, [np.full((2, 3, 4, 4), 7, np.float32)])
    assert not found.any()


def test_a_group_far_from_zero_is_right_where_the_reference_cancels():
    """onnxruntime has NaN or numbers of the order of 1,000 there."""
    model = from_proto(onnx.parser.parse_model(GROUPS.format(opset=21, size=4)))
    x = np.random.default_rng(1).standard_normal((2, 4, 5)) + 3000
    inputs = {"x": x, "scale": np.ones(4), "bias": np.zeros(4)}
    compiled = explorer.compile(model)
    assert compiled.accuracy({n: a.astype(np.float32) for n, a in inputs.items()}).passed
