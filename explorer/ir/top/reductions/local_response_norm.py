"""Local response normalization: each channel over its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.interfaces import Blockable
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import (
    CHANNELS,
    clear_padding_channels,
    common_extents,
    domain,
    element_type,
    scratch,
)
from explorer.ir.top.reductions.normalization import NormalizationOperation
from explorer.ir.types import Shape, layout_of, static_shape


@irdl_op_definition
class LocalResponseNormOp(Blockable, NormalizationOperation):
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta.

    AlexNet's normalization (Krizhevsky et al., 2012, section 3.3) in ONNX's form: the window
    reaches (size - 1) // 2 channels back and size // 2 ahead.
    """

    name = "top.local_response_norm"

    input = operand_def(TensorType)
    size = prop_def(IntegerAttr)
    alpha = prop_def(FloatAttr)
    beta = prop_def(FloatAttr)
    bias = prop_def(FloatAttr)
    output = result_def(TensorType)

    def check(self, shape: Shape) -> None:
        if len(shape) < 2 or self.get("size") < 1:
            raise ValueError(f"{self.name} of {shape} over {self.get('size')} channels")

    def mixed_axes(self) -> Sequence[int]:
        return (CHANNELS,)

    def reach(self, channels: int) -> tuple[int, int]:
        """Channels that the window reaches back and ahead: at most those that there are."""
        size = self.get("size")
        return min((size - 1) // 2, channels), min(size // 2, channels)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        channels, (before, after) = x.shape[CHANNELS], self.reach(x.shape[CHANNELS])
        widths = [(0, 0)] * x.ndim
        widths[CHANNELS] = (before, after)
        squares = np.pad(x * x, widths)
        reached = range(before + after + 1)
        total = sum(squares[:, offset : offset + channels] for offset in reached)
        factor = self.get("bias") + self.get("alpha") / self.get("size") * total
        return ((x / factor ** self.get("beta")).astype(x.dtype),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Squares go into scratch with empty channels at both ends, which the window may read.

        Beside a blocked tensor the scratch has its channels innermost, so that a vector of
        neighbouring channels is contiguous wherever the window begins.
        """
        (x,) = inputs
        size = self.get("size")
        before, after = self.reach(static_shape(self.input)[CHANNELS])
        bias, alpha, beta = self.get("bias"), self.get("alpha"), self.get("beta")
        extents = common_extents(x.shape, output.shape)
        extents[CHANNELS] = channels = static_shape(self.input)[CHANNELS]
        axis = len(extents) - 1 if layout_of(self.output).block else CHANNELS

        def around(d: Sequence[Subscript], channel: Subscript) -> list[Subscript]:
            others = [*d[:CHANNELS], *d[CHANNELS + 1 :]]
            return [*others[:axis], channel, *others[axis:]]

        wide = [*extents[:CHANNELS], *extents[CHANNELS + 1 :]]
        wide.insert(axis, before + channels + after)
        squares = scratch(k, "squares", wide, element_type(output))
        for first, count in ((0, before), (channels + before, after)):
            edge = list(extents)
            edge[CHANNELS] = count
            d = k.dimensions(**domain(edge))
            place = squares.at(*around(d, d[CHANNELS] + first))
            k.generic("plain", [], place, lambda s: s.constant(0))
        d = k.dimensions(**domain(extents))
        place = squares.at(*around(d, d[CHANNELS] + before))
        k.generic("plain", [x.at(*d)], place, lambda s, x: x * x)
        k.generic("init", [], output.at(*d), lambda s: s.constant(0))
        d = k.dimensions(**domain(extents), r=before + after + 1)
        k.generic(
            "main",
            [squares.at(*around(d[:-1], d[CHANNELS] + d[-1]))],
            output.at(*d[:-1]),
            lambda s, x, t: t + x,
            reductions="r",
            accumulates=True,
        )
        d = k.dimensions(**domain(extents))
        k.generic(
            "epilogue",
            [x.at(*d)],
            output.at(*d),
            lambda s, x, t: x / _power(s, t * (alpha / size) + bias, beta),
            accumulates=True,
        )
        clear_padding_channels(k, output, channels)
        return "reduce"


def _power(s: ScalarBuilder, base: Scalar, exponent: float) -> Scalar:
    """Quarters and halves by square roots, which are exact to the last bit and fast in vectors."""
    if exponent == 1:
        return base
    if exponent == 0.5:
        return base.unary(math.SqrtOp)
    if exponent == 0.75:
        root = base.unary(math.SqrtOp)
        return root * root.unary(math.SqrtOp)
    return base.power(s.constant(exponent))
