"""Elementwise layers that become the end of the convolution which makes one of their operands.

    combined_with(convolution, elementwise, side)    one layer of both: the same integers
    combining_problem(convolution, elementwise, side)    why there is none

The convolution's outputs are requantized and clipped in the accumulators as they would be stored.
There they are scaled, combined with the other operand, and requantized again.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.elementwise import Elementwise
from explorer.npu.layers.layer import Layer


def combining_problem(made: Layer, reader: Elementwise, side: int) -> str:
    """Why an elementwise layer cannot be computed where `made` lies, which is its operand of that
    number; empty where it can."""
    if not isinstance(made, Convolution):
        return "its operands are made by no convolution or product with constants"
    if not made.is_scaled or made.placement is not None:
        return "what makes its operand leaves wide sums, or writes a part of it"
    if made.combined is not None:
        return "what makes its operand combines it with another tensor"
    if len(reader.operands) < 2:
        return "it reads one tensor"
    other = reader.operands[1 - side]
    if other.constant is not None:
        return "its other operand is constant"
    if other.is_wide:
        return "its other operand has wide sums, which are not rescaled"
    if {one.shape for one in reader.operands} != {made.output_shape}:
        return "it reads an operand again for several positions"
    return ""


def combined_with(made: Convolution, reader: Elementwise, side: int) -> Convolution:
    """Both as one layer, which reads what the convolution reads, then the other operand."""
    return replace(made, name=reader.name, combined=replace(reader, name=""), combined_side=side)
