"""Weights in blocks that a product can unpack where it multiplies with them.

weight = block_weight(op, weights)          of a matmul; None where its right side is no such
why_not_unpacked(weight)                    empty where `top.matmul_blocks` can have it
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.constants import constant
from explorer.ir.operation import identity_of
from explorer.ir.requantization import integer_limits
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.linear.matmul_blocks import HALF_BITS
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.ir.top.support.quantized_scalars import F32
from explorer.ir.types import element_type_of, shape_of
from explorer.ir.weights import Weights


@dataclass(frozen=True)
class BlockWeight:
    """Constant numbers, scales and zero points (none: 0) of a dequantized operand."""

    op: DequantizeBlocksOp
    numbers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None

    @property
    def bits(self) -> int:
        """That a number takes where it is unpacked: 4 or 8, or more where it cannot be."""
        width = self.op.blocks.storage.width.data
        return HALF_BITS if width <= HALF_BITS else max(width, 8)

    @property
    def least(self) -> int:
        """The least number of the storage type: 0 without a sign."""
        return integer_limits(self.op.blocks.storage)[0]


def block_weight(value: SSAValue, weights: Weights) -> BlockWeight | None:
    """What a value is dequantized from, where all of that is constant."""
    op = value.owner
    if not isinstance(op, DequantizeBlocksOp):
        return None
    numbers, scales = (constant(o, weights) for o in (op.input, op.scale))
    zeros = None if op.zero_point is None else constant(op.zero_point, weights)
    if numbers is None or scales is None or (op.zero_point is not None and zeros is None):
        return None
    return BlockWeight(op, numbers, scales, zeros)


def is_product_of_blocks(op: object, value: SSAValue) -> bool:
    """Whether an operation is a product in single precision of rows with the value."""
    if not isinstance(op, MatMulOp) or op.right is not value or op.left is value:
        return False
    kinds = [element_type_of(o) for o in op.operands]
    is_known = isinstance(shape_of(op.left)[-1], int)
    return op.sums is None and all(kind == F32 for kind in kinds) and is_known


def why_not_unpacked(weight: BlockWeight) -> str:
    """Why no product unpacks the weights by itself; empty where one can."""
    op, block = weight.op, weight.op.blocks.block_size
    name = identity_of(op)
    if weight.numbers.ndim != 2 or op.blocks.axis_number != 0:
        return f"the blocks of {name} do not lie along the rows of one matrix"
    if weight.bits > 8:
        return f"{name} has numbers of more than 8 bits"
    if weight.bits == HALF_BITS and block % 2:
        return f"two rows of {name} share a byte, but no scale: a block has {block}"
    zeros = weight.zeros
    if zeros is not None and zeros.dtype.kind == "f":
        low, high = integer_limits(op.blocks.storage)
        if not np.array_equal(zeros, np.clip(np.rint(zeros), low, high)):
            return f"the zero points of {name} are no whole numbers of its type"
    return ""
