"""Shapes as numbers, and tensors that are made from nothing but sizes."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from verification.random_models.draft import TYPES, Draft
from verification.random_models.recipes.recipe import recipes


def shape(draft: Draft) -> None:
    x = draft.operand(TYPES, (0, 1, 2, 3))
    limits = {"start": draft.number(-x.rank - 1, x.rank), "end": draft.number(-x.rank, x.rank + 1)}
    draft.add("Shape", [x.name], **(limits if draft.flag() else {}))


def size(draft: Draft) -> None:
    draft.add("Size", [draft.operand(TYPES).name])


def reshaped_like(draft: Draft) -> None:
    """The way in which exported models pass shapes on: Shape, Gather, Concat, Reshape."""
    x = draft.operand(TYPES, (2, 3))
    sizes = draft.add("Shape", [x.name])[0]
    first = draft.add("Gather", [sizes.name, draft.constant([0])])[0]
    target = draft.add("Concat", [first.name, draft.constant([-1])], axis=0)[0]
    if 0 not in x.shape:
        draft.add("Reshape", [x.name, target.name])


def constant(draft: Draft) -> None:
    array = draft.array(draft.one_of(TYPES), draft.sizes(draft.number(0, 3)))
    draft.add("Constant", [], value=numpy_helper.from_array(array))


def filled(draft: Draft) -> None:
    value = draft.array(draft.one_of(TYPES), (1,))
    sizes = draft.constant(list(draft.sizes(draft.number(0, 3))))
    given = {"value": numpy_helper.from_array(value)} if draft.flag() else {}
    draft.add("ConstantOfShape", [sizes], **given)


def filled_like(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    sizes = draft.add("Shape", [x.name])[0]
    value = numpy_helper.from_array(draft.array(draft.one_of(TYPES), (1,)))
    draft.add("ConstantOfShape", [sizes.name], value=value)


def diagonal(draft: Draft) -> None:
    x = draft.operand(TYPES, (2,))
    dtype = draft.one_of(["float32", "float64", "int32", "int64"])
    target = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    draft.add("EyeLike", [x.name], k=draft.number(-2, 2), dtype=target)


def numbers(draft: Draft) -> None:
    dtype = draft.one_of(["float32", "float64", "int16", "int32", "int64"])
    start, step = draft.number(-3, 3), draft.one_of([-2, -1, 1, 2])
    limits = (start, start + step * draft.number(0, 6), step)
    draft.add("Range", [draft.constant(np.array(n, dtype)) for n in limits])


RECIPES = recipes(shape, size, reshaped_like, constant, filled, filled_like, diagonal, numbers)
