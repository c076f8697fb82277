"""The operators of StableHLO that LiteRT executes, on plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.ir.top.movement.pad import PadOp, fill_properties


def binary(node: TfliteNode, build: Build) -> Expr:
    """Both operands, element by element."""
    node.require_plain()
    kind, of_booleans = _BINARY[node.operator]
    is_boolean = node.tensor(0).element_type == "bool"
    return node.plain(0).binary(of_booleans if is_boolean else kind, node.plain(1))


_BINARY = {
    "STABLEHLO_ADD": ("add", "or"),
    "STABLEHLO_MULTIPLY": ("mul", "and"),
    "STABLEHLO_MAXIMUM": ("max", "or"),
    "STABLEHLO_MINIMUM": ("min", "and"),
    "STABLEHLO_AND": ("bit_and", "and"),
    "STABLEHLO_SHIFT_LEFT": ("shift_left", "shift_left"),
}


def pad(node: TfliteNode, build: Build) -> Expr:
    """Elements before, behind and between those of each axis; below zero they are cut off."""
    node.require_plain()
    low, high, interior = (
        node.integers(name)
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    x, value = node.plain(0), build.scalar(node.plain(1), "what is padded with")
    before, behind = ([max(size, 0) for size in sizes] for sizes in (low, high))
    y = _padded(x, before, behind, interior, value, build)
    sizes = y.sizes(range(y.rank), "padding")
    bounds = {
        axis: (max(-first, 0), size - max(-last, 0), 1)
        for axis, (size, first, last) in enumerate(zip(sizes, low, high, strict=True))
        if min(first, last) < 0
    }
    return y.slices(bounds) if bounds else y


def _padded(
    x: Expr,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    value: float,
    build: Build,
) -> Expr:
    amounts = {"low": low, "high": high, "interior": interior}
    return build.value(PadOp, [x, None], **amounts, **fill_properties(value))


def dilate(node: TfliteNode, build: Build) -> Expr:
    """A number between the elements of each axis."""
    node.require_plain()
    x = node.plain(0)
    between = np.array(node.integers_of(1, "how far elements lie apart", build)) - 1
    if between.min(initial=0) < 0:
        raise ValueError(f"elements {(between + 1).tolist()} apart")
    value = build.scalar(node.plain(2), "what stands between")
    none = [0] * x.rank
    return _padded(x, none, none, between.tolist(), value, build)


CONVERTERS = {
    **dict.fromkeys(_BINARY, binary),
    "STABLEHLO_PAD": pad,
    "DILATE": dilate,
}
