"""Random layers that move elements."""

from __future__ import annotations

from collections.abc import Callable

from verification.conformance.caffe.drawing import Draw, Drawn, settings


def concat(draw: Draw) -> Drawn:
    shape = draw.shape()
    axis = draw.integer(0, len(shape) - 1)
    count = draw.integer(2, 4)
    shapes = [(*shape[:axis], draw.integer(1, 5), *shape[axis + 1 :]) for _ in range(count - 1)]
    shown = draw.choice(axis, axis - len(shape))
    words = "" if axis == 1 and draw.flag() else settings("concat_param", axis=shown)
    return Drawn(inputs=[draw.numbers(s) for s in (shape, *shapes)], settings=words)


def slice_(draw: Draw) -> Drawn:
    count, axis = draw.integer(2, 4), draw.integer(1, 3)
    shape = list(draw.image())
    shape[axis] = count * draw.integer(1, 3) + count
    points = None
    if draw.flag():
        among = draw.random.permutation(shape[axis] - 1)[: count - 1] + 1
        points = sorted(int(place) for place in among)
    words = settings("slice_param", axis=axis if axis > 1 else None, slice_point=points)
    return Drawn(inputs=[draw.numbers(shape)], settings=words, tops=count)


def split(draw: Draw) -> Drawn:
    return Drawn(inputs=[draw.numbers(draw.shape())], tops=draw.integer(2, 3))


def flatten(draw: Draw) -> Drawn:
    """To two axes at least: OpenCV has no results of one."""
    shape = draw.shape()
    axis = draw.integer(1, len(shape) - 1)
    end = draw.choice(None, -1, draw.integer(axis, len(shape) - 1))
    words = settings("flatten_param", axis=axis if axis != 1 else None, end_axis=end)
    return Drawn(inputs=[draw.numbers(shape)], settings=words)


def reshape(draw: Draw) -> Drawn:
    """Sizes that are copied, computed and split, of all axes or of some."""
    batch, channels, height, width = draw.image()
    forms = (
        "shape { dim: 0 dim: -1 }",
        f"shape {{ dim: 0 dim: {height} dim: -1 dim: {channels} }}",
        f"shape {{ dim: -1 dim: {width} }}",
        f"shape {{ dim: -1 dim: {channels} }} axis: 1 num_axes: 2",
        "shape { dim: -1 } axis: 2",
        f"shape {{ dim: 1 dim: {channels * height} }} axis: 1 num_axes: 2",
    )
    x = draw.numbers((batch, channels, height, width))
    return Drawn(inputs=[x], settings=f"reshape_param {{ {draw.choice(*forms)} }}")


def permute(draw: Draw) -> Drawn:
    order = [int(axis) for axis in draw.random.permutation(4)]
    words = settings("permute_param", order=order)
    return Drawn(inputs=[draw.numbers(draw.image())], settings=words)


def crop(draw: Draw) -> Drawn:
    x = draw.image()
    axis = draw.integer(1, 3)
    like = [*x[:axis], *(draw.integer(1, size) for size in x[axis:])]
    room = [size - small for size, small in zip(x[axis:], like[axis:], strict=True)]
    offsets = [draw.integer(0, most) for most in room]
    if draw.flag():
        offsets = [draw.integer(0, min(room))]
    words = settings("crop_param", axis=axis if axis != 2 else None, offset=offsets)
    return Drawn(inputs=[draw.numbers(x), draw.numbers(like)], settings=words)


def shuffle_channel(draw: Draw) -> Drawn:
    group = draw.integer(1, 5)
    x = draw.image(group * draw.integer(1, 6))
    return Drawn(inputs=[draw.numbers(x)], settings=settings("shuffle_channel_param", group=group))


def interp(draw: Draw) -> Drawn:
    if draw.flag():
        words = settings("interp_param", height=draw.integer(1, 30), width=draw.integer(1, 30))
    else:
        words = settings("interp_param", zoom_factor=draw.integer(1, 3))
    return Drawn(inputs=[draw.numbers(draw.image())], settings=words)


def reorg(draw: Draw) -> Drawn:
    """In squares of 2, the only ones that OpenCV has."""
    batch, _, height, width = draw.image()
    shape = (batch, 4 * draw.integer(1, 4), height * 2, width * 2)
    return Drawn(inputs=[draw.numbers(shape)], settings=settings("reorg_param", stride=2))


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    "Concat": concat,
    "Crop": crop,
    "Flatten": flatten,
    "Interp": interp,
    "Permute": permute,
    "Reorg": reorg,
    "Reshape": reshape,
    "ShuffleChannel": shuffle_channel,
    "Slice": slice_,
    "Split": split,
}
