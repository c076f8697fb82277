"""Dequantization with a scale for every block: against ONNX's DequantizeLinear-21."""

import ml_dtypes
import numpy as np
import pytest

from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp, QuantizeBlocksOp
from explorer.ir.types import QuantizedType, element_type_from_numpy


@pytest.fixture
def dequantize(build):
    """The operation on numbers whose type has the blocks."""

    def make(operands, axis, block_size):
        storage = element_type_from_numpy(operands[0].dtype)
        kind = QuantizedType.in_blocks(storage, axis, block_size)
        return build(DequantizeBlocksOp, operands, kinds={0: kind})

    return make


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("has_zeros", [True, False])
def test_blocks_are_those_of_onnx(dequantize, check, onnx_outputs, values, axis, has_zeros):
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
    op = dequantize(operands, axis=axis, block_size=2)
    expected = onnx_outputs("DequantizeLinear", operands, opset=21, axis=axis, block_size=2)
    check(op, operands, expected, tolerance=0)


@pytest.mark.parametrize("zeros", ["uint4", "float32"])
def test_numbers_of_four_bits_and_zero_points_of_either_kind(dequantize, check, values, zeros):
    x = values(6, 4, dtype="int8", low=0, high=15).astype(ml_dtypes.uint4)
    zero = values(2, 4, dtype="int8", low=0, high=15).astype(zeros)
    op = dequantize([x, values(2, 4), zero], axis=0, block_size=3)
    check(op, [x, values(2, 4), zero], tolerance=0)


def test_halves_are_computed_in_single_precision_and_rounded_once(dequantize, check, values):
    x, scale = values(3, 4, dtype="int8"), values(3, 1, dtype="float16", low=0.1)
    zero = values(3, 1, dtype="float16")
    op = dequantize([x, scale, zero], axis=1, block_size=4)
    single = (x - zero.astype(np.float32)) * scale.astype(np.float32)
    check(op, [x, scale, zero], [single.astype(np.float16)], tolerance=0)


def test_a_scale_may_serve_all_slices_of_another_axis(dequantize, check, values):
    x, scale = values(3, 4, dtype="int8"), values(1, 2, low=0.1)
    op = dequantize([x, scale], axis=1, block_size=2)
    check(op, [x, scale], [x * np.repeat(scale, 2, axis=1)], tolerance=0)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (np.ones((3, 1), np.float32), r"scales \(3, 1\) for blocks of 2 along axis 1 of \(3, 4\)"),
        (np.ones((3, 2), np.int32), "scales are floats, not i32"),
    ],
)
def test_scales_that_do_not_fit_are_refused(dequantize, scale, message):
    with pytest.raises(ValueError, match=message):
        dequantize([np.ones((3, 4), np.int8), scale], axis=1, block_size=2)


def test_blocks_print_as_they_are_read(build, check, values):
    """`check` parses the text of the module; here the text itself."""
    kind = QuantizedType.in_blocks(element_type_from_numpy(ml_dtypes.uint4), 0, 32)
    operands = [np.zeros((40, 3), ml_dtypes.uint4), values(2, 3), np.zeros((2, 3), ml_dtypes.uint4)]
    op = build(DequantizeBlocksOp, operands, kinds={0: kind})
    assert "tensor<40x3x!top.quantized<ui4, axis 0, block 32>>" in str(op.operands[0].type)
    assert str(kind) == "ui4 in blocks of 32 along axis 0"


@pytest.mark.parametrize(("axis", "block"), [(-1, 32), (0, 0)])
def test_blocks_have_an_axis_and_a_length(axis, block):
    with pytest.raises(ValueError, match=f"blocks of {block} along axis {axis}"):
        QuantizedType.in_blocks(element_type_from_numpy(np.dtype(np.int8)), axis, block)


def test_numbers_without_blocks_and_moved_ones_are_refused(build):
    plain = [np.ones((4, 2), np.int8), np.ones((2, 2), np.float32)]
    with pytest.raises(ValueError, match="takes numbers in blocks, not i8"):
        build(DequantizeBlocksOp, plain)
    kind = QuantizedType.in_blocks(element_type_from_numpy(np.dtype(np.int8)), 0, 2)
    with pytest.raises(ValueError, match="away from the scales of their blocks"):
        build(TransposeOp, plain[:1], kinds={0: kind}, permutation=[1, 0])


@pytest.mark.parametrize("shape", [(1, 64), (2, 3, 32), (16,)])
def test_blocks_of_rows_get_bytes_scales_and_sums(build, check, values, shape):
    """The scale of a block is the range of its largest number; a block of zeros has the scale 0."""
    x = values(*shape, low=-3, high=3)
    x[..., :16] = 0
    x[..., -1] = 5
    op = build(QuantizeBlocksOp, [x], block=16)
    split = x.reshape(*shape[:-1], -1, 16)
    reach = np.abs(split).max(axis=-1)
    factor = np.where(reach == 0, 0, np.float32(127) / np.where(reach == 0, 1, reach))
    q = np.rint(split * factor[..., np.newaxis]).astype(np.int8)
    sums = q.sum(axis=-1, dtype=np.int32)
    check(op, [x], [q.reshape(shape), reach / np.float32(127), sums], tolerance=0)


def test_ties_go_to_even_and_the_largest_number_is_127(build, check):
    x = np.array([[127, -127, 0.5, 1.5, -2.5, -0.5, 126.5, 3]], np.float32)
    (q, scale, sums) = build(QuantizeBlocksOp, [x], block=8).evaluate(x)
    assert q.tolist() == [[127, -127, 0, 2, -2, 0, 126, 3]]
    assert (scale.tolist(), sums.tolist()) == ([[1]], [[129]])
    check(build(QuantizeBlocksOp, [x], block=8), [x], tolerance=0)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_finite_number_is_in_the_scale(build, check, odd):
    x = np.array([[1, odd, 2, 3, 1, 2, 3, 4]], np.float32)
    op = build(QuantizeBlocksOp, [x], block=4)
    q, scale, sums = op.evaluate(x)
    assert not np.isfinite(scale[0, 0])
    assert q[0, :4].tolist() == [0, 0, 0, 0] and q[0, 4:].tolist() == [32, 64, 95, 127]
    check(op, [x], [q, scale, sums], tolerance=0)


@pytest.mark.parametrize("reach", [1e-45, 1e-39, 3e38])
def test_the_ends_of_the_range_stay_bytes(build, check, reach):
    x = np.array([[reach, -reach, 0, reach]], np.float32)
    op = build(QuantizeBlocksOp, [x], block=4)
    assert set(op.evaluate(x)[0].ravel().tolist()) == {127, -127, 0}
    check(op, [x], tolerance=0)


@pytest.mark.parametrize(("shape", "block"), [((2, 10), 4), ((), 1), ((4,), 0)])
def test_rows_have_whole_blocks(build, shape, block):
    with pytest.raises(ValueError, match="whole blocks"):
        build(QuantizeBlocksOp, [np.zeros(shape, np.float32)], block=block)


def test_no_rows_make_no_blocks(build):
    q, scale, sums = build(QuantizeBlocksOp, [np.zeros((0, 8), np.float32)], block=4).evaluate(
        np.zeros((0, 8), np.float32)
    )
    assert (q.shape, scale.shape, sums.shape) == ((0, 8), (0, 2), (0, 2))
