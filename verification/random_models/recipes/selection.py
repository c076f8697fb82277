"""Results whose size only a run knows: they are outputs of the model, and no node reads them."""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import TYPES, Draft, NotPossible
from verification.random_models.recipes.recipe import recipes


def _outermost(draft: Draft) -> None:
    if draft.outer is not None:
        raise NotPossible


def non_zero(draft: Draft) -> None:
    _outermost(draft)
    x = draft.operand(TYPES, (1, 2, 3), is_exact=True)
    draft.add_last("NonZero", [x.name])


def compress(draft: Draft) -> None:
    _outermost(draft)
    x = draft.operand(TYPES, (1, 2, 3))
    axis = {"axis": draft.number(-x.rank, x.rank - 1)} if draft.flag() else {}
    size = x.shape[axis["axis"]] if axis else int(np.prod(x.shape))
    mask = draft.array("bool", (draft.number(0, size),))
    given = draft.constant(mask) if draft.flag() else draft.input("bool", mask.shape, mask).name
    draft.add_last("Compress", [x.name, given], **axis)


def unique(draft: Draft) -> None:
    _outermost(draft)
    x = draft.operand(("float32", "int64", "int8"), (1, 2), is_exact=True)
    axis = {"axis": draft.number(0, x.rank - 1)} if draft.flag() else {}
    if 0 in x.shape:
        raise NotPossible
    draft.add_last("Unique", [x.name], 4, sorted=draft.number(0, 1), **axis)


def suppression(draft: Draft) -> None:
    """Boxes on a coarse grid, so that no overlap lies near the threshold's last bits."""
    _outermost(draft)
    batch, count, classes = draft.number(1, 2), draft.number(1, 8), draft.number(1, 2)
    corners = draft.random.integers(0, 6, (batch, count, 2))
    extents = draft.random.integers(1, 5, (batch, count, 2))
    array = np.concatenate([corners, corners + extents], -1).astype(np.float32)
    boxes = draft.input("float32", array.shape, array)
    scores = draft.input("float32", (batch, classes, count))
    limits = [
        draft.constant([draft.number(1, 4)]),
        draft.constant(np.array([0.37], np.float32)),
        draft.constant(np.array([0.1], np.float32)),
    ][: draft.number(1, 3)]
    form = draft.number(0, 1)
    draft.add_last(
        "NonMaxSuppression",
        [boxes.name, scores.name, *limits],
        center_point_box=form,
    )


RECIPES = recipes(non_zero, compress, unique, suppression)
