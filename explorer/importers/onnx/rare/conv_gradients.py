"""The gradients of a convolution are convolutions.

    y = conv(x, w)      x: g, spread by the strides, convolved with w turned round
                        w: x convolved with g, batch and channels exchanged, strides for dilations

Reference: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016,
chapter 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Unsupported
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.pad import PadOp

REVERSED = (-1, -1, -1)


def convolution(op: ConvOp, index: int, g: SSAValue, build: Build) -> SSAValue:
    """What a gradient g of the result gives to input (0), weight (1), bias or residual."""
    if op.requantizes is not None or op.fused_activation is not None:
        raise Unsupported("the derivative of a fused or quantized convolution is not known")
    operand, rank = op.operands[index], build.rank(op.input)
    if index == 0:
        return _input(op, g, build)
    if index == 1:
        return _weight(op, g, build)
    is_bias = build.rank(operand) == 1
    return build.reduce("sum", g, [0, *range(2, rank)]) if is_bias else g


def _input(op: ConvOp, g: SSAValue, build: Build) -> SSAValue:
    spatial = list(range(2, build.rank(op.input)))
    sizes = build.sizes(op.input, spatial, "the gradient of a convolution")
    window = build.sizes(op.weight, [1, *spatial], "the gradient of a convolution")
    results = build.sizes(g, spatial, "the gradient of a convolution")
    strides, pads, dilations = op.get("strides"), op.get("pads"), op.get("dilations")
    reach = [(n - 1) * d for n, d in zip(window[1:], dilations, strict=True)]
    low = [r - p for r, p in zip(reach, pads, strict=False)]
    # One element of x for each place of the window over the spread gradient.
    high = [
        n + r - ((m - 1) * s + 1) - before
        for n, r, m, s, before in zip(sizes, reach, results, strides, low, strict=True)
    ]
    spread = _padded(g, low, high, [s - 1 for s in strides], build)
    group = op.get("group")
    weight = build.slices(op.weight, dict.fromkeys(spatial, REVERSED))
    weight = _exchanged(_grouped(weight, group, build), build)
    weight = build.reshape(weight, [group * window[0], -1, *window[1:]])
    return _conv(spread, weight, dilations=dilations, group=group, build=build)


def _weight(op: ConvOp, g: SSAValue, build: Build) -> SSAValue:
    """Channels of a group are pictures, pictures are channels, and g is the window."""
    spatial = list(range(2, build.rank(op.input)))
    group, (batch,) = op.get("group"), build.sizes(g, [0], "the gradient of a convolution")
    sizes = build.sizes(op.input, spatial, "the gradient of a convolution")
    results = build.sizes(g, spatial, "the gradient of a convolution")
    window = build.sizes(op.weight, spatial, "the gradient of a convolution")
    strides, pads, dilations = op.get("strides"), op.get("pads"), op.get("dilations")
    low = pads[: len(spatial)]
    high = [
        (n - 1) * d + (m - 1) * s + 1 - size - before
        for n, d, m, s, size, before in zip(
            window, dilations, results, strides, sizes, low, strict=True
        )
    ]
    x = _padded(op.input, low, high, [0] * len(spatial), build)
    shape = build.sizes(x, spatial, "the gradient of a convolution")
    (inner,) = build.sizes(op.weight, [1], "the gradient of a convolution")
    # x: (N, group, inner, ...) -> (inner, group * N, ...);  g: (N, O, ...) -> (O, N, ...)
    x = build.reshape(x, [batch, group, inner, *shape])
    x = build.transpose(x, [2, 1, 0, *range(3, build.rank(x))])
    x = build.reshape(x, [inner, group * batch, *shape])
    kernel = build.transpose(g, [1, 0, *spatial])
    # (inner, O, window) -> (O, inner, window)
    found = _conv(x, kernel, strides=dilations, dilations=strides, group=group, build=build)
    return build.transpose(found, [1, 0, *spatial])


def _grouped(weight: SSAValue, group: int, build: Build) -> SSAValue:
    """(group, O / group, C / group, window...)."""
    sizes = build.sizes(weight, range(build.rank(weight)), "the gradient of a convolution")
    return build.reshape(weight, [group, sizes[0] // group, *sizes[1:]])


def _exchanged(weight: SSAValue, build: Build) -> SSAValue:
    """(group, C / group, O / group, window...)."""
    return build.transpose(weight, [0, 2, 1, *range(3, build.rank(weight))])


def _padded(
    x: SSAValue, low: Sequence[int], high: Sequence[int], interior: Sequence[int], build: Build
) -> SSAValue:
    """Spatial axes of x with zeros around and between; negative numbers take elements away."""
    before = [0, 0, *(max(n, 0) for n in low)]
    behind = [0, 0, *(max(n, 0) for n in high)]
    between = [0, 0, *interior]
    if any((*before, *behind, *between)):
        x = build.value(PadOp, [x, None], low=before, high=behind, interior=between, value=0.0)
    sizes = build.sizes(x, range(build.rank(x)), "the gradient of a convolution")
    cuts = {
        axis: (max(-a, 0), sizes[axis] - max(-b, 0), 1)
        for axis, (a, b) in enumerate(zip(low, high, strict=True), 2)
        if a < 0 or b < 0
    }
    return build.slices(x, cuts) if cuts else x


def _conv(
    x: SSAValue,
    weight: SSAValue,
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int],
    group: int,
    build: Build,
) -> SSAValue:
    rank = build.rank(x) - 2
    return build.value(
        ConvOp,
        [x, weight, None, None],
        strides=list(strides or [1] * rank),
        pads=[0] * (2 * rank),
        dilations=list(dilations),
        group=group,
    )
