"""Element types of results, as PyTorch finds them.

    int64 tensor + 1.5                  float32
    float16 tensor + float32 scalar     float16     a tensor without axes decides a category only
    uint8 tensor + int8 tensor          int16

Source: "Type promotion" in the documentation of `torch.Tensor`, and c10/core/ScalarType.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.file.program import Argument, Ref
from explorer.importers.pytorch.operators.node import FLOAT, AtenNode
from explorer.ir.types import is_float_dtype

_BOOL, _INTEGER, _FLOATING = range(3)


def promoted(node: AtenNode, names: Sequence[str], build: Build) -> list[Expr]:
    """Arguments, tensors or numbers, as values of one element type."""
    dtype = common_dtype(node, names)
    return [as_value(node, name, dtype, build) for name in names]


def as_value(node: AtenNode, name: str, dtype: np.dtype, build: Build) -> Expr:
    """An argument as a value of an element type; a number becomes a constant without axes."""
    found = node.argument(name)
    if isinstance(found, Ref):
        return node.given[found.name].astype(dtype)
    return constant_of(found, name, dtype, build)


def constant_of(found: Argument, name: str, dtype: np.dtype, build: Build) -> Expr:
    if not isinstance(found, bool | int | float):
        raise ValueError(f"{name} is {found!r}; a number expected")
    with np.errstate(all="ignore"):
        return build.weight(np.asarray(found).astype(dtype))


def common_dtype(node: AtenNode, names: Sequence[str]) -> np.dtype:
    """The type in which a call computes with these arguments."""
    found: list[list[np.dtype]] = [[], [], []]
    for name in names:
        argument = node.argument(name)
        if node.is_number(name):
            found[2].append(_of_number(argument))
        elif isinstance(argument, Ref):
            value = node.given[argument.name]
            found[0 if value.rank else 1].append(value.dtype)
    with_axes, without, numbers = (
        reduce(promoted_types, kinds) if kinds else None for kinds in found
    )
    dtype = _combined(with_axes, _combined(without, numbers))
    if dtype is None:
        raise ValueError(f"none of {', '.join(names)} is a tensor or a number")
    return dtype


def _of_number(argument: Argument) -> np.dtype:
    if isinstance(argument, bool):
        return np.dtype(np.bool_)
    return FLOAT if isinstance(argument, float) else np.dtype(np.int64)


def _combined(higher: np.dtype | None, lower: np.dtype | None) -> np.dtype | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if category(lower) > category(higher):
        return promoted_types(higher, lower)
    return higher


def category(dtype: np.dtype) -> int:
    if dtype == np.bool_:
        return _BOOL
    return _FLOATING if is_float_dtype(dtype) else _INTEGER


def promoted_types(first: np.dtype, second: np.dtype) -> np.dtype:
    """The type that holds both; of two narrow floats float32."""
    if first == second:
        return first
    kinds = category(first), category(second)
    if kinds == (_FLOATING, _FLOATING):
        sizes = {first.itemsize: first, second.itemsize: second}
        return sizes[max(sizes)] if len(sizes) > 1 else FLOAT
    if _FLOATING in kinds:
        return first if kinds[0] == _FLOATING else second
    return np.promote_types(first, second)


def as_float(x: Expr) -> Expr:
    """x itself where it is a float, else as float32: roots, exponentials and quotients."""
    return x if x.is_float else x.astype(FLOAT)
