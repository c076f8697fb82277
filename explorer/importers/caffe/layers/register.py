"""All converters, by the kinds of layers.

Convolution, InnerProduct    products.py       Pooling            pooling.py
ReLU, Eltwise, Scale         elementwise.py    BatchNorm, LRN     normalization.py
Concat, Reshape, Slice       movement.py       Interp, Padding    images.py
PriorBox, DetectionOutput    detection.py      ROIPooling         regions.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.building.flat import Convert, FileNode
from explorer.importers.caffe.layers import (
    detection,
    elementwise,
    images,
    movement,
    normalization,
    pooling,
    products,
    regions,
)
from explorer.importers.caffe.layers.node import CaffeNode

ConvertLayer = Callable[[CaffeNode, Build], Expr | Sequence[Expr]]
"""A layer's results; `Unsupported` with the reason for what cannot be expressed."""


def converters() -> dict[str, Convert]:
    """What converts each kind, as a flat graph calls it."""
    found: dict[str, ConvertLayer] = {
        **products.CONVERTERS,
        **pooling.CONVERTERS,
        **elementwise.CONVERTERS,
        **normalization.CONVERTERS,
        **movement.CONVERTERS,
        **images.CONVERTERS,
        **regions.CONVERTERS,
        **detection.CONVERTERS,
    }
    return {kind: _of_flat_graphs(convert) for kind, convert in found.items()}


def _of_flat_graphs(convert: ConvertLayer) -> Convert:
    """The converter with its operands in the node; every result has a top."""

    @wraps(convert)
    def converted(node: FileNode, operands: Sequence[Expr | None], build: Build) -> Sequence[Expr]:
        assert isinstance(node, CaffeNode), node
        made = convert(replace(node, given=tuple(operands)), build)
        results = [made] if isinstance(made, Expr) else list(made)
        if len(results) != len(node.outputs):
            raise ValueError(f"{len(node.outputs)} results are named; it has {len(results)}")
        return results

    return converted
