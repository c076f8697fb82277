"""How many channels stand side by side in a model that onnxruntime laid out for a processor.

It is 8 or 16, and the file does not say it in words. Asked in this order:

1. Sizes: 24 channels are no blocks of 16, 20 channels filled up to 32 are no blocks of 8.
2. Weights: filters of a trained network, and its channels, differ in how large their weights are.
   Read in blocks of the wrong size, weights of different ones are mixed, and differ less.
3. This machine: onnxruntime itself reads every such file as if this machine had saved it.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

import numpy as np
from onnx import GraphProto, NodeProto

from explorer.importers.onnx.file.reading import OnnxContent, subgraphs
from explorer.importers.onnx.file.tensors import read_tensor
from explorer.importers.onnx.program.blocks import (
    NCHWC,
    Lookup,
    check_filters,
    find_blocks,
    is_blocked,
    unblocked,
)
from explorer.importers.onnx.program.nodes import Unsupported
from explorer.processor import vector_floats

SIZES = (8, 16)
CERTAIN = 8.0
"""Deviations by which one reading has to be better: chance alone has less than one in 10^14."""
FILTERS = 64
"""Of each weight that are looked at: whole blocks of either size."""


def find_block_size(content: OnnxContent) -> int:
    """Unsupported where neither size is possible."""
    graphs = [g for g in _graphs(content.proto.graph, content) if is_blocked(g[0].node)]
    reasons: dict[int, str] = {}
    for size in SIZES:
        try:
            for graph, array in graphs:
                find_blocks(graph.node, array, [*graph.input, *graph.value_info], size)
        except (ValueError, IndexError) as error:
            reasons[size] = str(error)
    possible = [size for size in SIZES if size not in reasons]
    if not possible:
        said = "; ".join(f"{size}: {reason}" for size, reason in reasons.items())
        raise Unsupported(f"tensors laid out in blocks of neither 8 nor 16 channels ({said})")
    if len(possible) == 1:
        return possible[0]
    weights = [array(node.input[1]) for graph, array in graphs for node in _convolutions(graph)]
    return implied_by_weights([w for w in weights if w is not None]) or _machine_block_size()


def implied_by_weights(weights: Sequence[np.ndarray]) -> int | None:
    """The size in whose reading filters and channels differ more; None where chance may tell.

    The weights' logarithms are explained by their filter, channel and place in the window (analysis
    of variance); the sums of squares that are explained are compared, in deviations of what they
    would be for numbers without any order.
    """
    better, freedom = 0.0, 0
    for weight in weights:
        part = np.asarray(weight[:FILTERS], np.float64)
        for size in SIZES:
            check_filters(part, size)
        small, large = (_explained(unblocked(part, size)) for size in SIZES)
        better += large - small
        freedom += sum(size - 1 for size in part.shape)
    if abs(better) < CERTAIN * 2 * np.sqrt(2 * max(freedom, 1)):
        return None
    return SIZES[int(better > 0)]


def _explained(weight: np.ndarray) -> float:
    """What the axes explain of the logarithms' squares, in units of the mean square."""
    scale = np.sqrt(np.mean(weight**2))
    if not scale:
        return 0.0
    logarithms = np.log(np.abs(weight) / scale + 1e-3)
    logarithms -= logarithms.mean()
    square = np.mean(logarithms**2)
    axes = range(weight.ndim)
    means = [logarithms.mean(axis=tuple(a for a in axes if a != axis)) for axis in axes]
    explained = sum(float(np.sum(m**2)) * weight.size / m.size for m in means)
    return explained / square if square else 0.0


def _machine_block_size() -> int:
    """That with which onnxruntime lays out on this machine."""
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    return 16 if is_arm or vector_floats() == 16 else 8


def _convolutions(graph: GraphProto) -> Iterator[NodeProto]:
    return (n for n in graph.node if n.domain == NCHWC and n.op_type == "Conv")


def _graphs(graph: GraphProto, content: OnnxContent) -> Iterator[tuple[GraphProto, Lookup]]:
    """The graph and those in it, each with what looks up its constants."""
    outermost = content.weights.get

    def inner(graph: GraphProto, outer: Lookup) -> Iterator[tuple[GraphProto, Lookup]]:
        yield graph, outer
        for nested in (g for node in graph.node for g in subgraphs(node)):
            own = {t.name: t for t in nested.initializer}

            def array(name: str, own=own) -> np.ndarray | None:
                found = own.get(name)
                return outer(name) if found is None else read_tensor(found, content.folder)

            yield from inner(nested, array)

    return inner(graph, outermost)
