"""Pools: windows, and whole planes."""

from __future__ import annotations

from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nodes import Node, converts
from explorer.importers.onnx.windows import Window, window_of
from explorer.ir.top.movement import PadOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reduction import ReduceOp


@converts("MaxPool")
def max_pool(node: Node, build: Build) -> SSAValue:
    x = node.operand(0)
    window, surplus = _window(node, x, build)
    return _pool("max", x, window, surplus, None, build)


@converts("AveragePool")
def average_pool(node: Node, build: Build) -> SSAValue:
    """What `ceil_mode` adds at the end never counts, what `pads` add counts if asked.

    Where both meet, the pads become elements of the input first.
    """
    x = node.operand(0)
    window, surplus = _window(node, x, build)
    counts = bool(node.integer("count_include_pad", 0))
    if not counts or not any(surplus):
        # Without pads all windows have the same size: the division is by a constant.
        is_constant = counts or not any((*window.pads, *surplus))
        return _pool("average", x, window, surplus, is_constant, build)
    if any(window.pads):
        low, high = [0, 0, *window.begins], [0, 0, *window.ends]
        x = build.value(PadOp, [x, None], low=low, high=high, interior=[0] * len(low), value=0.0)
    zeros = (0,) * window.rank
    unpadded = Window(window.sizes, window.strides, window.dilations, zeros, zeros)
    return _pool("average", x, unpadded, surplus, False, build)


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node, build: Build) -> SSAValue:
    x = node.operand(0)
    kind = "max" if node.operator == "GlobalMaxPool" else "mean"
    return build.value(ReduceOp, [x], kind=kind, axes=list(range(2, build.rank(x))), keepdims=True)


def _window(node: Node, x: SSAValue, build: Build) -> tuple[Window, tuple[int, ...]]:
    """The window, and what `ceil_mode` adds behind the end pads."""
    sizes = node.integers("kernel_shape")
    if sizes is None:
        raise ValueError("attribute kernel_shape is missing")
    window = window_of(node, x, sizes, build)
    if not node.integer("ceil_mode", 0) or set(window.strides) == {1}:
        return window, (0,) * window.rank
    known = build.sizes(x, range(2, 2 + window.rank), "ceil_mode")
    return window, tuple(window.surplus(axis, size) for axis, size in enumerate(known))


def _pool(
    kind: str,
    x: SSAValue,
    window: Window,
    surplus: tuple[int, ...],
    includes_padding: bool | None,
    build: Build,
) -> SSAValue:
    ends = [end + more for end, more in zip(window.ends, surplus, strict=True)]
    return build.value(
        PoolOp,
        [x],
        kind=kind,
        window=window.sizes,
        strides=window.strides,
        pads=[*window.begins, *ends],
        dilations=window.dilations,
        includes_padding=includes_padding,
    )
