"""Products of f32 that are quantized where their sums are in registers: against onnxruntime."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import f32, i8, i32

import explorer
from explorer.ir.requantization import BY_SHIFT, RequantizationAttr
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.references.onnx_runtime import open_proto

sys.path.insert(0, str(Path(__file__).parent))
from quantized_kernels import RUNNERS, U8, build, quantized, run_kernel

VALUES = np.array(
    [0.25, 0.75, -0.25, -1.25, 63.25, 63.75, 64, -64, 1e9, -1e9, 0, -0.0, 3, 1.5, -5, 1e-40],
    np.float32,
)
"""Ties of a scale of 0.5, and ends of ranges."""


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest):
    return request.getfixturevalue(request.param)


def judged(proto: onnx.ModelProto, inputs):
    with open_proto(proto, "test", is_optimized=False) as opened:
        return opened.run(inputs)["q"]


def network(kernel, group, zero, *, relu=False):
    """Conv, perhaps Relu, QuantizeLinear: products are exact, so that no order of sums matters."""
    inits = {"w": kernel, "s": np.array(0.5, np.float32), "z": zero}
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], group=group, pads=[1, 1, 1, 1])]
    if relu:
        nodes.append(helper.make_node("Relu", ["y"], ["r"]))
    nodes.append(helper.make_node("QuantizeLinear", ["r" if relu else "y", "s", "z"], ["q"]))
    kind = helper.np_dtype_to_tensor_dtype(zero.dtype)
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", 1, [1, kernel.shape[1] * group, 5, 9])],
        [helper.make_tensor_value_info("q", kind, None)],
        [numpy_helper.from_array(array, name) for name, array in inits.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def shifting(channels, each):
    """Filters that take one pixel of one channel each, times 1 or -1."""
    kernel = np.zeros((channels, each, 3, 3), np.float32)
    for o in range(channels):
        kernel[o, o % each, o % 3, (o // 3) % 3] = 1 if o % 2 else -1
    return kernel


@pytest.mark.sampled(8)
@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(255), np.int8(-128), np.int16(32767)])
@pytest.mark.parametrize(("group", "channels"), [(1, 16), (16, 16), (2, 6)])
def test_a_convolution_is_quantized_as_onnxruntime_does(tmp_path, zero, group, channels):
    each = channels // group if group > 1 else 3
    proto = network(shifting(channels, each), group, np.array(zero), relu=group == 2)
    path = tmp_path / "quantized.onnx"
    onnx.save(proto, path)
    x = np.resize(VALUES, (1, each * group, 5, 9))
    c = explorer.compile(path)
    assert not any("quantize" in name for name in c.kernels if name.startswith("quantize"))
    np.testing.assert_array_equal(c.run({"x": x})["q"], judged(proto, {"x": x}))


@pytest.mark.parametrize("choices", [None, {}])
@pytest.mark.parametrize("storage", [U8, i8])
def test_a_matrix_product_of_any_float_is_stored_as_numpy_says(storage, choices, run):
    kind = quantized(storage, 0.5, 3)
    op = build(MatMulOp, [(f32, (16, 1)), (f32, (1, 17))], to=kind)
    special = [np.nan, np.inf, -np.inf, 127.25]
    left = np.concatenate([VALUES[:12], np.array(special, np.float32)]).reshape(16, 1)
    right = np.resize(np.array([1, -1], np.float32), (1, 17))
    low, high = (0, 255) if storage == U8 else (-128, 127)
    with np.errstate(invalid="ignore"):
        steps = np.rint(left @ right / np.float32(0.5)) + 3
    wanted = np.where(np.isnan(steps), low, np.clip(steps, low, high)).astype(int)
    np.testing.assert_array_equal(op.evaluate(left, right)[0], wanted)
    np.testing.assert_array_equal(run_kernel(op, [left, right], run, choices), wanted)


def test_whole_numbers_are_multiplied_and_shifted(run):
    """floor(x * 257 / 2^15 + 1/2) of whole x, the ends of 32 bits among them."""
    whole, scaled = quantized(i32, 1.0), quantized(i32, 257 / 2**15)
    by = RequantizationAttr.get(quantized(i8, 1.0, -128), BY_SHIFT)
    x = np.array([[0, 63, 64, -63, -64, 16256, 16384, -1, 1e12, -1e12, 1.5, 2.5]], np.float32)
    op = build(
        ConvOp,
        [(f32, (1, 1, 1, 12)), (f32, (2, 1, 1, 1)), None, None],
        strides=[1, 1],
        pads=[0, 0, 0, 0],
        dilations=[1, 1],
        group=1,
        to=whole,
        taken_as=scaled,
        requantization=by,
    )
    w = np.array([1, -1], np.float32).reshape(2, 1, 1, 1)
    kept = np.clip(np.rint(x.astype(float) * w.reshape(2, 1)), -(2**31), 2**31 - 128)
    steps = np.floor(kept * 257 / 2**15 + 0.5)
    wanted = np.clip(steps - 128, -128, 127).reshape(1, 2, 1, 12)
    given = [x.reshape(1, 1, 1, 12), w]
    np.testing.assert_array_equal(op.evaluate(*given)[0], wanted)
    np.testing.assert_array_equal(run_kernel(op, given, run), wanted)


@pytest.mark.parametrize(
    ("operands", "properties", "problem"),
    [
        ([(f32, (2, 2)), (f32, (2, 3))], {"taken": (i8, 0.5)}, "cannot take"),
        ([(f32, (2, 2)), (f32, (2, 3))], {"without": True}, "requantizes what is not quantized"),
    ],
)
def test_results_that_cannot_be_are_refused(operands, properties, problem):
    by = RequantizationAttr.get(quantized(i8, 1.0), BY_SHIFT)
    given = {"requantization": by}
    if "taken" in properties:
        storage, scale = properties["taken"]
        given |= {"to": quantized(i32, 1.0), "taken_as": quantized(storage, scale)}
    with pytest.raises(ValueError, match=problem):
        build(MatMulOp, operands, **given)
