"""Sums of products, and what is done with them before they are requantized.

    takes_sums(user), is_of_sums(op)    whether layers read through an operation, to the sums
    sums_behind(value)                  the product or sum whose 32 bits these are
    arithmetic_behind(value, values)    what they are multiplied by, and what is added
    numbers_behind(value)               the quantized numbers that were only made wider

A file that states a factor and an offset which the factor does not divide means
(sum * factor + offset) >> shift in 32 bits: both are done before the requantization.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.top.casting import BitcastOp, CastOp
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import QuantizedType, element_type_of, shape_of, static_shape
from explorer.npu.layers.convolution import Affine
from explorer.npu.layers.data_movement import MOVES
from explorer.npu.layers.layer import wrapped
from explorer.npu.layers.products import Values
from explorer.npu.layers.value_layout import channel_axis, stored_form


def takes_sums(user: Operation) -> bool:
    """Whether it is a requantization of sums, or leads to nothing but those."""
    if isinstance(user, RequantizeOp):
        return sums_behind(user.input) is not None
    leads = isinstance(user, BitcastOp | CastOp | ReduceOp) or _is_arithmetic(user)
    leads = leads or (isinstance(user, MOVES) and user.is_view)
    if not leads or not isinstance(user, TopOperation):
        return False
    users = [use.operation for use in user.results[0].uses]
    return bool(users) and all(takes_sums(one) for one in users)


def is_of_sums(op: TopOperation) -> bool:
    """Whether a requantization behind it reads through it, and not from it."""
    if isinstance(op, ConvOp | MatMulOp):
        return op.requantization is None
    if isinstance(op, ReduceOp):
        return numbers_behind(op.input) is not None
    return not isinstance(op, BinaryOp) or _is_arithmetic(op)


def _is_arithmetic(op: object) -> bool:
    """Whether it multiplies the channels of sums by constants, or adds some, modulo 2^32."""
    if not isinstance(op, BinaryOp) or op.kind.data not in ("add", "mul"):
        return False
    constants = [v for v in op.operands if isinstance(v.owner, WeightOp)]
    if len(constants) != 1 or element_type_of(op.output) != IntegerType(32):
        return False
    sizes, shape = static_shape(constants[0]), shape_of(op.output)
    if shape_of(_computed(op)) != shape:
        return False
    axis = channel_axis(len(shape)) - len(shape)
    return all(size == 1 or at - len(sizes) == axis for at, size in enumerate(sizes))


def _computed(op: BinaryOp) -> SSAValue:
    """The operand that is no constant."""
    return op.right if isinstance(op.left.owner, WeightOp) else op.left


def _chain(value: SSAValue) -> tuple[list[BinaryOp], SSAValue]:
    """The last one first, and what the first one works on."""
    found: list[BinaryOp] = []
    value = _through_views(value)
    while _is_arithmetic(value.owner):
        assert isinstance(value.owner, BinaryOp)
        found.append(value.owner)
        value = _computed(value.owner)
        while isinstance(value.owner, BitcastOp):
            value = value.owner.operands[0]
    return found, value


def arithmetic_behind(value: SSAValue, values: Values) -> Affine | None:
    """What is done with sums before they are these numbers; None where nothing is."""
    chain, sums = _chain(value)
    if not chain:
        return None
    (count,) = stored_form(sums).shape[:1]
    multipliers, addends = np.ones(count, np.int64), np.zeros(count, np.int64)
    for op in chain:
        (constant,) = (v for v in op.operands if isinstance(v.owner, WeightOp))
        numbers = values.constant(constant, "an operand").astype(np.int64).reshape(-1)
        if op.kind.data == "add":
            addends = wrapped(addends + multipliers * numbers)
        else:
            multipliers = wrapped(multipliers * numbers)
    return Affine(multipliers=multipliers, addends=addends)


def _through_views(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, BitcastOp) or (
        isinstance(value.owner, MOVES) and value.owner.is_view
    ):
        value = value.owner.operands[0]
    return value


def sums_behind(value: SSAValue) -> ConvOp | MatMulOp | ReduceOp | None:
    """The product or sum whose 32 bits these are, seen otherwise, times and plus constants."""
    op = _chain(value)[1].owner
    if isinstance(op, ConvOp | MatMulOp) and op.requantization is None:
        return op
    is_sum = isinstance(op, ReduceOp) and numbers_behind(op.input) is not None
    return op if isinstance(op, ReduceOp) and is_sum else None


def numbers_behind(value: SSAValue) -> SSAValue | None:
    """The quantized numbers that were only made wider, seen otherwise."""
    if isinstance(value.owner, CastOp):
        value = value.owner.operands[0]
        if isinstance(value.owner, BitcastOp):
            value = value.owner.operands[0]
            return value if isinstance(element_type_of(value), QuantizedType) else None
    return None
