"""Reading and writing at places that other tensors name."""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import FLOATS, STORED, TYPES, Draft, NotPossible
from verification.random_models.recipes.recipe import recipes

MODES = ("none", "add", "mul", "max", "min")


def gather(draft: Draft) -> None:
    x = draft.operand((*TYPES, *STORED), (1, 2, 3))
    axis = draft.number(-x.rank, x.rank - 1)
    indices = _indices(draft, x.shape[axis], draft.sizes(draft.number(0, 2), 4))
    draft.add("Gather", [x.name, indices], axis=axis)


def gather_elements(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    axis = draft.number(0, x.rank - 1)
    shape = [draft.number(0, 4) if a == axis else s for a, s in enumerate(x.shape)]
    indices = _indices(draft, x.shape[axis], shape)
    draft.add("GatherElements", [x.name, indices], axis=axis)


def gather_nd(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    depth = draft.number(1, x.rank)
    rows = draft.sizes(draft.number(0, 2), 3)
    if 0 in x.shape[:depth]:
        raise NotPossible
    columns = [draft.random.integers(-x.shape[a], x.shape[a], rows) for a in range(depth)]
    draft.add("GatherND", [x.name, draft.constant(np.stack(columns, -1).astype(np.int64))])


def gather_nd_batch(draft: Draft) -> None:
    x = draft.operand(TYPES, (2, 3))
    if 0 in x.shape:
        raise NotPossible
    indices = draft.random.integers(-x.shape[1], x.shape[1], (x.shape[0], draft.number(1, 3), 1))
    draft.add("GatherND", [x.name, draft.constant(np.asarray(indices, np.int64))], batch_dims=1)


def scatter_elements(draft: Draft) -> None:
    """Every place is written at most once, unless what is written is added up."""
    mode = draft.one_of(MODES)
    x = draft.operand(TYPES if mode == "none" else FLOATS, (1, 2), is_exact=True)
    axis = draft.number(0, x.rank - 1)
    if 0 in x.shape:
        raise NotPossible
    count = draft.number(1, x.shape[axis])
    shape = tuple(count if a == axis else s for a, s in enumerate(x.shape))
    places = np.moveaxis(np.zeros(shape, np.int64), axis, -1)
    for row in np.ndindex(places.shape[:-1]):
        places[row] = draft.random.permutation(x.shape[axis])[:count]
    indices = draft.constant(np.ascontiguousarray(np.moveaxis(places, -1, axis)))
    updates = draft.weight(x.dtype, shape)
    draft.add("ScatterElements", [x.name, indices, updates], axis=axis, reduction=mode)


def scatter_nd(draft: Draft) -> None:
    mode = draft.one_of(MODES)
    x = draft.operand(TYPES if mode == "none" else FLOATS, (1, 2, 3), is_exact=True)
    if 0 in x.shape:
        raise NotPossible
    rows = draft.number(1, x.shape[0])
    indices = draft.random.permutation(x.shape[0])[:rows].reshape(-1, 1).astype(np.int64)
    updates = draft.weight(x.dtype, (rows, *x.shape[1:]))
    draft.add("ScatterND", [x.name, draft.constant(indices), updates], reduction=mode)


def tensor_scatter(draft: Draft) -> None:
    """A cache of keys or values that gets new rows."""
    batch, length, width = draft.number(1, 2), draft.number(3, 6), draft.number(1, 4)
    new = draft.number(1, 3)
    cache = draft.input(draft.one_of(("float32", "float16", "int32")), (batch, length, width))
    update = draft.like(cache, (batch, new, width))
    mode = draft.one_of(["linear", "circular"])
    last = length - 1 if mode == "circular" else length - new
    indices = np.asarray(draft.random.integers(0, last + 1, batch), np.int64)
    operands = [cache.name, update.name, draft.constant(indices)]
    draft.add("TensorScatter", operands, axis=1, mode=mode)


def one_hot(draft: Draft) -> None:
    shape = draft.sizes(draft.number(0, 2), 4)
    indices = np.asarray(draft.random.integers(-5, 5, shape))
    kind = draft.one_of(["int64", "int32", "float32"])
    given = draft.input(kind, shape, indices.astype(kind))
    depth = draft.constant(np.array(5, np.int64))
    values = draft.weight(draft.one_of(["float32", "int64", "int32"]), (2,))
    operands = [given.name, depth, values]
    draft.add("OneHot", operands, axis=draft.number(-len(shape) - 1, len(shape)))


def _indices(draft: Draft, extent: int, shape) -> str:
    """Indices inside [-extent, extent), constant or from an input; `NotPossible` where there is
    nothing to point at."""
    if extent == 0:
        raise NotPossible
    dtype = draft.one_of(["int32", "int64"])
    indices = np.asarray(draft.random.integers(-extent, extent, shape)).astype(dtype)
    return draft.constant(indices) if draft.flag() else draft.input(dtype, shape, indices).name


RECIPES = (
    *recipes(gather, gather_elements, gather_nd, gather_nd_batch, scatter_elements, scatter_nd),
    *recipes(one_hot),
    *recipes(tensor_scatter, since=24),
)
