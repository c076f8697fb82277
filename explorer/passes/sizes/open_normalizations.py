"""Normalizations over open axes, spelled out: their sums end with the sizes of a call.

    %y = top.layer_norm(%x) {axis = 1}             axis 1 is open
 => %m = top.reduce(%x) {kind = "mean"};  %d = %x - %m
    %v = top.reduce(%d * %d) {kind = "mean"};  %y = %d / sqrt(%v + epsilon)

Means over open axes are those of `open_operations.py`. Narrow floats are computed in f32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.top.casting import CastOp
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.reductions.normalization import InstanceNormOp, LayerNormOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import element_type_of, numpy_dtype, shape_of, static_shape
from explorer.passes.sizes.call_numbers import CallNumbers


def spelled_out(
    op: LayerNormOp | InstanceNormOp, numbers: CallNumbers
) -> tuple[list[TopOperation], SSAValue]:
    """The operations of a normalization, inserted before it, and the value of its result."""
    writing = _Writing(op, numbers)
    rank = len(shape_of(op.input))
    if isinstance(op, LayerNormOp):
        axes, is_centered = range(op.get("axis"), rank), op.is_centered
        scale, shift = op.scale, op.shift
    else:
        axes, is_centered = range(2, rank), True
        own = [-1, *[1] * (rank - 2)]
        scale, shift = (writing.reshaped(p, own) for p in (op.scale, op.shift))
    x = writing.wide(op.input)
    if is_centered:
        x = writing.binary("sub", x, writing.mean(x, axes))
    variance = writing.mean(writing.binary("mul", x, x), axes)
    kind = numpy_dtype(element_type_of(x))
    epsilon = numbers.weight(op, "epsilon", np.array(op.get("epsilon"), kind))
    root = writing.added(UnaryOp.make([writing.binary("add", variance, epsilon)], kind="sqrt"))
    y = writing.binary("div", x, root)
    for role, parameter in (("mul", scale), ("add", shift)):
        if parameter is not None:
            y = writing.binary(role, y, writing.wide(parameter))
    if element_type_of(y) != element_type_of(op.output):
        y = writing.added(CastOp.make([y], to=element_type_of(op.output)))
    return writing.made, y


class _Writing:
    def __init__(self, op: TopOperation, numbers: CallNumbers) -> None:
        self.op, self.numbers = op, numbers
        self.made: list[TopOperation] = []

    def added(self, op: TopOperation) -> SSAValue:
        self.made.append(op)
        return self.numbers.added(self.op, op)

    def binary(self, kind: str, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.added(BinaryOp.make([left, right], kind=kind))

    def mean(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        return self.added(ReduceOp.make([value], kind="mean", axes=list(axes), keepdims=True))

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        sizes = [static_shape(value)[0] if size < 0 else size for size in shape]
        return self.added(ReshapeOp.make([value, None], shape=sizes))

    def wide(self, value: SSAValue) -> SSAValue:
        if numpy_dtype(element_type_of(value)).itemsize >= 4:
            return value
        return self.added(CastOp.make([value], to=f32))
