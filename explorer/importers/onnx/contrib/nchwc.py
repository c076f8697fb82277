"""Operators on tensors that onnxruntime laid out in blocks of channels: com.microsoft.nchwc.

    y = ReorderInput(x); z = Conv(y, blocked w)      (N, 24 / 8, H, W, 8) in onnxruntime
 => z = top.conv(x, w)                               (N, 20, H, W) here, as before the layout

What comes out is the convolution that was laid out: weights in their usual order, without those of
channels that only fill blocks, and no reordering at all. blocks.py says which tensors are blocked.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.importers.building.expr import Expr
from explorer.importers.building.layouts import channels_first, channels_last
from explorer.importers.onnx.contrib.fused import fused_conv
from explorer.importers.onnx.images.resize import resize
from explorer.importers.onnx.operators.pooling import average_pool, global_pool, max_pool
from explorer.importers.onnx.program.blocks import NCHWC, Blocks, check_filters, unblocked
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Convert, Node, Unsupported, converts

_POOLS: dict[str, Convert] = {
    "MaxPool": max_pool.convert,
    "AveragePool": average_pool.convert,
    "GlobalMaxPool": global_pool.convert,
    "GlobalAveragePool": global_pool.convert,
}


@converts("ReorderInput", domain=NCHWC)
def reorder_input(node: Node, build: Build) -> Expr:
    """The tensor itself; `channels_last`: it has channels behind."""
    x = node.operand(0)
    x = channels_first(x) if node.integer("channels_last", 0) else x
    (own,) = x.sizes([1], "a blocked layout")
    channels = _blocks(build).channels[node.results[0]]
    missing = [0, max(channels - own, 0), *[0] * (x.rank - 2)]
    x = x.pad([0] * x.rank, missing)
    return x.slice(1, 0, channels) if channels < own else x


@converts("ReorderOutput", domain=NCHWC)
def reorder_output(node: Node, build: Build) -> Expr:
    """The first channels; `channels_last`: with channels behind."""
    _blocks(build)
    x, channels = node.operand(0), node.integer("channels")
    (own,) = x.sizes([1], "a blocked layout")
    if not 1 <= channels <= own:
        raise ValueError(f"{channels} channels of {own}")
    x = x.slice(1, 0, channels) if channels < own else x
    return channels_last(x) if node.integer("channels_last", 0) else x


@converts("Conv", domain=NCHWC)
def blocked_conv(node: Node, build: Build) -> Expr:
    """Operand 3 is added before the activation, as in FusedConv."""
    x, bias = node.operand(0), node.optional(2)
    blocks, group = _blocks(build), node.integer("group", 1)
    stored = build.known(node.operand(1), "the weight of a blocked convolution")
    check_filters(stored, blocks.size)
    filters = unblocked(stored, blocks.size)[: blocks.channels[node.results[0]]]
    (channels,) = x.sizes([1], "a blocked convolution")
    if group == 1 and filters.shape[1] >= blocks.size:
        if np.any(filters[:, channels:]):
            raise ValueError(f"the weight has {filters.shape[1]} channels, the input {channels}")
        filters = filters[:, :channels]
    elif group > 1 and filters.shape[1] == 1:
        group = len(filters)
    name = build.name_of(node.operand(1))
    weight = build.weight(np.ascontiguousarray(filters), f"{name}.unblocked")
    if bias is not None:
        numbers = build.known(bias, "the bias of a blocked convolution")
        if len(numbers) > len(filters):
            bias = build.weight(numbers[: len(filters)], f"{build.name_of(bias)}.unblocked")
    plain = replace(
        node,
        attributes={**node.attributes, "group": group},
        operands=(x, weight, bias, node.optional(3)),
    )
    return _one(fused_conv.convert(plain, build))


@converts(*_POOLS, domain=NCHWC)
def blocked_pool(node: Node, build: Build) -> Expr:
    _blocks(build)
    return _one(_POOLS[node.operator](node, build))


@converts("Upsample", domain=NCHWC)
def blocked_upsample(node: Node, build: Build) -> Expr:
    """ONNX's Resize by whole numbers; the nearest element is that before."""
    _blocks(build)
    scales = np.array(node.integers("scales") or (), np.float32)
    attributes = {
        "mode": node.text("mode", "nearest"),
        "coordinate_transformation_mode": node.text("coordinate_transformation_mode", "asymmetric"),
        "nearest_mode": "floor",
    }
    given = (node.operand(0), None, build.weight(scales))
    return _one(resize.convert(replace(node, attributes=attributes, operands=given), build))


def _blocks(build: Build) -> Blocks:
    """Unsupported where it is not known what the blocked tensors are."""
    blocks = build.graphs.blocks()
    if blocks.problem:
        raise Unsupported(blocks.problem)
    return blocks


def _one(result: object) -> Expr:
    (value,) = result if isinstance(result, list) else [result]
    assert isinstance(value, Expr)
    return value
