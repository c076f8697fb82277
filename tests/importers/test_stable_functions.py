"""Functions that cancel or overflow in their textbook form, on numbers that show it.

Judged by float64 NumPy, number by number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import explorer as ex
from explorer.importers.tflite.file.reading import read
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot
from tests.importers.pytorch_models import Program, ints, ref
from tests.importers.tflite_nodes import floats
from verification.conformance.tflite.models import TensorOf, one_operator

FAR = np.random.default_rng(5).normal(3000, 1, (2, 4, 5, 6))
"""Mean 3,000, deviation 1: E[x^2] - E[x]^2 has no digit left in f32."""
SCALE, SHIFT = np.linspace(0.5, 2, 4), np.linspace(-1, 1, 4)


def normalized(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)


def computed(snapshot: Snapshot, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(outputs_by_name(snapshot.module, snapshot.run(feeds)).values())


def group_norm(x: np.ndarray, opset: int) -> np.ndarray:
    rows = normalized(x.reshape(2, 2, -1), (2,))
    if opset < 21:
        return (rows * SCALE[:2, np.newaxis] + SHIFT[:2, np.newaxis]).reshape(x.shape)
    return rows.reshape(x.shape) * SCALE.reshape(-1, 1, 1) + SHIFT.reshape(-1, 1, 1)


# Rounding of the result, and of some sums and products on the way.
TOLERANCES = {np.float16: 6e-3, np.float32: 5e-6, np.float64: 1e-11}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization_far_from_zero(opset, dtype, make_model, snapshot, load_proto):
    count = 2 if opset < 21 else 4
    x, scale, shift = FAR.astype(dtype), SCALE[:count].astype(dtype), SHIFT[:count].astype(dtype)
    node = helper.make_node("GroupNormalization", ["x", "S", "B"], ["y"], num_groups=2)
    (found,) = computed(
        snapshot(load_proto(make_model([node], {"x": x}, {"S": scale, "B": shift}, opset))),
        {"x": x},
    )
    assert found.dtype == dtype
    expected = group_norm(x.astype(np.float64), opset)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("axes", [None, [2, 3], [0, 1, 2, 3], [-1]])
def test_mean_variance_normalization_far_from_zero(axes, dtype, make_model, snapshot, load_proto):
    x, given = FAR.astype(dtype), {} if axes is None else {"axes": axes}
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **given)
    (found,) = computed(snapshot(load_proto(make_model([node], {"x": x}, {}, 13))), {"x": x})
    assert found.dtype == dtype
    wide, over = x.astype(np.float64), tuple(axes or (0, 2, 3))
    apart, deviation = wide - wide.mean(over, keepdims=True), wide.std(over, keepdims=True)
    expected = apart / (deviation + 1e-9)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_training_batch_normalization_far_from_zero(dtype, make_model, snapshot, load_proto):
    x = FAR.astype(dtype)
    weights = {
        name: v.astype(dtype) for name, v in zip("SBMV", [SCALE, SHIFT, SHIFT, SCALE], strict=True)
    }
    node = helper.make_node("BatchNormalization", ["x", *weights], ["y", "m", "v"], training_mode=1)
    y, mean, variance = computed(
        snapshot(load_proto(make_model([node], {"x": x}, weights, 15))), {"x": x}
    )
    wide = x.astype(np.float64)
    shape = (1, 4, 1, 1)
    expected = normalized(wide, (0, 2, 3)) * SCALE.reshape(shape) + SHIFT.reshape(shape)
    np.testing.assert_allclose(y, expected, rtol=0, atol=TOLERANCES[dtype])
    assert (mean.dtype, variance.dtype) == (dtype, dtype)
    moved = 0.9 * SCALE + 0.1 * wide.var((0, 2, 3))
    np.testing.assert_allclose(variance, moved, rtol=TOLERANCES[dtype])


def torch_call(
    path: Path, target: str, x: np.ndarray, expected: np.ndarray, dtype: Any, **arguments: Any
) -> np.ndarray:
    """What a call of one tensor `self` gives; compiled to C."""
    program = Program({"self": (np.dtype(dtype).name, list(x.shape))})
    given = {"self": ref("self"), **arguments}
    y = program.call(f"aten.{target}", given, np.dtype(dtype).name, list(expected.shape))
    feeds = {"self": x.astype(dtype)}
    model = ex.load(program.write(path / "net.pt2", [y]))
    (found,) = ex.interpret(model, feeds).values()
    (built,) = ex.compile(model).run(feeds).values()
    np.testing.assert_allclose(built, found, rtol=2e-6, atol=1e-7)
    return found


def test_variance_of_narrow_floats_is_computed_in_f32(tmp_path):
    x = FAR.astype(np.float16)
    expected = x.astype(np.float64).var((2, 3), ddof=1)
    arguments = {"dim": ints(2, 3), "correction": {"as_int": 1}}
    found = torch_call(tmp_path, "var.correction", x, expected, np.float16, **arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_running_sums_of_exponentials_keep_what_precedes_the_maximum(tmp_path):
    """1,000 at the end of a row makes all before it vanish where the maximum is taken off first."""
    x = np.array([[-5, 0, 1, 700, 1000], [1000, 1, 3, 1001, -5], [1e8, 1e8, -1e8, 0, 1e8]])
    expected = np.logaddexp.accumulate(x, 1)
    found = torch_call(tmp_path, "logcumsumexp.default", x, expected, np.float32, dim={"as_int": 1})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_inverse_of_erf_keeps_its_digits_near_zero(tmp_path):
    x = np.array([0, -1e-30, 1e-10, 1e-5, 0.99e-4, 1.01e-4, -0.5])
    expected = np.array([0, -8.8622692545e-31, 8.8622692545e-11, 8.862269254759e-6])
    near = 0.88622692545275801 * (x[4:6] + np.pi / 12 * x[4:6] ** 3)
    expected = np.array([*expected, *near, -0.47693627620446987])
    found = torch_call(tmp_path, "erfinv.default", x, expected, np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_cross_entropy_of_small_probabilities_keeps_its_digits(tmp_path):
    p = np.array([0, 1e-30, 1e-10, 1e-6, 0.1, 1], np.float32)
    zeros = np.zeros_like(p)
    program = Program({"self": ("float32", [6]), "target": ("float32", [6])})
    given = {"self": ref("self"), "target": ref("target"), "reduction": {"as_int": 0}}
    y = program.call("aten.binary_cross_entropy.default", given, "float32", [6])
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    (found,) = ex.interpret(model, {"self": p, "target": zeros}).values()
    expected = np.minimum(-np.log1p(-p[:-1].astype(np.float64)), 100)
    np.testing.assert_allclose(found, [*expected, 100], rtol=1e-6)


def masked_attention(path: Path, target: str, mask: np.ndarray, **more: Any) -> ex.Model:
    """A call of attention with queries, keys and values of (1, 2, 5, 8)."""
    types = {name: ("float32", [1, 2, 5, 8]) for name in ("query", "key", "value")}
    program = Program({**types, "mask": (mask.dtype.name, list(mask.shape))})
    given = {**{name: ref(name) for name in types}, "attn_mask": ref("mask"), **more}
    y = program.call(f"aten.{target}", given, "float32", [1, 2, 5, 8])
    return ex.load(program.write(path / "net.pt2", [y]))


@pytest.mark.parametrize("is_bool", [True, False])
def test_a_query_without_keys_gets_zeros_from_scaled_dot_product_attention(is_bool, tmp_path):
    """As PyTorch since version 2.5, where a sequence is padded on the left."""
    mask = np.tril(np.ones((5, 5), bool))
    mask[:, :2] = False
    given = mask if is_bool else np.where(mask, 0, -np.inf).astype(np.float32)
    model = masked_attention(tmp_path, "scaled_dot_product_attention.default", given)
    draw = np.random.default_rng(3).normal(size=(3, 1, 2, 5, 8)).astype(np.float32)
    feeds = dict(zip(["query", "key", "value"], draw, strict=True)) | {"mask": given}
    query, key, value = draw.astype(np.float64)
    scores = np.where(mask, query @ key.swapaxes(2, 3) / np.sqrt(8), -np.inf)[:, :, 2:]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.zeros((1, 2, 5, 8))
    expected[:, :, 2:] = weights / weights.sum(-1, keepdims=True) @ value
    for found in (*ex.interpret(model, feeds).values(), *ex.compile(model).run(feeds).values()):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
        assert not found[:, :, :2].any()


def test_a_model_that_spells_its_softmax_out_keeps_nan_of_masked_rows(make_model, tmp_path):
    """Recognized as attention, ONNX's Softmax of minus infinity alone is still no number."""
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "t"], ["s"]),
        helper.make_node("Add", ["s", "m"], ["b"]),
        helper.make_node("Softmax", ["b"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    draw = np.random.default_rng(3).normal(size=(3, 1, 2, 5, 8)).astype(np.float32)
    mask = np.where(np.tri(5, 5, -1, bool), 0, -np.inf).astype(np.float32)
    feeds = dict(zip("qkv", draw, strict=True)) | {"m": mask}
    path = tmp_path / "net.onnx"
    path.write_bytes(make_model(nodes, feeds, {}, 17).SerializeToString())
    (found,) = ex.compile(ex.load(path)).run(feeds).values()
    assert np.isnan(found[:, :, 0]).all() and np.isfinite(found[:, :, 1:]).all()


def test_an_infinite_pixel_reaches_its_own_windows_of_an_adaptive_average_only(tmp_path):
    x = np.random.default_rng(2).normal(size=(1, 2, 6, 7))
    x[0, 1, 2, 3] = np.inf
    rows, columns = [(0, 2), (1, 3), (3, 5), (4, 6)], [(0, 3), (2, 5), (4, 7)]
    expected = np.stack(
        [np.stack([x[:, :, a:b, c:d].mean((2, 3)) for c, d in columns], -1) for a, b in rows], -2
    )
    assert np.isinf(expected).sum() == 1
    arguments = {"output_size": ints(4, 3)}
    target = "adaptive_avg_pool2d.default"
    found = torch_call(tmp_path, target, x, expected, np.float32, **arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_a_product_adds_by_a_factor_of_0_is_not_read(make_model, snapshot, load_proto):
    ones = np.ones((2, 3), np.float32)
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], beta=0.0)
    feeds = {"a": ones, "b": ones.T.copy(), "c": np.full((2, 2), np.inf, np.float32)}
    (found,) = computed(snapshot(load_proto(make_model([node], feeds, {}, 13))), feeds)
    assert found.tolist() == [[3, 3], [3, 3]]


BICUBIC_OF_PYTORCH = [
    [0, 47, 221, 228, 70, 0],
    [66, 119, 240, 224, 63, 0],
    [223, 239, 255, 219, 50, 0],
    [226, 217, 200, 160, 79, 50],
    [73, 64, 59, 78, 132, 171],
    [0, 0, 0, 29, 164, 244],
]


def test_bytes_are_interpolated_as_pytorch_does_it(tmp_path):
    """Along the last axis first, rounded and kept in range after each axis.

    expected: torch.nn.functional.interpolate(x, scale_factor=2, mode="bicubic") of PyTorch 2.13.
    """
    x = np.array([[0, 255, 3], [255, 255, 0], [7, 0, 200]], np.uint8).reshape(1, 1, 3, 3)
    expected = np.array(BICUBIC_OF_PYTORCH, np.uint8).reshape(1, 1, 6, 6)
    arguments = {
        "output_size": ints(6, 6),
        "align_corners": {"as_bool": False},
        "scales_h": {"as_float": 2.0},
        "scales_w": {"as_float": 2.0},
    }
    target = "upsample_bicubic2d.default"
    found = torch_call(tmp_path, target, x, expected, np.uint8, **arguments)
    np.testing.assert_array_equal(found, expected)


# -- integers of 64 bits ---------------------------------------------------------------------------

LARGE = [2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1]
"""No float64 holds these but -2^63."""


@pytest.mark.parametrize("number", [*LARGE, 2**64 - 1, 2**63 + 1])
def test_a_pad_keeps_integers_of_64_bits(number, make_model, tmp_path):
    dtype = np.uint64 if number >= 2**63 else np.int64
    x, fill = np.array([7, 9], dtype), np.array(number, dtype)
    inner = helper.make_node("Pad", ["x", "p", "f"], ["t"])
    outer = helper.make_node("Pad", ["t", "p", "f"], ["y"])
    path = tmp_path / "net.onnx"
    weights = {"p": np.array([1, 0]), "f": fill}
    path.write_bytes(make_model([inner, outer], {"x": x}, weights, 13).SerializeToString())
    model = ex.load(path)
    for found in (
        *ex.interpret(model, {"x": x}).values(),
        *ex.compile(model).run({"x": x}).values(),
    ):
        assert found.dtype == dtype and found.tolist() == [number, number, 7, 9]


INTEGER_CALLS = {
    "constant_pad_nd.default": ({"pad": ints(1, 1)}, "value", lambda x, k: [k, *x, k]),
    "threshold.default": ({"threshold": {"as_int": 2}}, "value", lambda x, k: [k, k, x[2]]),
    "hardtanh.default": ({"min_val": {"as_int": 2}}, "max_val", lambda x, k: np.clip(x, 2, k)),
    "add.Scalar": ({}, "other", lambda x, k: x + np.int64(k)),
    "clamp.default": ({}, "max", lambda x, k: np.minimum(x, k)),
    "floor_divide.Scalar": ({}, "other", lambda x, k: x // np.int64(k)),
}


@pytest.mark.parametrize("number", [2**63 - 1, 2**53 + 1])
@pytest.mark.parametrize("target", INTEGER_CALLS)
def test_arguments_of_calls_keep_integers_of_64_bits(target, number, tmp_path):
    given, name, judge = INTEGER_CALLS[target]
    x = np.array([1, -(2**63), 2**63 - 1])
    with np.errstate(over="ignore"):
        expected = np.asarray(judge(x, number))
    program = Program({"self": ("int64", [3])})
    arguments = {"self": ref("self"), **given, name: {"as_int": number}}
    y = program.call(f"aten.{target}", arguments, "int64", list(expected.shape))
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    (found,) = ex.interpret(model, {"self": x}).values()
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("zero", [np.int8(3), np.uint8(128), np.int16(0)])
def test_what_is_no_number_is_quantized_to_the_least_integer(zero, make_model, tmp_path):
    x = np.linspace(-9, 9, 67, dtype=np.float32)
    x[::5], x[1], x[2] = np.nan, np.inf, -np.inf
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    weights = {"s": np.array(0.25, np.float32), "z": np.array(zero)}
    model = make_model([node], {"x": x}, weights, 21)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert (expected[::5] == np.iinfo(zero.dtype).min).all()
    read = ex.load(path)
    for found in (*ex.interpret(read, {"x": x}).values(), *ex.compile(read).run({"x": x}).values()):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_a_softmax_of_scaled_logits_does_not_overflow(beta: float):
    x = np.array([[3.4e38, 1, -3.4e38], [2e38, 2e38, 0], [0.5, -1, 2]], np.float32)
    result = TensorOf(name="y", shape=x.shape)
    file = one_operator(
        "SOFTMAX", [floats("x", *x.shape)], [result], "SoftmaxOptions", {"Beta": beta}
    )
    found = ex.interpret(read(memoryview(file), "softmax"), {"x": x})["y"]
    powers = np.exp(beta * (x.astype(np.float64) - x.max(-1, keepdims=True)))
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), 1e-6, 1e-30)
