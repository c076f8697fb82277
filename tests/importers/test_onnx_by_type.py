"""Operators on types that models seldom have: two in a node, narrow floats, small integers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.references.onnx_runtime import open_proto

F16, F64 = np.float16, np.float64
RANDOM = np.random.default_rng(5)


def model_of(text: str, opset: int) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')


def ours(model: onnx.ModelProto, inputs: dict) -> np.ndarray:
    return ex.interpret(from_proto(model), inputs)["y"]


def runtime(model: onnx.ModelProto, inputs: dict) -> np.ndarray:
    with open_proto(model, "model", is_optimized=False) as opened:
        return opened.run(inputs)["y"]


def reference(model: onnx.ModelProto, inputs: dict) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(ReferenceEvaluator(model).run(None, inputs)[0])


BATCH_NORM = """
m (double[2, 3] x, float[3] s, float[3] b, double[3] n, double[3] v) => (double[2, 3] y)
{ y = BatchNormalization(x, s, b, n, v) }
"""


def test_a_batch_norm_with_two_types_is_computed_in_the_wider_one():
    model = model_of(BATCH_NORM, 15)
    inputs = {"x": RANDOM.standard_normal((2, 3)), "n": RANDOM.standard_normal(3), "v": np.ones(3)}
    inputs |= {name: RANDOM.standard_normal(3).astype(np.float32) for name in "sb"}
    found = ours(model, inputs)
    assert found.dtype == F64
    np.testing.assert_allclose(found, reference(model, inputs), rtol=1e-9)


@pytest.mark.parametrize("dtype", [F16, F64])
def test_a_grid_of_another_type_than_the_image(dtype):
    name = {F16: "float16", F64: "double"}[dtype]
    text = f"m ({name}[1, 2, 3, 4] x, float[1, 2, 2, 2] g) => ({name}[1, 2, 2, 2] y) "
    model = model_of(text + "{ y = GridSample(x, g) }", 22)
    inputs = {
        "x": RANDOM.standard_normal((1, 2, 3, 4)).astype(dtype),
        "g": RANDOM.uniform(-1, 1, (1, 2, 2, 2)).astype(np.float32),
    }
    found = ours(model, inputs)
    assert found.dtype == dtype
    exact = reference(model, {name: array.astype(F64) for name, array in inputs.items()})
    bound = 1e-3 if dtype == F16 else 1e-6
    np.testing.assert_allclose(found, exact, rtol=bound, atol=bound * np.abs(inputs["x"]).max())


def test_a_grid_over_booleans_is_refused():
    text = "m (bool[1, 1, 2, 2] x, float[1, 1, 1, 2] g) => (bool[1, 1, 1, 1] y) "
    with pytest.raises(UnsupportedError, match="elements of type bool"):
        ours(
            model_of(text + "{ y = GridSample(x, g) }", 22),
            {"x": np.ones((1, 1, 2, 2), bool), "g": np.zeros((1, 1, 1, 2), np.float32)},
        )


@pytest.mark.parametrize("operator", ["LpPool <kernel_shape = [2], p = 4>", "GlobalLpPool <p = 4>"])
def test_powers_of_half_precision_do_not_overflow(operator):
    model = model_of(f"m (float16[1, 1, 4] x) => (float16[1, 1, n] y) {{ y = {operator}(x) }}", 22)
    x = np.array([[[65504, 0, 300, 0.001]]], F16)
    with np.errstate(all="ignore"):
        found = ours(model, {"x": x})
    assert found[0, 0, 0] == F16(65504)
    assert np.isfinite(found).all() and found.dtype == F16


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"])
@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_shrink_of_integers(dtype, bias):
    text = f"m ({dtype}[7] x) => ({dtype}[7] y) {{ y = Shrink <lambd = 1.5, bias = {bias}>(x) }}"
    model = model_of(text, 9)
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 2, 3, 100, max(limits.min, -5), max(limits.min, -1)]).astype(dtype)
    np.testing.assert_array_equal(ours(model, {"x": x}), runtime(model, {"x": x}))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_the_mean_of_integers_does_not_overflow(dtype):
    model = model_of(
        f"m ({dtype}[2, 3] x) => ({dtype}[2] y) "
        "{ a = Constant <value_ints = [1]>() y = ReduceMean <keepdims = 0>(x, a) }",
        18,
    )
    limits = np.iinfo(dtype)
    x = np.array([[limits.max] * 3, [limits.min, limits.min, limits.max]], dtype)
    exact = [int(sum(map(int, row)) / 3) for row in x]
    assert ours(model, {"x": x}).tolist() == exact


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_an_extremum_of_booleans(kind):
    text = "m (bool[2, 2] x) => (bool[2] y) { a = Constant <value_ints = [1]>() "
    model = model_of(text + f"y = Reduce{kind} <keepdims = 0>(x, a) }}", 20)
    x = np.array([[True, False], [False, False]])
    np.testing.assert_array_equal(ours(model, {"x": x}), runtime(model, {"x": x}))


def test_strings_are_not_added_up_by_a_scatter():
    text = "m (string[3] x, int64[1] i, string[1] u) => (string[3] y) "
    model = model_of(text + '{ y = ScatterElements <axis = 0, reduction = "add">(x, i, u) }', 18)
    with pytest.raises(UnsupportedError, match="reduction 'add' of strings"):
        ex.compile(from_proto(model), dimensions={"x.places": 2, "u.places": 2})


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_a_product_of_integers_with_a_factor(alpha):
    text = "m (int32[2, 3] a, int32[3, 2] b, int32[2] c) => (int32[2, 2] y) "
    model = model_of(text + f"{{ y = Gemm <alpha = {alpha}, beta = 1.5>(a, b, c) }}", 13)
    inputs = {
        "a": RANDOM.integers(-9, 9, (2, 3), np.int32),
        "b": RANDOM.integers(-9, 9, (3, 2), np.int32),
        "c": np.array([3, -4], np.int32),
    }
    wide = alpha * (inputs["a"] @ inputs["b"]) + 1.5 * inputs["c"]
    np.testing.assert_array_equal(ours(model, inputs), wide.astype(np.int32))


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_a_negative_factor_wraps_unsigned_products(dtype):
    text = f"m ({dtype}[1, 2] a, {dtype}[2, 1] b, {dtype}[1] c) => ({dtype}[1, 1] y) "
    model = model_of(text + "{ y = Gemm <alpha = -1.0, beta = -2.0>(a, b, c) }", 13)
    most = int(np.iinfo(dtype).max)
    inputs = {
        "a": np.array([[3, most]], dtype),
        "b": np.array([[5], [2]], dtype),
        "c": np.array([7], dtype),
    }
    exact = -(3 * 5 + most * 2) - 2 * 7
    assert ours(model, inputs).item() == exact % (most + 1)


def test_a_scalar_becomes_a_power_of_two():
    text = "m (float x) => (float y) { p = Cast <to = 24>(x) y = Cast <to = 1>(p) }"
    found = ours(model_of(text, 24), {"x": np.array(3.0, np.float32)})
    assert found.shape == () and found == 4


def test_one_hot_of_no_classes_is_empty():
    text = "m (int64[3] i, float[2] v) => (float[3, 0] y) "
    model = model_of(text + "{ d = Constant <value_int = 0>() y = OneHot(i, d, v) }", 13)
    inputs = {"i": np.arange(3), "v": np.array([0, 1], np.float32)}
    assert ours(model, inputs).shape == reference(model, inputs).shape == (3, 0)
