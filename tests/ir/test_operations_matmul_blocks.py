"""Products that unpack narrow weights: against the product with the real numbers, and as C."""

import numpy as np
import pytest

from explorer.ir.top.linear.matmul_blocks import MatMulBlocksOp, packed_pairs, unpacked

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
