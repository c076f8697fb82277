"""All converters, by the names of operators.

CONV_2D         products.py        RESHAPE         movement.py
MAX_POOL_2D     pooling.py         MEAN, SOFTMAX   reductions.py
ADD, LOGISTIC   elementwise.py     QUANTIZE        quantization.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.building.flat import Convert, FileNode
from explorer.importers.tflite.operators import (
    control,
    elementwise,
    images,
    indexing,
    lstm,
    mediapipe,
    movement,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    selection,
    signal,
    stablehlo,
    states,
    suppression,
)
from explorer.importers.tflite.operators.node import TfliteNode

ConvertNode = Callable[[TfliteNode, Build], Expr | Sequence[Expr]]
"""A node's results; `Unsupported` with the reason for what cannot be expressed."""


def converters() -> dict[str, Convert]:
    """What converts each operator, as a flat graph calls it."""
    found: dict[str, ConvertNode] = {
        **products.CONVERTERS,
        **pooling.CONVERTERS,
        **elementwise.CONVERTERS,
        **movement.CONVERTERS,
        **reductions.CONVERTERS,
        **quantization.CONVERTERS,
        **images.CONVERTERS,
        **recurrent.CONVERTERS,
        **lstm.CONVERTERS,
        **states.CONVERTERS,
        **indexing.CONVERTERS,
        **selection.CONVERTERS,
        **stablehlo.CONVERTERS,
        **signal.CONVERTERS,
        **suppression.CONVERTERS,
        **mediapipe.CONVERTERS,
    }
    found |= control.converters(found)
    return {name: _of_flat_graphs(convert) for name, convert in found.items()}


def _of_flat_graphs(convert: ConvertNode) -> Convert:
    """The converter with its operands in the node, and its results in the types that the file
    says."""

    @wraps(convert)
    def converted(node: FileNode, operands: Sequence[Expr | None], build: Build) -> Sequence[Expr]:
        assert isinstance(node, TfliteNode), node
        made = convert(replace(node, given=tuple(operands)), build)
        results = [made] if isinstance(made, Expr) else list(made)
        pairs = zip(results, node.results, strict=True)
        return [node.typed(value, tensor, build) for value, tensor in pairs]

    return converted
