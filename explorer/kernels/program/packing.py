"""Weights in the layouts and forms that scheduled kernels read.

    w (64, 3, 7, 7), pack ((0, 16, None), (1, 1, None), ..., (0, 1, 16))   ->   (4, 3, 7, 7, 16)

Filters of a kernel that convolves by Winograd are transformed as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects import func

from explorer.kernels.steps.narrow import narrowed_weights
from explorer.kernels.steps.pack import Pack, packed_shape
from explorer.kernels.steps.winograd.matrices import TAPS, transform_axes
from explorer.kernels.steps.winograd.step import winograd_weights


def pack_argument(kernel: func.FuncOp, name: str, array: np.ndarray, pack: Pack) -> np.ndarray:
    """An argument of a kernel in its packed layout, transformed first where the kernel says so."""
    is_narrow = name in narrowed_weights(kernel)
    return pack_weight(array, winograd_weights(kernel).get(name), pack, is_narrow)


def pack_weight(
    array: np.ndarray, outputs: int | None, pack: Pack, is_narrow: bool = False
) -> np.ndarray:
    """A weight in a packed layout; `outputs`: of a Winograd tile, None where it is no filter.

    `is_narrow`: rounded to halves. What is larger than halves are becomes the largest of them.
    """
    if is_narrow:
        greatest = np.finfo(np.float16).max
        array = np.clip(array, -greatest, greatest).astype(np.float16)
    return pack_array(array, pack) if outputs is None else pack_transformed(array, outputs, pack)


def packed_weight_shape(shape: Sequence[int], outputs: int | None, pack: Pack) -> tuple[int, ...]:
    """Shape of what `pack_weight` makes."""
    if outputs is not None:
        shape = (outputs + TAPS - 1, outputs + TAPS - 1, *shape[:2])
    return tuple(packed_shape(shape, pack))


def pack_transformed(array: np.ndarray, outputs: int, pack: Pack) -> np.ndarray:
    """Filters (O, C, 3, 3) as the Winograd form (m + 2, m + 2, O, C) in a packed layout.

    The filters are packed before they grow: the transform works along two dimensions, wherever
    these lie then.
    """
    places = {0: 2, 1: 3, 2: 0, 3: 1}
    packed = pack_array(array, [(places[d], divisor, modulus) for d, divisor, modulus in pack])
    axes = tuple(axis for axis, entry in enumerate(pack) if entry[0] in (0, 1))
    return transform_axes(packed, outputs, axes)


def pack_array(array: np.ndarray, pack: Pack) -> np.ndarray:
    """The array in a packed layout; what fills up the last blocks is zero.

    Each old dimension is cut into the digits that the layout asks for, then the digits are put
    in the layout's order: (dimension, divisor, modulus) is one digit.
    """
    digits: list[list[tuple[int, int]]] = []
    for dimension in range(array.ndim):
        entries = [(i, e) for i, e in enumerate(pack) if e[0] == dimension]
        entries.sort(key=lambda item: -item[1][1])
        shape = packed_shape(array.shape, pack)
        digits.append([(i, shape[i]) for i, _ in entries])
    padded = [max(prod(s for _, s in parts), 1) for parts in digits]
    widths = [(0, new - old) for old, new in zip(array.shape, padded, strict=True)]
    if any(new for _, new in widths):
        array = np.pad(array, widths)
    split = array.reshape([s for parts in digits for _, s in parts])
    order = [i for parts in digits for i, _ in parts]
    return np.ascontiguousarray(np.transpose(split, np.argsort(order)))
