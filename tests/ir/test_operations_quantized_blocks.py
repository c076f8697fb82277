"""Dequantization with a scale for every block: against ONNX's DequantizeLinear-21."""

import ml_dtypes
import numpy as np
import pytest

from explorer.ir.top.quantization.blocks import DequantizeBlocksOp


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("has_zeros", [True, False])
def test_blocks_are_those_of_onnx(build, check, onnx_outputs, values, axis, has_zeros):
    """The last block of five elements has one only."""
    shape = [2, 5, 6]
    shape[axis] = 5
    blocks = list(shape)
    blocks[axis] = 3
    x = values(*shape, dtype="int8", low=-128, high=127)
    scale = values(*blocks, low=0.1)
    operands = [x, scale]
    if has_zeros:
        operands.append(values(*blocks, dtype="int8"))
    op = build(DequantizeBlocksOp, operands, axis=axis, block_size=2)
    expected = onnx_outputs("DequantizeLinear", operands, opset=21, axis=axis, block_size=2)
    check(op, operands, expected, tolerance=0)


@pytest.mark.parametrize("zeros", ["uint4", "float32"])
def test_numbers_of_four_bits_and_zero_points_of_either_kind(build, check, values, zeros):
    x = values(6, 4, dtype="int8", low=0, high=15).astype(ml_dtypes.uint4)
    zero = values(2, 4, dtype="int8", low=0, high=15).astype(zeros)
    op = build(DequantizeBlocksOp, [x, values(2, 4), zero], axis=0, block_size=3)
    check(op, [x, values(2, 4), zero], tolerance=0)


def test_halves_are_computed_in_single_precision_and_rounded_once(build, check, values):
    x, scale = values(3, 4, dtype="int8"), values(3, 1, dtype="float16", low=0.1)
    zero = values(3, 1, dtype="float16")
    op = build(DequantizeBlocksOp, [x, scale, zero], axis=1, block_size=4)
    single = (x - zero.astype(np.float32)) * scale.astype(np.float32)
    check(op, [x, scale, zero], [single.astype(np.float16)], tolerance=0)


def test_a_scale_may_serve_all_slices_of_another_axis(build, check, values):
    x, scale = values(3, 4, dtype="int8"), values(1, 2, low=0.1)
    op = build(DequantizeBlocksOp, [x, scale], axis=1, block_size=2)
    check(op, [x, scale], [x * np.repeat(scale, 2, axis=1)], tolerance=0)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (np.ones((3, 1), np.float32), r"scales \(3, 1\) for blocks of 2 along axis 1 of \(3, 4\)"),
        (np.ones((3, 2), np.int32), "scales are floats, not i32"),
    ],
)
def test_scales_that_do_not_fit_are_refused(build, scale, message):
    with pytest.raises(ValueError, match=message):
        build(DequantizeBlocksOp, [np.ones((3, 4), np.int8), scale], axis=1, block_size=2)
