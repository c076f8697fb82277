"""Windows over images: pooling and its inverse."""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import Draft, NotPossible
from verification.random_models.recipes.recipe import family, recipes

FLOATS = ("float32", "float32", "float64", "float16")


def pooling(operator: str, draft: Draft) -> None:
    dims = draft.one_of([1, 2, 2, 3])
    spatial = [draft.number(5, 8) for _ in range(dims)]
    types = (*FLOATS, "int8", "uint8") if operator == "MaxPool" else FLOATS
    shape = (draft.number(1, 2), draft.number(1, 18), *spatial)
    x = draft.input(draft.one_of(types), shape)
    windows = {
        "strides": [draft.number(1, 2) for _ in range(dims)],
        "pads": [draft.number(0, 1) for _ in range(2 * dims)],
        "dilations": [draft.number(1, 2) for _ in range(dims)],
    }
    kernel = [draft.number(2, 3) for _ in range(dims)]
    own = {
        "AveragePool": {"count_include_pad": draft.number(0, 1)},
        "LpPool": {"p": draft.number(1, 3)},
    }.get(operator, {})
    results = draft.number(1, 2) if operator == "MaxPool" else 1
    draft.add(
        operator,
        [x.name],
        results,
        kernel_shape=kernel,
        ceil_mode=draft.number(0, 1),
        **windows,
        **own,
    )


def unpooling(draft: Draft) -> None:
    """Of the values and places that a MaxPool found."""
    x = draft.input("float32", (1, draft.number(1, 3), 4, 6))
    values, places = draft.add("MaxPool", [x.name], 2, kernel_shape=[2, 2], strides=[2, 2])
    sizes = [draft.constant(list(x.shape))] if draft.flag() else []
    draft.add("MaxUnpool", [values.name, places.name, *sizes], kernel_shape=[2, 2], strides=[2, 2])


def global_pooling(operator: str, draft: Draft) -> None:
    x = draft.operand(FLOATS, (3, 4, 5))
    if 0 in x.shape:
        raise NotPossible
    own = {"p": draft.number(1, 3)} if operator == "GlobalLpPool" else {}
    draft.add(operator, [x.name], **own)


def regions(draft: Draft) -> None:
    """Boxes at quarters of a pixel, shifted so that no sample lies on an edge."""
    x = draft.input("float32", (draft.number(1, 2), draft.number(1, 3), 8, 8))
    count = draft.number(1, 3)
    corners = draft.random.integers(0, 12, (count, 2)) / 4 + 0.11
    extents = draft.random.integers(4, 16, (count, 2)) / 4
    boxes = draft.constant(np.concatenate([corners, corners + extents], 1).astype(np.float32))
    owners = draft.constant(np.asarray(draft.random.integers(0, x.shape[0], count), np.int64))
    draft.add(
        "RoiAlign",
        [x.name, boxes, owners],
        output_height=draft.number(1, 3),
        output_width=draft.number(1, 3),
        sampling_ratio=draft.number(0, 2),
        spatial_scale=draft.one_of([1.0, 0.5]),
        mode="avg",  # onnxruntime says of itself that its maximum is wrong
        coordinate_transformation_mode=draft.one_of(["half_pixel", "output_half_pixel"]),
    )


RECIPES = (
    *family(pooling, "MaxPool", "AveragePool", "LpPool"),
    *family(global_pooling, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"),
    *recipes(unpooling, regions),
)
