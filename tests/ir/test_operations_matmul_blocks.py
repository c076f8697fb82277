"""Products that unpack narrow weights: against the product with the real numbers, and as C."""

import numpy as np
import pytest

from explorer.ir.top.linear.matmul_blocks import MatMulBlocksOp, packed_pairs, unpacked
from explorer.ir.types import ELEMENT_TYPES, QuantizedType

COLUMNS = 10
# Sums of at most 70 products in another order.
TOLERANCE = 4e-6


def operands(values, depth, bits, block, has_zeros, rows=(3,)):
    """Operands of the operation, and the real weights that they stand for."""
    numbers = values(depth, COLUMNS, dtype="int16", low=0, high=2**bits - 1).astype(np.uint8)
    blocks = -(-depth // block)
    scales = values(blocks, COLUMNS, low=0.1)
    zeros = values(blocks, COLUMNS, dtype="int16", low=0, high=2**bits - 1).astype(np.uint8)
    block_of = np.arange(depth) // block
    zero = zeros[block_of].astype(np.float32) if has_zeros else np.float32(2 ** (bits - 1))
    real = (numbers.astype(np.float32) - zero) * scales[block_of]
    packed = packed_pairs(numbers) if bits == 4 else numbers
    x = values(*rows, depth)
    return [x, packed, None, None, scales, zeros if has_zeros else None], real


@pytest.mark.sampled(5)
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize(
    ("depth", "bits", "block"),
    [(64, 4, 32), (70, 4, 32), (35, 4, 32), (33, 4, 32), (5, 4, 16), (64, 8, 32), (37, 8, 5)],
)
def test_weights_are_unpacked_block_by_block(build, check, values, depth, bits, block, has_zeros):
    """Also where the last block is cut off, and where its last row has half a byte for itself."""
    given, real = operands(values, depth, bits, block, has_zeros)
    op = build(MatMulBlocksOp, given, bits=bits, block=block)
    arrays = [a for a in given if a is not None]
    check(op, arrays, [given[0] @ real], TOLERANCE)


def test_bias_residual_and_activation_follow(build, check, values):
    given, real = operands(values, 40, 4, 16, True, rows=(2, 3))
    bias, residual = values(COLUMNS), values(2, 3, COLUMNS)
    given[2:4] = [bias, residual]
    op = build(MatMulBlocksOp, given, bits=4, block=16, activation="relu")
    expected = np.maximum(given[0] @ real + bias + residual, 0)
    check(op, given, [expected], TOLERANCE)


@pytest.mark.parametrize("depth", [1, 6, 7])
def test_pairs_are_unpacked_as_they_were_packed(values, depth):
    numbers = values(depth, 3, dtype="int16", low=0, high=15).astype(np.uint8)
    packed = packed_pairs(numbers)
    assert packed.shape == (-(-depth // 2), 3)
    assert np.array_equal(unpacked(packed, depth), numbers)


@pytest.mark.parametrize(
    ("bits", "block", "message"),
    [
        (3, 32, "numbers of 3 bits in blocks of 32"),
        (4, 5, "numbers of 4 bits in blocks of 5"),
        (4, 16, r"its scales: \(2, 10\) of f32; \(4, 10\) of f32 expected"),
        (8, 32, r"the weight: \(32, 10\) of ui8; \(64, 10\) of ui8 expected"),
    ],
)
def test_what_does_not_fit_is_refused(build, values, bits, block, message):
    given, _ = operands(values, 64, 4, 32, False)
    with pytest.raises(ValueError, match=message):
        build(MatMulBlocksOp, given, bits=bits, block=block)


def rows_of_bytes(values, depth, block, bits, has_zeros, rows=(3,)):
    """Operands of a product of bytes with bytes, the types of those that need one, and the result
    in real numbers."""
    given, _ = operands(values, depth, bits, block, has_zeros, rows)
    _, packed, _, _, scales, zeros = given
    x = values(*rows, depth, dtype="int16", low=-127, high=127).astype(np.int8)
    x[..., :block], x[..., -1] = 127, -127  # the largest sums there are
    packed[:block] = 255
    numbers = unpacked(packed, depth, 4) if bits == 4 else packed
    block_of = np.arange(depth) // block
    zero = zeros[block_of].astype(np.float64) if has_zeros else 2.0 ** (bits - 1)
    weight = (numbers - zero) * scales[block_of]
    left_scales = values(*rows, depth // block, low=0.1)
    sums = x.reshape(*rows, -1, block).sum(axis=-1, dtype=np.int32)
    expected = (x * left_scales[..., block_of].astype(np.float64)) @ weight
    arrays = [x, packed, None, None, scales, zeros, left_scales, sums]
    kind = QuantizedType.in_blocks(ELEMENT_TYPES["int8"], len(rows), block)  # pyright: ignore
    return arrays, {0: kind}, expected.astype(np.float32)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize(
    ("depth", "bits", "block", "rows"),
    [(64, 4, 32, (3,)), (48, 4, 8, (1,)), (64, 8, 64, (2, 3)), (12, 8, 4, (1,))],
)
def test_rows_of_bytes_are_multiplied_in_integers(
    build, check, values, depth, bits, block, rows, has_zeros
):
    given, kinds, expected = rows_of_bytes(values, depth, block, bits, has_zeros, rows)
    op = build(MatMulBlocksOp, given, kinds=kinds, bits=bits, block=block)
    check(op, [a for a in given if a is not None], [expected], TOLERANCE)


def test_rows_of_bytes_take_what_follows(build, check, values):
    given, kinds, expected = rows_of_bytes(values, 32, 16, 4, True, (2, 3))
    bias, residual = values(COLUMNS), values(2, 3, COLUMNS)
    given[2:4] = [bias, residual]
    op = build(MatMulBlocksOp, given, kinds=kinds, bits=4, block=16, activation="relu")
    check(op, given, [np.maximum(expected + bias + residual, 0)], TOLERANCE)


@pytest.mark.parametrize(
    ("depth", "bits", "block", "changed", "message"),
    [
        (72, 4, 12, {}, "blocks of 12 in 72 rows: whole blocks of a multiple of 8"),
        (16, 8, 2, {}, "whole blocks of a multiple of 4"),
        (64, 4, 32, {7: None}, "both scales and sums"),
        (64, 4, 32, {7: np.zeros((3, 1), np.int32)}, "sums of rows"),
        (64, 4, 32, {6: np.zeros((3, 2), np.float64)}, "scales of rows"),
        (64, 4, 32, {0: np.zeros((3, 64), np.float32)}, "rows of f32"),
    ],
)
def test_rows_of_bytes_that_do_not_fit_are_refused(
    build, values, depth, bits, block, changed, message
):
    given, kinds, _ = rows_of_bytes(values, depth, block, bits, False)
    for position, array in changed.items():
        given[position] = array
    kinds = {} if 0 in changed else kinds
    with pytest.raises(ValueError, match=message):
        build(MatMulBlocksOp, given, kinds=kinds, bits=bits, block=block)


@pytest.mark.parametrize("groups", [1, 3])
def test_pairs_of_rows_four_apart_are_unpacked_as_they_were_packed(values, groups):
    numbers = values(8 * groups, 3, dtype="int16", low=0, high=15).astype(np.uint8)
    packed = packed_pairs(numbers, 4)
    assert np.array_equal(packed[0] & 15, numbers[0])
    assert np.array_equal(packed[0] >> 4, numbers[4])
    assert np.array_equal(unpacked(packed, 8 * groups, 4), numbers)
