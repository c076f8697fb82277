"""Images read at other places: resizing and grids.

Where the nearest pixel is taken, scales and grids are such that no place lies halfway.
"""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import Draft
from verification.random_models.recipes.recipe import recipes


def resize(draft: Draft) -> None:
    dtype = draft.one_of(["float32", "float32", "float16", "uint8", "int8"])
    shape = (1, draft.number(1, 3), draft.number(2, 5), draft.number(2, 5))
    x = draft.input(dtype, shape)
    factor = draft.one_of([1, 2, 3])
    mode = draft.one_of(["nearest", "linear", "cubic"] if dtype == "float32" else ["nearest"])
    how = draft.one_of(["asymmetric", "half_pixel"])
    rounding = {"nearest_mode": "floor"} if mode == "nearest" else {}
    cubic = {"cubic_coeff_a": draft.one_of([-0.75, -0.5])} if mode == "cubic" else {}
    if mode == "cubic" and draft.flag():
        cubic["exclude_outside"] = 1
    if draft.flag():
        scales = draft.constant(np.array([1, 1, 2, factor], np.float32))
        operands = [x.name, "", scales]
    else:
        operands = [x.name, "", "", draft.constant([1, shape[1], 2 * shape[2], factor * shape[3]])]
    given = {"coordinate_transformation_mode": how, **rounding, **cubic}
    draft.add("Resize", operands, 1, mode=mode, **given)


def aligned(draft: Draft) -> None:
    """Corners on corners; also smaller than before."""
    x = draft.input("float32", (1, 2, draft.number(3, 5), draft.number(3, 5)))
    sizes = draft.constant([1, 2, draft.number(2, 7), draft.number(2, 7)])
    mode = draft.one_of(["linear", "cubic"])
    how = "align_corners"
    draft.add("Resize", [x.name, "", "", sizes], 1, mode=mode, coordinate_transformation_mode=how)


def grid_sample(draft: Draft) -> None:
    dims = draft.one_of([2, 2, 3])
    spatial = [draft.number(2, 5) for _ in range(dims)]
    target = [draft.number(1, 4) for _ in range(dims)]
    batch = draft.number(1, 2)
    x = draft.input("float32", (batch, draft.number(1, 3), *spatial))
    places = draft.random.uniform(-1.2, 1.2, (batch, *target, dims)).astype(np.float32)
    grid = draft.input("float32", places.shape, places)
    modes = ["linear", "nearest"] + ["cubic"] * (dims == 2)
    draft.add(
        "GridSample",
        [x.name, grid.name],
        mode=draft.one_of(modes),
        padding_mode=draft.one_of(["zeros", "border", "reflection"]),
        align_corners=draft.number(0, 1),
    )


def affine_grid(draft: Draft) -> None:
    batch = draft.number(1, 2)
    dims = draft.number(2, 3)
    theta = draft.operand(("float32", "float64"), (3,)) if draft.flag() else None
    if theta is None or theta.shape != (batch, dims, dims + 1):
        theta = draft.input(draft.one_of(["float32", "float64"]), (batch, dims, dims + 1))
    sizes = draft.constant([batch, 2, *(draft.number(2, 4) for _ in range(dims))])
    draft.add("AffineGrid", [theta.name, sizes], align_corners=draft.number(0, 1))


RECIPES = (
    *recipes(resize, resize, aligned),
    *recipes(grid_sample, affine_grid, since=20),
)
