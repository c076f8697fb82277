"""Broadcasting by NumPy's rules, and the loops of elementwise operations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar

import numpy as np

from explorer.ir.interfaces import (
    CHANNELS,
    Blockable,
    Permutable,
    Permutation,
    Permuted,
    Reshapable,
    RowWise,
    SizeConstrained,
    SizeContents,
    aligned_axis,
)
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.sizes.relations import Relation, broadcast_relations
from explorer.ir.top.data import WeightOp
from explorer.ir.types import QuantizedType, Shape, element_type_of, shape_of, static_shape


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's rule, symbolic dimensions included; a symbol against 1 keeps the symbol."""
    rank = max(len(s) for s in shapes)
    result = []
    for axis in range(rank):
        sizes = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        distinct = list(dict.fromkeys(d for d in sizes if d != 1)) or [1]
        numbers = [d for d in distinct if isinstance(d, int)]
        if len(numbers) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast: sizes {numbers} at axis {axis}")
        known = [d for d in distinct if d != UNKNOWN]
        result.append(numbers[0] if numbers else (known or distinct)[0])
    return tuple(result)


def may_broadcast_to(shape: Shape, target: Shape) -> bool:
    """Whether the shape broadcasts to just the target, as far as sizes are known."""
    if len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return all(a in (1, b) or isinstance(a, str) or isinstance(b, str) for a, b in pairs)


def collapse_broadcast(
    operands: Sequence[tuple[int, ...]],
    output: tuple[int, ...],
    kept: Collection[int] = (),
) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Merges neighbouring axes that every operand either has in full or broadcasts.

    (2, 3, 8, 64) with (64,)   ->   (48, 64) with (1, 64)

    An axis as long as one of `kept` is the first of its group.
    """
    padded = [(1,) * (len(output) - len(s)) + s for s in operands]
    groups: list[list[int]] = []
    previous: tuple[bool, ...] = ()
    for axis, size in enumerate(output):
        kinds = tuple(s[axis] == size for s in padded)
        begins = size in kept and any(output[a] != 1 for group in groups[-1:] for a in group)
        if groups and (size == 1 or (kinds == previous and not begins)):
            groups[-1].append(axis)
        else:
            groups.append([axis])
            previous = kinds

    def merge(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(np.prod([shape[a] for a in group])) for group in groups)

    return [merge(s) for s in padded], merge(output)


class ElementwiseOperation(RowWise, SizeConstrained, Permutable, Reshapable, Blockable):
    """What all elementwise operations share: plain buffers are seen with as few axes as can be.

    Every element of the result is computed from the elements at its place in the operands, which
    broadcast.
    """

    BROADCASTS: ClassVar[bool] = True

    def kernel_shapes(
        self,
        operands: list[tuple[int, ...]],
        output: tuple[int, ...],
        kept: Collection[int] = (),
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        return collapse_broadcast(operands, output, kept)

    def carried_axis(self, index: int, axis: int) -> int:
        return aligned_axis(self, index, axis)

    def permuted(self, permutation: Permutation) -> Permuted:
        """Parameters of the result that belong to one axis would have to move with it."""
        made = element_type_of(self.results[0])
        if isinstance(made, QuantizedType) and not made.is_per_tensor:
            raise ValueError("it has a scale for every slice of an axis")
        return Permuted({}, permutation)

    def why_not_blocked(self, block: int) -> str:
        if not self.keeps_finite:
            return "it may make infinities of the zeros in padding channels"
        shape = static_shape(self.results[0])
        for operand in self.operands:
            own = static_shape(operand)
            if isinstance(operand.owner, WeightOp):
                continue  # it is laid out as the result needs it
            if len(own) == len(shape) and own[CHANNELS] in (1, shape[CHANNELS]):
                continue
            if len(own) > 2 and own[-3] != 1:
                return "an input of another rank reaches across channels"
        return "it has a single channel" if shape[CHANNELS] == 1 else ""

    def shares_blocks(self, index: int) -> bool:
        """Not where it is broadcast along the channels."""
        own, shape = shape_of(self.operands[index]), shape_of(self.results[0])
        return len(own) == len(shape) and own[CHANNELS] == shape[CHANNELS]

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        return broadcast_relations([shape_of(o) for o in self.operands])


def iteration(shape: Sequence[int]) -> dict[str, int]:
    """Names for the loops over a shape: n, c, h, w for images, d0, d1 ... otherwise."""
    if len(shape) == 4:
        return dict(zip("ncij", shape, strict=True))
    return {f"d{i}": size for i, size in enumerate(shape)} or {"d0": 1}
