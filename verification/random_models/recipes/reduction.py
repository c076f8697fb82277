"""Reductions, positions of extremes, running sums, softmax."""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import FLOATS, INTEGERS, Draft, NotPossible
from verification.random_models.recipes.recipe import family, recipes

SUMS = (*FLOATS, "int32", "int64")
EXTREMES = ("ReduceMax", "ReduceMin")
LOGARITHMS = ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean", "ReduceL1")


def reduction(operator: str, draft: Draft) -> None:
    is_extreme = operator in EXTREMES
    types = (*FLOATS, *INTEGERS, "bool") if is_extreme else SUMS
    types = FLOATS if operator in (*LOGARITHMS, "ReduceProd") else types  # no overflow
    x = draft.operand(types, is_exact=is_extreme)
    if 0 in x.shape:
        raise NotPossible
    if operator in ("ReduceLogSum", "ReduceProd"):  # a sum or product that is not near zero
        x = draft.add("Abs", [x.name])[0]
        x = draft.add("Add", [x.name, draft.constant(np.array(1, x.dtype))])[0]
    count = draft.number(0, x.rank)
    axes = [int(a) for a in draft.random.permutation(x.rank)[:count]]
    axes = [a - x.rank if draft.flag() else a for a in axes]
    operands = [x.name, draft.constant(axes)] if axes else [x.name]
    empty = {"noop_with_empty_axes": draft.number(0, 1)} if not axes else {}
    draft.add(operator, operands, keepdims=draft.number(0, 1), **empty)


def position(operator: str, draft: Draft) -> None:
    x = draft.operand((*FLOATS, *INTEGERS), (1, 2, 3, 4), is_exact=True)
    if 0 in x.shape:
        raise NotPossible
    draft.add(
        operator,
        [x.name],
        axis=draft.number(-x.rank, x.rank - 1),
        keepdims=draft.number(0, 1),
        select_last_index=draft.number(0, 1),
    )


def top_k(draft: Draft) -> None:
    x = draft.operand((*FLOATS, *INTEGERS), (1, 2, 3), is_exact=True)
    axis = draft.number(0, x.rank - 1)
    k = draft.constant([draft.number(0, x.shape[axis])])
    draft.add("TopK", [x.name, k], 2, axis=axis, largest=draft.number(0, 1), sorted=1)


def running(operator: str, draft: Draft) -> None:
    x = draft.operand(SUMS, (1, 2, 3))
    axis = draft.constant(np.array(draft.number(-x.rank, x.rank - 1), np.int64))
    flags = {"exclusive": draft.number(0, 1), "reverse": draft.number(0, 1)}
    draft.add(operator, [x.name, axis], **flags)


def normalized(operator: str, draft: Draft) -> None:
    x = draft.operand(FLOATS, (1, 2, 3, 4), is_exact=operator == "Hardmax")
    if operator == "Hardmax" and 0 in x.shape:
        raise NotPossible
    draft.add(operator, [x.name], axis=draft.number(-x.rank, x.rank - 1))


RECIPES = (
    *family(reduction, "ReduceSum", "ReduceSumSquare", "ReduceProd", *LOGARITHMS, *EXTREMES),
    *family(position, "ArgMax", "ArgMin"),
    *family(running, "CumSum"),
    *family(running, "CumProd", since=26),
    *family(normalized, "Softmax", "LogSoftmax", "Hardmax"),
    *recipes(top_k),
)
