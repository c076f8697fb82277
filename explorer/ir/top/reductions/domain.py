"""The iteration domain of a reduction: which axes stay, which are walked, and what lies where.

axes (1, 3) of (2, 3, 4, 5)     outer loops n=2, i=4;  inner loops c=3, j=5
                                input [n, c, i, j];  result [n, 0, i, 0] or [n, i]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.ir.interfaces import Permutation
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.definitions import CHANNELS, common_extents, loop_names
from explorer.ir.types import Shape, static_shape

Axes = tuple[int, ...]


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape after reducing `axes`; ValueError for an axis that there is not."""
    bad = [a for a in axes if not 0 <= a < len(shape)]
    if bad or len(set(axes)) != len(axes):
        raise ValueError(f"axes {list(axes)} of {shape}: 0 to {len(shape) - 1} expected, once each")
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def permutation_behind(
    permutation: Permutation, axes: Sequence[int], keepdims: bool
) -> Permutation:
    """The transpose of what is left of an operand of that one. Without `keepdims` the axes that
    remain keep their order in relation to one another."""
    if keepdims:
        return permutation
    left = [permutation[a] for a in range(len(permutation)) if a not in axes]
    return tuple(sorted(left).index(axis) for axis in left)


@dataclass(frozen=True)
class ReductionDomain:
    """The loops of a reduction: outer ones over what is kept, inner ones over the reduced axes.

    outer: loop name -> extent for every kept axis, covered by input and output; inner: the same
    for the reduced axes, in logical extents, so that padding channels are never added.
    """

    rank: int
    axes: Axes
    keepdims: bool
    outer: dict[str, int]
    inner: dict[str, int]

    @staticmethod
    def of(op: TopOperation, axes: Axes, keepdims: bool, x: Access, y: Access) -> ReductionDomain:
        logical = static_shape(op.operands[0])
        kept = [axis for axis in range(x.rank) if axis not in axes]
        names = loop_names(x.rank)
        result = [y.shape[axis if keepdims else kept.index(axis)] for axis in kept]
        extents = common_extents([x.shape[axis] for axis in kept], result)
        return ReductionDomain(
            x.rank,
            axes,
            keepdims,
            {names[axis]: extent for axis, extent in zip(kept, extents, strict=True)},
            {names[axis]: logical[axis] for axis in axes},
        )

    @property
    def count(self) -> int:
        """Elements that are reduced to one."""
        return int(np.prod(list(self.inner.values()), dtype=np.int64))

    @property
    def outer_loops(self) -> dict[str, int]:
        """At least one loop, for a reduction to a single element too."""
        return self.outer or {"one": 1}

    @property
    def all_loops(self) -> dict[str, int]:
        return {**self.outer_loops, **self.inner}

    @property
    def reductions(self) -> str:
        return " ".join(self.inner)

    def input_subscripts(self, d: Sequence) -> list:
        """Subscripts of the input from all loops' indices, which may be scalars or expressions."""
        indices = dict(zip(self.all_loops, d, strict=True))
        names = loop_names(self.rank)
        return [indices[name] for name in names]

    def output_subscripts(self, d: Sequence, zero: object = 0) -> list:
        """Subscripts of the result from the outer (or all) loops' indices."""
        if not self.outer and not self.keepdims:
            return []
        indices = dict(zip(self.outer_loops, d, strict=False))
        names = loop_names(self.rank)
        if self.keepdims:
            return [zero if axis in self.axes else indices[n] for axis, n in enumerate(names)]
        return [indices[n] for axis, n in enumerate(names) if axis not in self.axes]

    def covered_channels(self, y: Access) -> int:
        """Channels of the output that the loops write."""
        if self.keepdims and CHANNELS in self.axes:
            return 1
        extents = list(self.outer.values())
        if self.keepdims:
            names = loop_names(self.rank)
            extents = [self.outer.get(name, 1) for name in names]
        return extents[CHANNELS] if len(extents) > CHANNELS else 1
