"""The gradients of a convolution are convolutions.

    y = conv(x, w)      x: g, spread by the strides, convolved with w turned round
                        w: x convolved with g, batch and channels exchanged, strides for dilations

Reference: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016,
chapter 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from explorer.ir.gradients import GradientBuild
from explorer.ir.operation import TopOperation
from explorer.ir.top.movement.pad import PadOp

REVERSED = (-1, -1, -1)


def convolution_gradient(
    op: TopOperation, index: int, g: SSAValue, build: GradientBuild
) -> SSAValue:
    """What a gradient g of a convolution's result gives to input, weight, bias or residual."""
    operand, rank = op.operands[index], build.rank(op.operands[0])
    if index == 0:
        return _input(op, g, build)
    if index == 1:
        return _weight(op, g, build)
    is_bias = build.rank(operand) == 1
    return build.reduce("sum", g, [0, *range(2, rank)]) if is_bias else g


def _input(op: TopOperation, g: SSAValue, build: GradientBuild) -> SSAValue:
    spatial = list(range(2, build.rank(op.operands[0])))
    sizes = build.sizes(op.operands[0], spatial, "the gradient of a convolution")
    window = build.sizes(op.operands[1], [1, *spatial], "the gradient of a convolution")
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
    weight = build.slices(op.operands[1], dict.fromkeys(spatial, REVERSED))
    weight = _exchanged(_grouped(weight, group, build), build)
    weight = build.reshape(weight, [group * window[0], -1, *window[1:]])
    return _conv(type(op), spread, weight, dilations=dilations, group=group, build=build)


def _weight(op: TopOperation, g: SSAValue, build: GradientBuild) -> SSAValue:
    """Channels of a group are pictures, pictures are channels, and g is the window."""
    spatial = list(range(2, build.rank(op.operands[0])))
    group, (batch,) = op.get("group"), build.sizes(g, [0], "the gradient of a convolution")
    sizes = build.sizes(op.operands[0], spatial, "the gradient of a convolution")
    results = build.sizes(g, spatial, "the gradient of a convolution")
    window = build.sizes(op.operands[1], spatial, "the gradient of a convolution")
    strides, pads, dilations = op.get("strides"), op.get("pads"), op.get("dilations")
    low = pads[: len(spatial)]
    high = [
        (n - 1) * d + (m - 1) * s + 1 - size - before
        for n, d, m, s, size, before in zip(
            window, dilations, results, strides, sizes, low, strict=True
        )
    ]
    x = _padded(op.operands[0], low, high, [0] * len(spatial), build)
    shape = build.sizes(x, spatial, "the gradient of a convolution")
    (inner,) = build.sizes(op.operands[1], [1], "the gradient of a convolution")
    # x: (N, group, inner, ...) -> (inner, group * N, ...);  g: (N, O, ...) -> (O, N, ...)
    x = build.reshape(x, [batch, group, inner, *shape])
    x = build.transpose(x, [2, 1, 0, *range(3, build.rank(x))])
    x = build.reshape(x, [inner, group * batch, *shape])
    kernel = build.transpose(g, [1, 0, *spatial])
    # (inner, O, window) -> (O, inner, window)
    found = _conv(
        type(op), x, kernel, strides=dilations, dilations=strides, group=group, build=build
    )
    return build.transpose(found, [1, 0, *spatial])


def _grouped(weight: SSAValue, group: int, build: GradientBuild) -> SSAValue:
    """(group, O / group, C / group, window...)."""
    sizes = build.sizes(weight, range(build.rank(weight)), "the gradient of a convolution")
    return build.reshape(weight, [group, sizes[0] // group, *sizes[1:]])


def _exchanged(weight: SSAValue, build: GradientBuild) -> SSAValue:
    """(group, C / group, O / group, window...)."""
    return build.transpose(weight, [0, 2, 1, *range(3, build.rank(weight))])


def _padded(
    x: SSAValue,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    build: GradientBuild,
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
    kind: type[TopOperation],
    x: SSAValue,
    weight: SSAValue,
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int],
    group: int,
    build: GradientBuild,
) -> SSAValue:
    rank = build.rank(x) - 2
    return build.value(
        kind,
        [x, weight, None, None],
        strides=list(strides or [1] * rank),
        pads=[0] * (2 * rank),
        dilations=list(dilations),
        group=group,
    )
