"""Numbers that a program computes from sizes, and what it asserts of them: i64 scalars.

%n = aten.sym_size.int(%x, 0)       the size of an axis
%m = _operator.mul(%n, 2)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.attention_scores import length
from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, where
from explorer.importers.pytorch.file.program import Ref
from explorer.importers.pytorch.operators.node import AtenNode

_ARITHMETIC = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "mod": "mod",
    "pow": "pow",
    "eq": "equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "and_": "and",
    "or_": "or",
}
_DOUBLE, _LONG = np.dtype(np.float64), np.dtype(np.int64)


def size(node: AtenNode, build: Build) -> Expr:
    """How many elements an axis has."""
    x = node.operand("self")
    axis = build.axis(node.integer("dim", build), x.rank)
    known = x.size(axis)
    return build.weight(np.array(known, np.int64)) if known is not None else length(x, axis, build)


def count(node: AtenNode, build: Build) -> Expr:
    """How many elements a tensor has."""
    x = node.operand("self")
    known = x.sizes(range(x.rank), "the number of elements")
    return build.weight(np.array(int(np.prod(known)), np.int64))


def arithmetic(node: AtenNode, build: Build) -> Expr:
    """Whole numbers, or those of double precision."""
    kind = node.call.target.split(".")[1]
    values = [_value(node, name, build) for name in node.call.arguments]
    if kind in ("neg", "not_"):
        return values[0].unary("neg" if kind == "neg" else "not")
    left, right = _alike(values)
    if kind == "floordiv":
        return (left - left % right) / right
    if kind == "truediv":
        left, right = (value.astype(np.float64) for value in (left, right))
        return left / right
    if kind == "ne":
        return ~(left == right)
    return left.binary(_ARITHMETIC[kind], right)


def extreme(node: AtenNode, build: Build) -> Expr:
    """The larger or the smaller of two."""
    values = [_value(node, name, build) for name in node.call.arguments]
    left, right = _alike(values)
    return left.binary("max" if node.call.target.endswith("max") else "min", right)


def to_float(node: AtenNode, build: Build) -> Expr:
    """As a number of double precision."""
    return _value(node, node.first(), build).astype(np.float64)


def to_integer(node: AtenNode, build: Build) -> Expr:
    """As a whole number: rounded towards zero, downwards or upwards."""
    value = _value(node, node.first(), build)
    kind = node.call.target.split(".")[1]
    if kind in ("floor", "ceil") and value.is_float:
        value = value.unary(kind)
    return value.astype(np.int64)


def square_root(node: AtenNode, build: Build) -> Expr:
    """The square root of a number, in double precision."""
    return _value(node, node.first(), build).astype(np.float64).sqrt()


def one_of(node: AtenNode, build: Build) -> Expr:
    """One of two numbers."""
    condition, *values = (_value(node, name, build) for name in node.call.arguments)
    left, right = _alike(values)
    return where(condition.astype(np.bool_), left, right)


def item(node: AtenNode, build: Build) -> Expr:
    """The only element of a tensor, as a number."""
    x = node.operand("self")
    scalar = x.reshape([]) if x.rank else x
    if x.dtype == np.bool_:
        return scalar
    return scalar.astype(np.float64 if x.is_float else np.int64)


def nothing(node: AtenNode, build: Build) -> Sequence[Expr]:
    """What a program asserts of its sizes and indices, which it does not compute with."""
    del node, build
    return []


def _value(node: AtenNode, name: str, build: Build) -> Expr:
    found = node.argument(name)
    if isinstance(found, Ref):
        return node.given[found.name]
    if not isinstance(found, bool | int | float):
        raise ValueError(f"{name} is {found!r}; a number expected")
    if isinstance(found, bool):
        return build.weight(np.array(found))
    return build.weight(np.array(found, _LONG if isinstance(found, int) else _DOUBLE))


def _alike(values: Sequence[Expr]) -> list[Expr]:
    if len(values) != 2:
        raise ValueError(f"{len(values)} numbers; two expected")
    if values[0].dtype == values[1].dtype:
        return list(values)
    is_float = any(value.is_float for value in values)
    return [value.astype(_DOUBLE if is_float else _LONG) for value in values]


CONVERTERS = {
    "aten.sym_size.int": size,
    "aten.sym_numel": count,
    "aten.numel": count,
    **{
        f"_operator.{kind}": arithmetic
        for kind in (*_ARITHMETIC, "floordiv", "truediv", "ne", "neg", "not_")
    },
    "torch.sym_max": extreme,
    "torch.sym_min": extreme,
    "torch.sym_float": to_float,
    "torch.sym_int": to_integer,
    "torch._sym_sqrt": square_root,
    "torch.sym_sqrt": square_root,
    "math.floor": to_integer,
    "math.ceil": to_integer,
    "math.trunc": to_integer,
    "torch.sym_ite": one_of,
    "aten.item": item,
    "aten._local_scalar_dense": item,
    **dict.fromkeys(
        (
            "aten._assert_async.msg",
            "aten._assert_scalar",
            "aten._assert_tensor_metadata",
            "aten.sym_constrain_range",
            "aten.sym_constrain_range_for_size",
            "aten._assert_async",
            "aten._linalg_check_errors",
        ),
        nothing,
    ),
}
