"""Operators that move elements and compute nothing."""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import STORED, TYPES, Draft, NotPossible
from verification.random_models.recipes.recipe import family, recipes

ANY = (*TYPES, *TYPES, *STORED)


def reshape(draft: Draft) -> None:
    x = draft.operand(ANY)
    sizes = list(x.shape)
    draft.random.shuffle(sizes)
    if len(sizes) > 1 and draft.flag():
        sizes = [sizes[0] * sizes[1], *sizes[2:]]
    if sizes and 0 not in sizes and draft.flag():
        sizes[draft.number(0, len(sizes) - 1)] = -1
    draft.add("Reshape", [x.name, draft.constant(sizes)], allowzero=1 if 0 in sizes else 0)


def transpose(draft: Draft) -> None:
    x = draft.operand(ANY, (1, 2, 3, 4, 5))
    draft.add("Transpose", [x.name], perm=[int(a) for a in draft.random.permutation(x.rank)])


def flatten(draft: Draft) -> None:
    x = draft.operand(ANY)
    draft.add("Flatten", [x.name], axis=draft.number(-x.rank, x.rank))


def unsqueeze(draft: Draft) -> None:
    x = draft.operand(ANY, (0, 1, 2, 3))
    draft.add("Unsqueeze", [x.name, draft.constant([draft.number(-x.rank - 1, x.rank)])])


def squeeze(draft: Draft) -> None:
    x = draft.operand(ANY, (0, 1, 2, 3))
    axis = draft.number(0, x.rank)
    wide = draft.add("Unsqueeze", [x.name, draft.constant([axis])])[0]
    axes = [] if draft.flag() and 0 not in x.shape else [draft.constant([axis])]
    draft.add("Squeeze", [wide.name, *axes])


def concat(draft: Draft) -> None:
    x = draft.operand(ANY, (1, 2, 3, 4))
    axis = draft.number(0, x.rank - 1)
    parts = [x.name]
    for _ in range(draft.number(0, 2)):
        shape = [draft.number(0, 4) if a == axis else s for a, s in enumerate(x.shape)]
        parts.append(draft.like(x, shape).name)
    draft.add("Concat", parts, axis=axis - x.rank if draft.flag() else axis)


def split(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    axis = draft.number(0, x.rank - 1)
    if draft.flag():
        count = draft.number(1, 3)
        draft.add("Split", [x.name], count, axis=axis, num_outputs=count)
        return
    first = draft.number(0, x.shape[axis])
    draft.add("Split", [x.name, draft.constant([first, x.shape[axis] - first])], 2, axis=axis)


def slices(draft: Draft) -> None:
    """Ends and starts below -size are left to steps above 0: onnxruntime reads the others so that
    they stand for the last element."""
    x = draft.operand(ANY, (1, 2, 3, 4))
    axes = [int(a) for a in draft.random.permutation(x.rank)[: draft.number(1, x.rank)]]
    steps = [draft.one_of([1, 1, 2, 3, -1, -2]) for _ in axes]
    lowest = [-x.shape[a] - (1 if step > 0 else 0) for a, step in zip(axes, steps, strict=True)]
    starts = [draft.number(n, x.shape[a] + 1) for n, a in zip(lowest, axes, strict=True)]
    ends = [
        2**31 - 1 if step > 0 and draft.flag() else draft.number(n, x.shape[a] + 1)
        for n, a, step in zip(lowest, axes, steps, strict=True)
    ]
    draft.add("Slice", [x.name, *(draft.constant(n) for n in (starts, ends, axes, steps))])


def pad(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3, 4))
    mode = draft.one_of(["constant", "edge", "reflect", "wrap"])
    amounts = [draft.number(0, 2) for _ in range(2 * x.rank)]
    if mode in ("reflect", "wrap", "edge") and min(x.shape) < 3:
        raise NotPossible
    value = [draft.weight(x.dtype, ())] if mode == "constant" and draft.flag() else []
    draft.add("Pad", [x.name, draft.constant(amounts), *value], mode=mode)


def center(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    axes = [int(a) for a in draft.random.permutation(x.rank)[: draft.number(1, x.rank)]]
    sizes = draft.constant([draft.number(1, 7) for _ in axes])
    draft.add("CenterCropPad", [x.name, sizes], axes=axes)


def expand(draft: Draft) -> None:
    x = draft.operand(ANY, (0, 1, 2, 3))
    sizes = [draft.number(1, 3) if s == 1 else s for s in x.shape]
    draft.add("Expand", [x.name, draft.constant([draft.number(1, 2), *sizes])])


def tile(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    draft.add("Tile", [x.name, draft.constant([draft.number(0, 3) for _ in x.shape])])


def depth_and_space(operator: str, draft: Draft) -> None:
    dtype = draft.one_of(TYPES)
    x = draft.input(dtype, (draft.number(1, 2), 4 * draft.number(1, 2), 4, 2))
    mode = {"mode": draft.one_of(["DCR", "CRD"])} if operator == "DepthToSpace" else {}
    draft.add(operator, [x.name], blocksize=2, **mode)


def triangle(draft: Draft) -> None:
    x = draft.operand(TYPES, (2, 3))
    k = draft.constant(np.array(draft.number(-2, 2), np.int64))
    draft.add("Trilu", [x.name, k], upper=draft.number(0, 1))


def reverse_sequence(draft: Draft) -> None:
    x = draft.operand(TYPES, (2, 3))
    batch = draft.number(0, 1)
    if 0 in x.shape:
        raise NotPossible
    lengths = draft.random.integers(1, x.shape[1 - batch] + 1, x.shape[batch])
    draft.add(
        "ReverseSequence",
        [x.name, draft.constant(np.asarray(lengths, np.int64))],
        batch_axis=batch,
        time_axis=1 - batch,
    )


RECIPES = (
    *recipes(reshape, transpose, transpose, flatten, unsqueeze, squeeze, concat, split),
    *recipes(slices, slices, pad, pad, center, expand, tile, triangle, reverse_sequence),
    *family(depth_and_space, "DepthToSpace", "SpaceToDepth"),
)
