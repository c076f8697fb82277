"""Pools of MediaPipe that remember where the maximum was, and their inverse.

    custom.MaxPoolingWithArgmax2D(x)        the maximum of each window, and its place: y * width + x
    custom.MaxUnpooling2D(maxima, places)   each maximum at its place, zeros elsewhere

Places are floats, 0.1 above a whole number, so that cutting them gives that number. Options are
those of `TfLitePoolParams`, as i32: padding, strides of width and height, width and height of the
window, activation.
Source: mediapipe/util/tflite/operations/{max_pool_argmax,max_unpooling}.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.tflite.operators.activations import activated
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.importers.tflite.operators.windows import same_padding

_SAME, _VALID = 1, 2
_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH")
_ABOVE = 0.1
"""What a place is above its whole number."""


@dataclass(frozen=True)
class _Options:
    is_same: bool
    strides: tuple[int, int]
    """Of height and width, as the window."""
    window: tuple[int, int]
    activation: str

    @property
    def places(self) -> list[tuple[int, int]]:
        """All of a window, row by row."""
        return list(product(range(self.window[0]), range(self.window[1])))


def pool_with_places(node: TfliteNode, build: Build) -> list[Expr]:
    """The maximum of the elements of a window that lie in the image, and the first place of it.

    Where nothing is above the least float, NaN neither, that float is the maximum, at place 0.
    """
    node.require_plain()
    options, x = _options(node), node.plain(0)
    least = float(np.finfo(np.float32).min)
    padded, counts = _padded(x, options, least, build)
    largest: Expr = build.weight(np.full((1, 1, 1, 1), least, np.float32))
    place: Expr = build.weight(np.full((1, 1, 1, 1), _ABOVE, np.float32))
    for number, offsets in enumerate(options.places):
        part = padded.slices(
            {
                axis: (start, start + (count - 1) * stride + 1, stride)
                for axis, start, stride, count in zip(
                    (1, 2), offsets, options.strides, counts, strict=True
                )
            }
        )
        is_above = part > largest
        here = part.constant(float(np.float32(number) + np.float32(_ABOVE)))
        largest = where(is_above, part, largest)
        place = where(is_above, here, place)
    return [activated(largest, options.activation), place]


def unpool(node: TfliteNode, build: Build) -> Expr:
    """Each element at its place in a window of zeros; windows lie side by side."""
    node.require_plain()
    options, x, places = _options(node), node.plain(0), node.plain(1)
    if options.strides != options.window:
        raise Unsupported(f"windows of {options.window} that move by {options.strides}")
    if x.rank != 4 or x.shape != places.shape:
        raise ValueError(f"places {places.shape} of elements {x.shape}")
    number = places.astype(np.int32)
    zero = x.constant(0.0)
    height, width = options.window
    rows = []
    for row in range(height):
        parts = []
        for column in range(width):
            here = number.constant(row * width + column)
            part = where(number == here, x, zero)
            parts.append(part.unsqueeze([2, 4]))
        rows.append(build.concat(parts, 4))
    count, own_height, own_width, channels = x.sizes(range(4), "images")
    # (N, H, rows, W, columns, C)
    return build.concat(rows, 2).reshape([count, own_height * height, own_width * width, channels])


def _padded(x: Expr, options: _Options, value: float, build: Build) -> tuple[Expr, list[int]]:
    """The image with what windows reach around it, and how many windows there are."""
    if x.rank != 4:
        raise ValueError(f"images of {x.rank} axes; 4 expected")
    known = x.sizes([1, 2], "windows")
    low, high, counts = [0, 0, 0, 0], [0, 0, 0, 0], []
    for axis, (size, width, stride) in enumerate(
        zip(known, options.window, options.strides, strict=True)
    ):
        if options.is_same:
            total = same_padding(size, width, stride)
            low[1 + axis], high[1 + axis] = total // 2, total - total // 2
        counts.append((size + low[1 + axis] + high[1 + axis] - width) // stride + 1)
    if min(counts) < 1:
        raise ValueError(f"windows of {options.window} over images of {known}")
    return x.pad(low, high, value), counts


def _options(node: TfliteNode) -> _Options:
    found = np.frombuffer(node.file.custom_options[:24], np.int32).tolist()
    if len(found) != 6:
        raise ValueError("its options are missing")
    padding, stride_w, stride_h, width, height, activation = found
    if padding not in (_SAME, _VALID) or min(stride_w, stride_h, width, height) < 1:
        raise ValueError(f"options {found}")
    if not 0 <= activation < len(_ACTIVATIONS):
        raise Unsupported(f"the fused activation {activation}")
    return _Options(
        padding == _SAME, (stride_h, stride_w), (height, width), _ACTIVATIONS[activation]
    )


CONVERTERS = {
    "custom.MaxPoolingWithArgmax2D": pool_with_places,
    "custom.MaxUnpooling2D": unpool,
}
