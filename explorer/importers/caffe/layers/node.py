"""A layer for its converter: operands, weights and settings.

x = node.operand(0)
weight = node.weight(0, (20, 1, 5, 5), build)       of this shape, or of so many elements
node.settings_of.integer("num_output", 0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.errors import ModelError
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.flat import FileNode
from explorer.importers.caffe.file.network import Layer
from explorer.importers.caffe.file.prototxt import Message


@dataclass(frozen=True, kw_only=True)
class CaffeNode(FileNode):
    """One layer of a net."""

    layer: Layer
    given: Sequence[Expr | None] = ()
    """The values of its bottoms, then its weights."""

    @property
    def own(self) -> Message:
        """The settings of its kind."""
        return self.layer.settings

    @property
    def bottoms(self) -> list[Expr]:
        return [value for value in self.given[: len(self.layer.bottoms)] if value is not None]

    def operand(self, index: int) -> Expr:
        if index >= len(self.bottoms):
            raise ValueError(f"bottom {index} is missing")
        return self.bottoms[index]

    def weight(self, index: int, shape: Sequence[int], build: Build) -> Expr:
        """Weights in a shape; files of old forms have sizes of 1 in front.

        Unsupported where they are missing, so that all such layers are named at once.
        """
        value = self._weight(index)
        known = tuple(value.sizes(range(value.rank), "weights"))
        if known == tuple(shape):
            return value
        if math.prod(known) != math.prod(shape):
            expected, got = ("x".join(map(str, s)) or "1" for s in (shape, known))
            raise ModelError(
                f"blob {index} has shape {got}; {expected} expected",
                hint="is this the net's own caffemodel? --weights FILE names another one",
            )
        return value.reshape(list(shape))

    def numbers(self, index: int, count: int, build: Build) -> np.ndarray:
        """The contents of weights, for what is computed from them while importing."""
        array = build.stored(self._weight(index))
        if array is None or array.size != count:
            raise ValueError(f"blob {index} has not the {count} numbers that are expected")
        return array.reshape(-1)

    def _weight(self, index: int) -> Expr:
        at = len(self.layer.bottoms) + index
        value = self.given[at] if at < len(self.given) else None
        if value is None:
            raise Unsupported(f"its weights are missing (blob {index})")
        return value


def enum_of(word: str, names: Sequence[str]) -> str:
    """A value of an enumeration, which may be written by its number; Unsupported for others."""
    if word.isdigit() and int(word) < len(names):
        return names[int(word)]
    if word not in names:
        raise Unsupported(f"{word}, which is none of {', '.join(filter(None, names))}")
    return word
