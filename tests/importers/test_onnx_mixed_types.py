"""Operators that take operands of several element types, whose function body takes one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

from explorer.onnx_backend import Representation

HEADER = '<ir_version: 10, opset_import: ["" : 24]>'
RANDOM = np.random.default_rng(0)
TOLERANCES = {"float16": 2e-3, "float": 2e-5, "double": 2e-5}


def run(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    model = onnx.parser.parse_model(f"{HEADER} {text}")
    names = [value.name for value in model.graph.input]
    arrays = dict(zip(names, inputs, strict=True))
    return list(Representation(model, "INTERPRETER", lambda _: None).run(arrays))


def dtype_of(name: str) -> np.dtype:
    number = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name.upper()))
    return np.dtype(number)


@pytest.mark.parametrize(
    ("x_type", "scale_type"),
    [("float", "float16"), ("float16", "float"), ("double", "float"), ("float16", "double")],
)
def test_rms_normalization_has_the_type_of_its_scale(x_type: str, scale_type: str):
    x = (RANDOM.standard_normal((3, 5)) * 30).astype(dtype_of(x_type))
    scale = RANDOM.standard_normal(5).astype(dtype_of(scale_type))
    text = f"""g ({x_type}[3,5] x, {scale_type}[5] s) => ({scale_type}[3,5] y) {{
      y = RMSNormalization (x, s)
    }}"""
    (found,) = run(text, x, scale)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * scale
    assert found.dtype == scale.dtype
    np.testing.assert_allclose(found, expected, TOLERANCES[scale_type])


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """softmax(q k^T / sqrt(size)) v in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(
    ("key", "value"), [("float", "double"), ("float16", "float"), ("double", "float16")]
)
def test_attention_takes_values_of_another_type(key: str, value: str):
    q, k = (RANDOM.standard_normal((1, 2, 3, 4)).astype(dtype_of(key)) for _ in range(2))
    v = RANDOM.standard_normal((1, 2, 3, 4)).astype(dtype_of(value))
    text = f"""g ({key}[1,2,3,4] q, {key}[1,2,3,4] k, {value}[1,2,3,4] v)
      => ({key}[1,2,3,4] y, {key}[1,2,3,4] keys, {value}[1,2,3,4] values) {{
      y, keys, values = Attention (q, k, v)
    }}"""
    y, keys, values = run(text, q, k, v)
    assert y.dtype == q.dtype
    np.testing.assert_allclose(y, attended(q, k, v), TOLERANCES[key], TOLERANCES[key])
    for found, given in ((keys, k), (values, v)):
        assert found.dtype == given.dtype
        np.testing.assert_array_equal(found, given)


@pytest.mark.parametrize("size", [2, 7])
def test_a_crop_takes_sizes_of_int32(size: int):
    x = np.arange(15, dtype=np.int16).reshape(5, 3)
    text = (
        "g (int16[5,3] x, int32[1] s) => (int16[n,3] y) { y = CenterCropPad <axes = [0]> (x, s) }"
    )
    (found,) = run(text, x, np.array([size], np.int32))
    expected = x[1:3] if size == 2 else np.pad(x, [(1, 1), (0, 0)])
    np.testing.assert_array_equal(found, expected)


def test_statistics_of_doubles_keep_their_range():
    """The mean and the deviation overflow as float32; their inverse is 0, and no NaN."""
    x = np.array([[1e300, -1e300, 3e299]])
    text = """g (double[1,3] x, double[3] s) => (double[1,3] y, float[1,1] m, float[1,1] d) {
      y, m, d = LayerNormalization (x, s)
    }"""
    _, mean, inverse = run(text, x, np.ones(3))
    assert np.isposinf(mean).all()
    np.testing.assert_array_equal(inverse, 0)


def test_a_result_without_a_type_of_numpy_is_rounded_once():
    scale = np.array([1 + 2**-9], np.float32)
    text = """g (float[1] x, float[1] s) => (float[1] y) {
      b = Cast <to = 16> (s)
      z = RMSNormalization <epsilon = 0.0> (x, b)
      y = Cast <to = 1> (z)
    }"""
    (found,) = run(text, np.array([3], np.float32), scale)
    np.testing.assert_array_equal(found, scale.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("to", ["int16", "int64", "uint8"])
def test_a_mask_of_whole_numbers_is_added_to_the_scores(to: str):
    q, k, v = (RANDOM.standard_normal((1, 1, 3, 4)).astype(np.float32) for _ in range(3))
    mask = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 0]], to)
    text = f"""g (float[1,1,3,4] q, float[1,1,3,4] k, float[1,1,3,4] v, {to}[3,3] m)
      => (float[1,1,3,4] y) {{ y = Attention <is_causal = 1> (q, k, v, m) }}"""
    (found,) = run(text, q, k, v, mask)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / 2 + mask
    scores = np.where(np.tri(3, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(found, expected, 2e-5, 2e-6)


def test_weights_of_a_loss_may_add_up_beyond_half_precision():
    x = np.array([[-500, 100], [300, 20], [7, 90]], np.float16)
    weights = np.array([40000, 50000], np.float16)
    text = """g (float16[3,2] x, int64[3] t, float16[2] w) => (float16 y) {
      y = NegativeLogLikelihoodLoss (x, t, w)
    }"""
    target = np.array([0, 1, 1])
    (found,) = run(text, x, target, weights)
    wide = weights.astype(np.float64)[target]
    expected = -(x[np.arange(3), target].astype(np.float64) * wide).sum() / wide.sum()
    np.testing.assert_allclose(found, expected, 1e-3)
