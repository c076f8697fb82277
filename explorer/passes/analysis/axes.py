"""Which axes of two shapes hold the same elements, and what a transpose moves together.

    axis_groups((2, 3, 4, 5), (6, 4, 5))    [([0, 1], [0]), ([2], [1]), ([3], [2])]

A reshape passes an operation if the axes that the operation works on are groups of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from explorer.ir.interfaces import AxisGroup


def axis_groups(source: Sequence[int], target: Sequence[int]) -> list[AxisGroup] | None:
    """The finest grouping of the axes of two shapes of equally many elements, in order.

    Axes of extent 1 join the group before them, the first ones that behind. Of two equal shapes
    every axis is a group. None for tensors without elements.
    """
    if 0 in source or 0 in target:
        return None
    if tuple(source) == tuple(target):
        return [AxisGroup((axis,), (axis,)) for axis in range(len(source))]
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        left, right = [], []
        a = b = 1
        if i < len(source):
            left, a, i = [i], source[i], i + 1
        if j < len(target):
            right, b, j = [j], target[j], j + 1
        while a != b:
            if a < b:
                left, a, i = [*left, i], a * source[i], i + 1
            else:
                right, b, j = [*right, j], b * target[j], j + 1
        groups.append((left, right))
    return _without_units(groups, source, target)


def _without_units(
    groups: list[tuple[list[int], list[int]]], source: Sequence[int], target: Sequence[int]
) -> list[AxisGroup]:
    """Groups of one element are given to a neighbour, so that units never separate axes."""
    merged: list[tuple[list[int], list[int]]] = []
    for left, right in groups:
        is_unit = all(source[a] == 1 for a in left) and all(target[a] == 1 for a in right)
        both = len(left) == len(right) == 1
        if merged and is_unit and not both:
            merged[-1][0].extend(left)
            merged[-1][1].extend(right)
        else:
            merged.append((list(left), list(right)))
    if len(merged) > 1 and not (merged[0][0] and merged[0][1]):
        first = merged.pop(0)
        merged[0] = (first[0] + merged[0][0], first[1] + merged[0][1])
    return [AxisGroup(tuple(left), tuple(right)) for left, right in merged]


def joined_axes(
    shape: Sequence[int], permutation: Sequence[int], kept: Collection[int] = ()
) -> list[list[int]]:
    """Axes of the input that a transpose moves as one, in the input's order.

    (2, 3, 4, 5) by (2, 3, 0, 1)   ->   [[0, 1], [2, 3]]; axes of extent 1 join any neighbour.
    kept: extents of axes that join no axis in front of them.
    """
    order = [axis for axis in permutation if shape[axis] != 1]
    position = {axis: place for place, axis in enumerate(order)}
    groups: list[list[int]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        follows = groups and position[axis] == position[groups[-1][-1]] + 1
        if follows and size not in kept:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def moved_through(
    shape: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    groups: Sequence[AxisGroup],
) -> tuple[int, ...] | None:
    """The shape that an operand which broadcasts to `target` has beside one of shape `source`.

    (5,) beside (2, 3, 5), which is reshaped to (6, 5), stays (1, 1, 5). None where it varies
    along a part of a group only.
    """
    aligned = (1,) * (len(target) - len(shape)) + tuple(shape)
    result = [1] * len(source)
    for group in groups:
        own = [aligned[axis] for axis in group.target]
        whole = [target[axis] for axis in group.target]
        if own == whole:
            for axis in group.source:
                result[axis] = source[axis]
        elif any(size != 1 for size in own):
            return None
    assert int(np.prod(result)) == int(np.prod(shape))
    return tuple(result)
