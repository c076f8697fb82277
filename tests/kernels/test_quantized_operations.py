"""Operations on quantized tensors: against onnxruntime, and their kernels against their meaning."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from xdsl.dialects import affine
from xdsl.dialects.builtin import MemRefType, f16, f32, i8, i32
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from explorer.ir.dialects.kernel import kernel_arguments
from explorer.ir.requantization import (
    ROUNDINGS,
    SCHEMES,
    Requantization,
    RequantizationAttr,
)
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp, RequantizeOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import (
    ELEMENT_TYPES,
    QuantizedType,
    element_type_of,
    format_type,
    numpy_dtype,
    tensor_type,
)
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.passes.lower.lower_to_kernels import define_kernel
from explorer.references.onnx_runtime import open_proto

sys.path.insert(0, str(Path(__file__).parent))
from quantized_kernels import RUNNERS, U8, build, integers, quantized, run_kernel


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest):
    return request.getfixturevalue(request.param)


def onnx_run(nodes, inputs, initializers, opset=21):
    """Outputs `y` of onnxruntime, optimizations off."""
    graph = helper.make_graph(
        nodes,
        "one",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_empty_tensor_value_info("y")],
        [
            helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.reshape(-1))
            for n, a in initializers.items()
        ],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with open_proto(model, "test", is_optimized=False) as opened:
        return np.asarray(opened.run(inputs)["y"])


# -- quantize and dequantize -----------------------------------------------------------------------


def test_quantize_is_onnx_quantize(run):
    kind = QuantizedType.get(U8, [0.1, 0.33], [128, 3], axis=1)
    x = np.random.default_rng(0).normal(scale=9, size=(3, 2, 5)).astype(np.float32)
    x[0, 0, :2] = [0.05, 0.15]  # half a step: to even
    op = build(QuantizeOp, [(f32, x.shape)], to=kind)
    parameters = {
        "scale": np.array([0.1, 0.33], np.float32),
        "zero": np.array([128, 3], np.uint8),
    }
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], axis=1)
    expected = onnx_run([node], {"x": x}, parameters)
    np.testing.assert_array_equal(op.evaluate(x)[0], expected)
    np.testing.assert_array_equal(run_kernel(op, [x], run), expected)


def test_dequantize_is_onnx_dequantize(run):
    kind = QuantizedType.get(i8, [0.1, 0.33], [-4, 3], axis=0)
    x = integers((2, 6), kind)
    op = build(DequantizeOp, [(kind, x.shape)], to=f32)
    parameters = {"scale": np.array([0.1, 0.33], np.float32), "zero": np.array([-4, 3], np.int8)}
    node = helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["y"], axis=0)
    expected = onnx_run([node], {"x": x}, parameters)
    np.testing.assert_array_equal(op.evaluate(x)[0], expected)
    np.testing.assert_array_equal(run_kernel(op, [x], run), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "int16", "uint16"])
def test_all_storage_widths_come_back(name, run):
    storage = ELEMENT_TYPES[name]
    kind = quantized(storage, 0.5, 1)
    x = np.linspace(-9, 9, 40).astype(np.float32)
    quantize = build(QuantizeOp, [(f32, x.shape)], to=kind)
    stored = quantize.evaluate(x)[0]
    assert stored.dtype == numpy_dtype(storage)
    np.testing.assert_array_equal(run_kernel(quantize, [x], run), stored)
    dequantize = build(DequantizeOp, [(kind, x.shape)], to=f32)
    back = dequantize.evaluate(stored)[0]
    np.testing.assert_array_equal(run_kernel(dequantize, [stored], run), back)
    inside = (back > back.min()) & (back < back.max())
    assert np.abs(back - x)[inside].max() <= 0.25  # half a step


def test_whole_numbers_of_32_bits_end_where_singles_do(run):
    kind = QuantizedType.get(i32, [1.0], [0])
    x = np.array([2.0**31, 2.0**40, 2.0**31 - 128, 16777216, 2.5, 3.5, -0.5, -(2.0**31), -1e30])
    op = build(QuantizeOp, [(f32, x.shape)], to=kind)
    most = 2**31 - 128
    expected = np.array([most, most, most, 2**24, 2, 4, 0, -(2**31), -(2**31)], np.int32)
    x = x.astype(np.float32)
    np.testing.assert_array_equal(op.evaluate(x)[0], expected)
    np.testing.assert_array_equal(run_kernel(op, [x], run), expected)


def test_half_precision_is_quantized_in_single(run):
    kind = quantized(U8, 0.01, 10)
    x = np.linspace(-1, 3, 64).astype(np.float16)
    op = build(QuantizeOp, [(f16, x.shape)], to=kind)
    expected = build(QuantizeOp, [(f32, x.shape)], to=kind).evaluate(x.astype(np.float32))[0]
    np.testing.assert_array_equal(op.evaluate(x)[0], expected)
    np.testing.assert_array_equal(run_kernel(op, [x], run), expected)


# -- requantize ------------------------------------------------------------------------------------


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_generated_code_requantizes_as_the_reference(scheme, rounding, run):
    sums = QuantizedType.get(i32, [0.002, 0.0005, 0.25], [0, 0, 0], axis=1)
    by = RequantizationAttr.get(
        quantized(U8, 0.5, 7), Requantization(scheme, rounding, 16), (3, 250)
    )
    random = np.random.default_rng(1)
    x = random.integers(-(2**18), 2**18, (2, 3, 50)).astype(np.int32)
    x[0, 2] = np.arange(-25, 25)  # multiples of half a step
    x[1, :, :4] = [-(2**31), 2**31 - 1, -1, 0]
    op = build(RequantizeOp, [(sums, x.shape)], by=by)
    np.testing.assert_array_equal(run_kernel(op, [x], run), op.evaluate(x)[0])


@pytest.mark.parametrize("exponent", [-33, -31, -1, 0, 1, 7, 29])
def test_generated_code_multiplies_doubling_as_the_reference(exponent, run):
    sums = QuantizedType.get(i32, [0.7 * 2.0**exponent], [0])
    how = Requantization("doubling_high_multiply", "nearest_away_from_zero")
    by = RequantizationAttr.get(quantized(ELEMENT_TYPES["int16"], 1.0, -5), how)
    x = np.random.default_rng(1).integers(-(2**31), 2**31, 200)
    x = np.append(x >> np.arange(200) % 31, [-(2**31), 2**31 - 1, -1, 0]).astype(np.int32)
    op = build(RequantizeOp, [(sums, x.shape)], by=by)
    np.testing.assert_array_equal(run_kernel(op, [x], run), op.evaluate(x)[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("scheme", ["multiplier_shift", "shift"])
def test_generated_code_rounds_once_as_the_reference(scheme, rounding, run):
    """At both ends of 32 bits, at ties, and for ratios that leave nothing or everything."""
    exponents = np.array([-61, -36, -33, -32, -31, -17, -9, -3, -2, -1, 0, 1, 7, 27, 28, 29])
    ratios = np.append(0.7 * 2.0**exponents, 2.0**exponents)
    sums = QuantizedType.get(i32, ratios.tolist(), [0] * len(ratios), axis=1)
    kind = quantized(ELEMENT_TYPES["int16"], 1.0, -5)
    by = RequantizationAttr.get(kind, Requantization(scheme, rounding))
    random = np.random.default_rng(1)
    ends = [-(2**31), 1 - 2**31, 2**31 - 1, 2**31 - 2, 2**30, -(2**30), -1, 0, 1]
    odd = 2 * random.integers(-8, 8, 32) + 1 << np.arange(32) % 27  # halves of some power of two
    any_ = random.integers(-(2**31), 2**31, 96) >> np.arange(96) % 31
    numbers = np.concatenate([ends, odd, any_]).astype(np.int32)
    x = np.broadcast_to(numbers, (1, len(ratios), len(numbers)))
    op = build(RequantizeOp, [(sums, x.shape)], by=by)
    np.testing.assert_array_equal(run_kernel(op, [x.copy()], run), op.evaluate(x)[0])


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("scheme", "rounding"),
    [
        ("float", "nearest_even"),  # ONNX's
        ("doubling_high_multiply", "nearest_away_from_zero"),  # TFLite's
        *((scheme, rounding) for scheme in ("multiplier_shift", "shift") for rounding in ROUNDINGS),
    ],
)
def test_sums_in_registers_are_requantized_in_vectors(scheme, rounding, run):
    """Number by number costs several times what the products do."""
    kind = quantized(i8, 0.1, 3)
    by = RequantizationAttr.get(kind, Requantization(scheme, rounding))
    op = build(MatMulOp, [(kind, (6, 32)), (kind, (32, 16)), None, None], requantization=by)
    scheduled = schedule_kernel(define_kernel(op), Machine(vector_floats=8, language="c"), {})
    to = [o.memref.type for o in scheduled.function.walk() if isinstance(o, affine.StoreOp)]
    assert not [kind for kind in to if isinstance(kind, MemRefType) and kind.element_type == i8]
    a, b = integers((6, 32), kind), integers((32, 16), kind, 1)
    found = run_kernel(op, [a, b], run, scheduled.choices)
    np.testing.assert_array_equal(found, op.evaluate(a, b)[0])


def test_narrow_numbers_are_requantized_from_their_zero_point():
    by = RequantizationAttr.get(quantized(i8, 1.0, -3))
    op = build(RequantizeOp, [(quantized(U8, 0.5, 100), (4,))], by=by)
    (found,) = op.evaluate(np.array([100, 102, 98, 255], np.uint8))
    np.testing.assert_array_equal(found, [-3, -2, -4, 75])  # 77.5 steps: to even, 78


# -- products --------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("zeros", [[0] * 4, [-4, 0, 3, 5]])
def test_a_convolution_of_integers_is_that_of_onnxruntime(group, zeros, run):
    x_kind, y_kind = quantized(U8, 0.02, 7), quantized(U8, 0.3, 100)
    scales = [0.01, 0.03, 0.002, 0.05]
    w_kind = QuantizedType.get(i8, scales, zeros, axis=0)
    x = integers((1, 4, 7, 6), x_kind)
    w = integers((4, 4 // group, 3, 3), w_kind, 1)
    bias = np.array([100, -2000, 0, 12345], np.int32)
    by = RequantizationAttr.get(y_kind)
    geometry = {"strides": [1, 2], "pads": [1, 0, 1, 2], "dilations": [1, 1], "group": group}
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 2)), constant_values=7)
    op = build(
        ConvOp,
        [(x_kind, x.shape), (w_kind, w.shape), (i32, bias.shape), None],
        requantization=by,
        **geometry,
    )
    node = helper.make_node(
        "QLinearConv",
        ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
        ["y"],
        strides=[1, 2],
        pads=[1, 0, 1, 2],
        group=group,
    )
    parameters = {
        "xs": np.array(0.02, np.float32), "xz": np.array(7, np.uint8),
        "w": w, "ws": np.array(scales, np.float32), "wz": np.array(zeros, np.int8),
        "ys": np.array(0.3, np.float32), "yz": np.array(100, np.uint8), "b": bias,
    }  # fmt: skip
    (found,) = op.evaluate(x, w, bias)
    if not any(zeros):  # onnxruntime wants equal zero points of filters
        np.testing.assert_array_equal(found, onnx_run([node], {"x": x}, parameters))
    # A kernel reads padding from its input's halo.
    inner = build(
        ConvOp,
        [(x_kind, padded.shape), (w_kind, w.shape), (i32, bias.shape), None],
        requantization=by,
        **{**geometry, "pads": [0, 0, 0, 0]},
    )
    np.testing.assert_array_equal(inner.evaluate(padded, w, bias)[0], found)
    np.testing.assert_array_equal(run_kernel(inner, [padded, w, bias], run), found)


def test_a_matrix_product_of_integers_is_that_of_onnxruntime(run):
    a_kind, b_kind, y_kind = quantized(U8, 0.02, 9), quantized(i8, 0.01, 2), quantized(U8, 0.1, 50)
    a, b = integers((2, 5, 8), a_kind), integers((8, 6), b_kind, 1)
    op = build(
        MatMulOp,
        [(a_kind, a.shape), (b_kind, b.shape), None, None],
        requantization=RequantizationAttr.get(y_kind),
    )
    names = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    parameters = {
        "as": np.array(0.02, np.float32), "az": np.array(9, np.uint8),
        "bs": np.array(0.01, np.float32), "bz": np.array(2, np.int8),
        "ys": np.array(0.1, np.float32), "yz": np.array(50, np.uint8), "b": b,
    }  # fmt: skip
    node = helper.make_node("QLinearMatMul", names, ["y"])
    expected = onnx_run([node], {"a": a}, parameters)
    np.testing.assert_array_equal(op.evaluate(a, b)[0], expected)
    found = run_kernel(op, [a, b], run).reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_sums_have_the_product_of_the_scales_and_no_zero_point():
    w_kind = QuantizedType.get(i8, [0.5, 0.25], [1, 1], axis=1)
    op = build(MatMulOp, [(quantized(U8, 0.5, 9), (3, 4)), (w_kind, (4, 2)), None, None])
    kind = element_type_of(op.results[0])
    assert kind == QuantizedType.get(i32, [0.25, 0.125], [0, 0], axis=1)


def test_sums_wrap_around_at_32_bits(run):
    kind = quantized(ELEMENT_TYPES["uint16"], 1.0)
    a = np.full((1, 2), 65535, np.uint16)
    b = np.full((2, 1), 65535, np.uint16)
    op = build(MatMulOp, [(kind, a.shape), (kind, b.shape), None, None])
    expected = np.array([[2 * 65535**2]]).astype(np.int32)
    np.testing.assert_array_equal(op.evaluate(a, b)[0], expected)


@pytest.mark.parametrize(
    ("operands", "properties", "problem"),
    [
        ([(quantized(U8, 1.0), (2, 3)), (f32, (3, 4))], {}, "quantized and other numbers"),
        (
            [(quantized(U8, 1.0), (2, 3)), (QuantizedType.get(i8, [1.0] * 3, [0] * 3, 0), (3, 4))],
            {},
            "only axis 1 is not summed over",
        ),
        (
            [(quantized(U8, 1.0), (2, 3)), (quantized(i8, 1.0), (3, 4))],
            {"activation": "relu"},
            "takes an i32 bias and no more",
        ),
        (
            [(f32, (2, 3)), (f32, (3, 4))],
            {"requantization": RequantizationAttr.get(quantized(i8, 1.0))},
            "requantizes what is not quantized",
        ),
    ],
)
def test_products_that_have_no_meaning_are_refused(operands, properties, problem):
    with pytest.raises(ValueError, match=problem):
        build(MatMulOp, [*operands, None, None], **properties)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("group", "window", "size", "choices"),
    [
        (1, 3, (9, 21), {}),
        (1, 3, (6, 38), {"row": 12, "channels": 2}),
        (1, 1, (6, 7), {}),
        (8, 3, (5, 70), {}),
        (2, 3, (5, 9), {"channels": 1}),
    ],
)
def test_rows_of_sums_are_what_the_definition_says(group, window, size, choices, run):
    x_kind = quantized(U8, 0.02, 7)
    w_kind = QuantizedType.get(i8, [0.01 + 0.001 * i for i in range(8)], list(range(8)), axis=0)
    x = integers((1, 8, *size), x_kind)
    w = integers((8, 8 // group, window, window), w_kind, 1)
    bias = np.arange(8, dtype=np.int32) * 1000
    op = build(
        ConvOp,
        [(x_kind, x.shape), (w_kind, w.shape), (i32, bias.shape), None],
        requantization=RequantizationAttr.get(quantized(U8, 0.5, 100)),
        strides=[1, 1],
        pads=[0] * 4,
        dilations=[1, 1],
        group=group,
    )
    expected = op.evaluate(x, w, bias)[0]
    found = run_kernel(op, [x, w, bias], run, {"schedule": "rows", **choices})
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("columns", [10, 96, 67])
def test_rows_of_a_matrix_product_are_what_the_definition_says(columns, run):
    a_kind, b_kind = quantized(U8, 0.02, 9), quantized(i8, 0.01, 2)
    a, b = integers((6, 33), a_kind), integers((33, columns), b_kind, 1)
    op = build(MatMulOp, [(a_kind, a.shape), (b_kind, b.shape), None, None])
    expected = op.evaluate(a, b)[0]
    found = run_kernel(op, [a, b], run, {"schedule": "rows"})
    np.testing.assert_array_equal(found, expected)


def test_a_requantizing_kernel_has_no_buffer_for_its_sums():
    kind = quantized(i8, 0.1)
    op = build(
        MatMulOp,
        [(kind, (4, 8)), (kind, (8, 4)), None, None],
        requantization=RequantizationAttr.get(kind),
    )
    scheduled = schedule_kernel(define_kernel(op), Machine(vector_floats=8, language="c"), {})
    assert "scratch" not in {a.role for a in kernel_arguments(scheduled.function)}
    assert scheduled.choices["schedule"] == "rows"


# -- elementwise and movement ----------------------------------------------------------------------


def test_a_binary_operation_computes_in_real_numbers(run):
    a_kind, b_kind, y_kind = quantized(U8, 0.1, 20), quantized(i8, 0.03, -5), quantized(U8, 0.2, 99)
    a, b = integers((3, 40), a_kind), integers((3, 40), b_kind, 1)
    op = build(BinaryOp, [(a_kind, a.shape), (b_kind, b.shape)], kind="add", to=y_kind)
    real = [
        build(DequantizeOp, [(kind, x.shape)], to=f32).evaluate(x)[0]
        for kind, x in ((a_kind, a), (b_kind, b))
    ]
    expected = build(QuantizeOp, [(f32, a.shape)], to=y_kind).evaluate(real[0] + real[1])[0]
    np.testing.assert_array_equal(op.evaluate(a, b)[0], expected)
    np.testing.assert_array_equal(run_kernel(op, [a, b], run).reshape(a.shape), expected)


def test_a_unary_operation_reads_and_writes_integers(run):
    kind = quantized(U8, 0.05, 128)
    x = np.arange(256, dtype=np.uint8)
    op = build(UnaryOp, [(kind, x.shape)], kind="hard_sigmoid", to=quantized(U8, 1 / 256))
    real = build(UnaryOp, [(kind, x.shape)], kind="hard_sigmoid")
    assert element_type_of(real.results[0]) == f32
    (expected,) = op.evaluate(x)
    quantize = build(QuantizeOp, [(f32, x.shape)], to=quantized(U8, 1 / 256))
    np.testing.assert_array_equal(quantize.evaluate(real.evaluate(x)[0])[0], expected)
    np.testing.assert_array_equal(run_kernel(op, [x], run), expected)


def test_movement_keeps_the_type_and_takes_the_axis_of_scales_along():
    kind = QuantizedType.get(i8, [0.1, 0.2, 0.3], [0, 0, 0], axis=0)
    turned = build(TransposeOp, [(kind, (3, 4))], permutation=[1, 0])
    assert element_type_of(turned.results[0]) == kind.with_axis(1)
    lifted = build(ReshapeOp, [(kind, (3, 4)), None], shape=[1, 3, 2, 2])
    assert element_type_of(lifted.results[0]) == kind.with_axis(1)
    with pytest.raises(ValueError, match="mixes slices of axis 0"):
        build(ReshapeOp, [(kind, (3, 4)), None], shape=[12])


def test_numbers_of_different_scales_are_not_joined():
    block = Block(arg_types=[tensor_type(quantized(U8, scale), (2, 3)) for scale in (0.1, 0.2)])
    with pytest.raises(ValueError, match="different scales"):
        ConcatOp.make([list(block.args)], axis=0)


def test_a_maximum_pool_starts_below_every_integer(run):
    kind = quantized(i8, 0.1, 5)
    x = integers((1, 2, 6, 6), kind)
    geometry = {"window": [3, 3], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
    op = build(PoolOp, [(kind, x.shape)], kind="max", **geometry)
    assert element_type_of(op.results[0]) == kind
    np.testing.assert_array_equal(run_kernel(op, [x], run), op.evaluate(x)[0])
    with pytest.raises(ValueError, match="only max is defined"):
        build(PoolOp, [(kind, x.shape)], kind="average", **geometry)


def test_stored_integers_and_quantized_numbers_are_the_same_bytes():
    kind = quantized(U8, 0.1, 5)
    op = build(BitcastOp, [(kind, (4,))], to=U8)
    assert op.is_view
    x = np.array([1, 2, 3, 250], np.uint8)
    np.testing.assert_array_equal(op.evaluate(x)[0], x)


def test_operations_that_know_nothing_of_quantization_are_refused():
    with pytest.raises(VerifyException, match="takes quantized numbers for plain ones"):
        build(ReduceOp, [(quantized(U8, 0.1), (4, 4))], kind="sum", axes=[0], keepdims=False)


# -- text ------------------------------------------------------------------------------------------


def test_a_person_reads_scale_and_zero_point():
    assert format_type(tensor_type(quantized(U8, 0.1, 128), (2, 3))) == "2x3 ui8 x 0.1 (zero 128)"
    several = QuantizedType.get(i8, [0.1, 0.2], [0, -3], axis=0)
    assert str(several) == "i8 x 0.1 to 0.2 (zeros -3 to 0) along axis 0"


def test_scales_come_back_from_text_to_the_last_bit():
    scales = np.random.default_rng(0).uniform(1e-12, 3, 20).astype(np.float32)
    kind = QuantizedType.get(i8, scales.tolist(), list(range(-10, 10)), axis=1)
    build(DequantizeOp, [(kind, (2, 20))], to=f32)  # prints, parses, prints again
    np.testing.assert_array_equal(kind.scale_array, scales)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_are_positive_and_finite(scale):
    with pytest.raises(ValueError, match="positive and finite"):
        quantized(U8, scale)
