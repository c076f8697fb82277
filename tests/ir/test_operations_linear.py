"""Convolution and matmul against onnxruntime, and as C on plain, haloed and blocked buffers."""

import numpy as np
import pytest

from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import Layout

# Sums of up to 100 products of float32 in another order.
TOLERANCE = 1e-5


def attributes(rank, group=1, strides=None, dilations=None, pads=None) -> dict:
    return {
        "strides": strides or [1] * rank,
        "dilations": dilations or [1] * rank,
        "pads": pads or [0] * (2 * rank),
        "group": group,
    }


CONVOLUTIONS = {
    "1d": ((2, 4, 9), (6, 4, 3), attributes(1, strides=[2])),
    "2d": ((2, 3, 7, 6), (4, 3, 3, 2), attributes(2, strides=[2, 1])),
    "3d": ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), attributes(3)),
    "dilated": ((1, 3, 9, 8), (4, 3, 3, 2), attributes(2, dilations=[2, 3])),
    "pointwise": ((1, 5, 3, 3), (4, 5, 1, 1), attributes(2)),
    "grouped": ((1, 6, 5, 5), (4, 3, 3, 3), attributes(2, group=2)),
    "grouped 1d": ((1, 6, 9), (4, 3, 3), attributes(1, group=2)),
    "depthwise": ((2, 6, 5, 5), (6, 1, 3, 3), attributes(2, group=6, strides=[2, 2])),
    "depthwise with two filters": ((1, 3, 5, 5), (6, 1, 3, 3), attributes(2, group=3)),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("has_bias", [False, True])
def test_convolution(name, has_bias, values, build, check, onnx_outputs):
    x_shape, w_shape, properties = CONVOLUTIONS[name]
    arrays = [values(*x_shape), values(*w_shape)]
    arrays += [values(w_shape[0])] if has_bias else []
    op = build(ConvOp, arrays, constants=[1, 2], **properties)
    assert op.is_depthwise == (name == "depthwise")
    check(op, arrays, onnx_outputs("Conv", arrays, **properties), TOLERANCE)


def test_half_numbers_are_summed_in_single_precision_and_rounded_once(build):
    """4096 + 1 is 4096 in half precision: summed in it, the ones would be lost one by one."""
    x = np.ones((1, 65, 1, 1), np.float16)
    w = np.ones((1, 65, 1, 1), np.float16)
    w[0, 0] = 4096
    (result,) = build(ConvOp, [x, w], constants=[1], **attributes(2)).evaluate(x, w)
    assert result.dtype == np.float16
    assert result.item() == 4160


@pytest.mark.parametrize("block", [0, 4])
@pytest.mark.parametrize(("group", "inner"), [(1, 6), (6, 1)])
def test_convolution_reads_its_padding_from_the_halo(
    group, inner, block, values, build, check, onnx_outputs
):
    arrays = [values(1, 6, 7, 8), values(6, inner, 3, 3), values(6)]
    properties = attributes(2, group, [2, 2], [1, 1], [1, 2, 1, 0])
    op = build(
        ConvOp,
        arrays,
        constants=[1, 2],
        layouts=[Layout(block, (1, 2, 1, 1))],
        result_layout=Layout(block, (0, 1, 1, 0)),
        **properties,
    )
    check(op, arrays, onnx_outputs("Conv", arrays, **properties), TOLERANCE)


def test_first_convolution_reads_plain_channels_and_writes_blocks(values, build, check):
    arrays = [values(1, 3, 6, 6), values(6, 3, 3, 3)]
    op = build(ConvOp, arrays, constants=[1], result_layout=Layout(4), **attributes(2))
    check(op, arrays, tolerance=TOLERANCE)


@pytest.mark.parametrize(
    ("activation", "alpha", "beta"),
    [("relu", None, None), ("clip", 0.0, 6.0), ("silu", None, None)],
)
def test_convolution_adds_the_residual_before_the_activation(
    activation, alpha, beta, values, build, check, onnx_outputs
):
    arrays = [
        values(1, 3, 5, 5),
        values(4, 3, 3, 3),
        values(4),
        values(1, 4, 3, 3, low=-30, high=30),
    ]
    (plain,) = onnx_outputs("Conv", arrays[:3])
    total = plain + arrays[3]
    expected = {
        "relu": np.maximum(total, 0),
        "clip": np.clip(total, 0, 6),
        "silu": total / (1 + np.exp(-total)),
    }[activation]
    op = build(
        ConvOp,
        arrays,
        constants=[1, 2],
        activation=activation,
        alpha=alpha,
        beta=beta,
        **attributes(2),
    )
    check(op, arrays, [expected], TOLERANCE)


def test_convolution_keeps_symbolic_dimensions(infer):
    properties = attributes(2, strides=[2, 1], pads=[1, 1, 1, 1])
    shapes = infer(ConvOp, [("n", 3, "h", "w"), (8, 3, 3, 3)], **properties)
    assert shapes == [("n", 8, "(h+1)//2", "w")]


def test_convolution_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match="input has 4 channels, weight expects 3 x 1 groups"):
        infer(ConvOp, [(1, 4, 8, 8), (8, 3, 3, 3)], **attributes(2))
    with pytest.raises(ValueError, match="are not those of a 1- to 3-d convolution"):
        infer(ConvOp, [(1, 4, 8), (8, 4, 3, 3)], **attributes(2))
    with pytest.raises(ValueError, match="a window of 5 does not fit into 3"):
        infer(ConvOp, [(1, 4, 3, 3), (8, 4, 5, 5)], **attributes(2))


def test_convolution_counts_its_multiplications(values, build):
    op = build(ConvOp, [values(1, 6, 5, 5), values(4, 3, 3, 3)], **attributes(2, group=2))
    assert op.macs() == 4 * 3 * 3 * (3 * 3 * 3)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5))],
)
def test_matmul_broadcasts_batches(left, right, values, build, check, onnx_outputs):
    arrays = [values(*left), values(*right)]
    op = build(MatMulOp, arrays)
    check(op, arrays, onnx_outputs("MatMul", arrays), TOLERANCE)


@pytest.mark.parametrize("residual_shape", [(2, 3, 5), (5,), (3, 1)])
def test_matmul_adds_bias_and_residual_before_the_activation(residual_shape, values, build, check):
    arrays = [values(2, 3, 4), values(4, 5), values(5), values(*residual_shape)]
    expected = np.maximum(arrays[0] @ arrays[1] + arrays[2] + arrays[3], 0)
    op = build(MatMulOp, arrays, constants=[1, 2], activation="relu")
    check(op, arrays, [expected], TOLERANCE)


def test_matmul_infers_and_names_what_does_not_fit(infer, values, build):
    assert infer(MatMulOp, [("n", 1, "q", 64), (12, 64, "k")]) == [("n", 12, "q", "k")]
    assert build(MatMulOp, [values(2, 3, 4), values(4, 5)]).macs() == 2 * 3 * 5 * 4
    with pytest.raises(ValueError, match="4 columns against 3 rows"):
        infer(MatMulOp, [(2, 4), (3, 5)])
    with pytest.raises(ValueError, match="matmul needs matrices"):
        infer(MatMulOp, [(4,), (4, 5)])
