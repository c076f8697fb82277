"""Elementwise calls of two tensors and more, broadcast as NumPy does.

aten.add.Tensor(x, y, alpha=2)      x + 2 y
aten.div.Tensor(i, j)               whole numbers become float32 first
"""

from __future__ import annotations

import math

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, maximum, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import (
    as_float,
    as_value,
    common_dtype,
    promoted,
)
from explorer.importers.pytorch.operators.unary import (
    log_plus_one,
    plain_name,
    rsqrt,
    truncated,
)
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.types import element_type_from_numpy

# -- two operands ----------------------------------------------------------------------------------

# fmt: off
_BINARY = {
    "mul": "mul", "multiply": "mul", "maximum": "max", "minimum": "min", "max": "max",
    "min": "min", "fmod": "fmod", "remainder": "mod",
}
_COMPARISONS = {
    "eq": "equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "less": "less", "less_equal": "less_equal", "greater": "greater",
    "greater_equal": "greater_equal",
}
_BITS = {
    "bitwise_and": "and", "__and__": "and", "bitwise_or": "or", "__or__": "or",
    "bitwise_xor": "xor", "__xor__": "xor", "__iand__": "and", "__ior__": "or", "__ixor__": "xor",
}
_SHIFTS = {
    "bitwise_left_shift": "shift_left", "__lshift__": "shift_left",
    "bitwise_right_shift": "shift_right", "__rshift__": "shift_right",
}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
# fmt: on
_PAIR = ("self", "other")


def binary(node: AtenNode, build: Build) -> Expr:
    """Both in one element type."""
    left, right = promoted(node, _PAIR, build)
    kind = _BINARY[plain_name(node)]
    if kind == "mul" and left.dtype == np.bool_:
        kind = "and"
    if kind in ("max", "min") and left.dtype == np.bool_:
        kind = "or" if kind == "max" else "and"
    return left.binary(kind, right)


def add(node: AtenNode, build: Build) -> Expr:
    """self + alpha other"""
    left, right = promoted(node, _PAIR, build)
    return _sum("add", left, right, node)


def subtract(node: AtenNode, build: Build) -> Expr:
    """self - alpha other"""
    left, right = promoted(node, _PAIR, build)
    return _sum("sub", left, right, node)


def reversed_subtract(node: AtenNode, build: Build) -> Expr:
    """other - alpha self"""
    left, right = promoted(node, _PAIR, build)
    return _sum("sub", right, left, node)


def _sum(kind: str, left: Expr, right: Expr, node: AtenNode) -> Expr:
    if left.dtype == np.bool_:
        return left.binary("or" if kind == "add" else "xor", right)
    return left.binary(kind, right.scaled(node.scalar("alpha", 1.0)))


def divide(node: AtenNode, build: Build) -> Expr:
    """The quotient, as it is or rounded: towards zero (`trunc`), downwards (`floor`)."""
    left, right = promoted(node, _PAIR, build)
    mode = node.text("rounding_mode")
    if not mode:
        return as_float(left) / as_float(right)
    if mode == "trunc":
        return truncated(left / right)
    return _floor_divided(left, right, build)


def floor_divide(node: AtenNode, build: Build) -> Expr:
    """The quotient, rounded downwards."""
    left, right = promoted(node, _PAIR, build)
    return _floor_divided(left, right, build)


def _floor_divided(left: Expr, right: Expr, build: Build) -> Expr:
    """a / b rounded downwards: by the remainder with the sign of b where numbers are floats."""
    if left.is_float:
        rest = left % right
        exact = (left - rest) / right
        by_zero = right == 0
        # The difference may be a little off a multiple.
        return where(by_zero, left / right, exact.round())
    return left // right


def power(node: AtenNode, build: Build) -> Expr:
    """self ^ exponent"""
    dtype = common_dtype(node, ("self", "exponent"))
    if plain_name(node) == "float_power":
        dtype = node.result_dtype()
    exponent = node.argument("exponent")
    base = as_value(node, "self", dtype, build)
    if isinstance(exponent, int | float) and not isinstance(exponent, bool):
        known = {
            0.5: "sqrt",
            -1: "reciprocal",
        }.get(exponent)
        if exponent == 1:
            return base
        if exponent == 2:
            return base * base
        if known is not None and base.is_float:
            return base.unary(known)
        if exponent == -0.5 and base.is_float:
            return rsqrt(base, build)
    return base ** as_value(node, "exponent", dtype, build)


def compare(node: AtenNode, build: Build) -> Expr:
    """A comparison, true or false."""
    left, right = promoted(node, _PAIR, build)
    return left.binary(_COMPARISONS[plain_name(node)], right)


def not_equal(node: AtenNode, build: Build) -> Expr:
    """True where both differ."""
    left, right = promoted(node, _PAIR, build)
    return ~(left == right)


def logical(node: AtenNode, build: Build) -> Expr:
    """Of what is 0 or not."""
    operands = [
        as_value(node, name, common_dtype(node, [name]), build).astype(np.bool_) for name in _PAIR
    ]
    return build.binary(_LOGICAL[plain_name(node)], *operands)


def bitwise(node: AtenNode, build: Build) -> Expr:
    """Bit by bit; truth values are one bit."""
    left, right = promoted(node, _PAIR, build)
    kind = _BITS[plain_name(node)]
    return left.binary(kind if left.dtype == np.bool_ else f"bit_{kind}", right)


def shift(node: AtenNode, build: Build) -> Expr:
    """Bits moved to the left or to the right."""
    left, right = promoted(node, _PAIR, build)
    return left.binary(_SHIFTS[plain_name(node)], right)


def number_or_other(node: AtenNode, build: Build) -> Expr:
    """The larger or the smaller; where one of them is not a number, the other."""
    left, right = promoted(node, _PAIR, build)
    kind = "max" if plain_name(node) == "fmax" else "min"
    result = left.binary(kind, right)
    if not left.is_float:
        return result
    result = where(left.is_nan(), right, result)
    return where(right.is_nan(), left, result)


def atan2(node: AtenNode, build: Build) -> Expr:
    """The angle of (other, self), from -pi to pi."""
    y, x = (as_float(value) for value in promoted(node, _PAIR, build))
    return angle_of(x, y, build)


def angle_of(x: Expr, y: Expr, build: Build) -> Expr:
    """The angle of (x, y), from -pi to pi."""
    zero = x.constant(0)
    angle = (y / x).unary("atan")
    is_left, is_below = x < zero, y < zero
    half_turn = where(is_below, x.constant(-math.pi), x.constant(math.pi))
    angle = where(is_left, angle + half_turn, angle)
    return where(x == zero, y.sign().scaled(math.pi / 2), angle)


def hypot(node: AtenNode, build: Build) -> Expr:
    """The length of (self, other)."""
    left, right = promoted(node, _PAIR, build)
    return length_of(left, right, build)


def next_after(node: AtenNode, build: Build) -> Expr:
    """The number next to self on the way to other; where both are equal, other.

    Bits of floats of one sign, as whole numbers, are in the order of their sizes.
    """
    x, y = promoted(node, _PAIR, build)
    if not x.is_float:
        raise Unsupported("the number next to a whole number")
    whole = np.dtype(f"i{x.dtype.itemsize}")
    kind = element_type_from_numpy(whole)
    bits = build.value(BitcastOp, [x], to=kind)
    zero = x.constant(0.0)
    grows = (x < y) == (x > zero)
    one, minus_one = bits.constant(1), bits.constant(-1)
    step = where(grows, one, minus_one)
    moved = build.value(BitcastOp, [bits + step], to=x.element_type)
    least = build.value(BitcastOp, [one], to=x.element_type)
    from_zero = where(y < zero, -least, least)
    found = where(x == zero, from_zero, moved)
    found = where(x == y, y, found)
    return where(x.is_nan() | y.is_nan(), x + y, found)


def length_of(x: Expr, y: Expr, build: Build) -> Expr:
    """The length of (x, y)."""
    return x.binary("hypot", y)


def copy_sign(node: AtenNode, build: Build) -> Expr:
    """The size of self with the sign of other."""
    left, right = (as_float(value) for value in promoted(node, _PAIR, build))
    return left.binary("copy_sign", right)


def x_log_y(node: AtenNode, build: Build) -> Expr:
    """self log(other), 0 where self is 0."""
    x, y = (as_float(value) for value in promoted(node, _PAIR, build))
    is_plus_one = plain_name(node).endswith("log1py")
    log = log_plus_one(y, build) if is_plus_one else y.log()
    zero = x.constant(0)
    product = x * log
    product = where(x == zero, zero, product)
    return where(y.is_nan(), y, product)


def log_add_exp(node: AtenNode, build: Build) -> Expr:
    """log(e^self + e^other), or of powers of 2: the larger, and what the smaller adds to it."""
    x, y = (as_float(value) for value in promoted(node, _PAIR, build))
    return log_of_sum(x, y, math.log(2) if plain_name(node) == "logaddexp2" else 1.0, build)


def log_of_sum(x: Expr, y: Expr, unit: float, build: Build) -> Expr:
    """log(e^x + e^y) / unit of x and y in units: that of base 2 is log 2."""
    distance = abs(x - y)
    # softplus(-d) = log(1 + e^-d)
    rest = distance.scaled(-unit).softplus()
    result = maximum(x, y) + rest.scaled(1 / unit)
    return where(x == y, _plus_log2(x, unit), result)


def _plus_log2(x: Expr, unit: float) -> Expr:
    return x + math.log(2) / unit


def is_close(node: AtenNode, build: Build) -> Expr:
    """|self - other| <= atol + rtol |other|"""
    x, y = promoted(node, _PAIR, build)
    is_equal = x == y
    if not x.is_float:
        x, y = (value.astype(np.float64) for value in (x, y))
    distance = abs(x - y)
    allowed = abs(y).scaled(node.number("rtol", 1e-5)) + node.number("atol", 1e-8)
    infinite = distance.unary("is_infinite", 1.0, 1.0)
    near = (distance <= allowed) & ~infinite
    result = is_equal | near
    if node.flag("equal_nan"):
        both = x.is_nan() & y.is_nan()
        result = result | both
    return result


def heaviside(node: AtenNode, build: Build) -> Expr:
    """0 below 0 and of NaN, `values` at 0, 1 above."""
    x, values = promoted(node, ("self", "values"), build)
    zero, one = x.constant(0), x.constant(1)
    step = where(x > zero, one, zero)
    return where(x == zero, values, step)


def load_exponent(node: AtenNode, build: Build) -> Expr:
    """self 2^other"""
    x = as_float(node.operand("self"))
    return x * x.constant(2) ** as_value(node, "other", x.dtype, build)


# -- three operands --------------------------------------------------------------------------------


def conditional(node: AtenNode, build: Build) -> Expr:
    """self where the condition holds, else other."""
    condition = node.operand("condition").astype(np.bool_)
    if not node.has("self"):
        raise Unsupported("positions whose number the data decide")
    left, right = promoted(node, _PAIR, build)
    return build.value(SelectOp, [condition, left, right])


def clamp(node: AtenNode, build: Build) -> Expr:
    """self, at least min and at most max."""
    bounds = [name for name in ("min", "max") if node.has(name)]
    dtype = common_dtype(node, ["self", *bounds])
    x = as_value(node, "self", dtype, build)
    numbers = [node.argument(name) for name in bounds]
    is_known = all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
    if is_known and x.is_float:
        if bounds == ["min"] and node.number("min") == 0:
            return x.relu()
        if len(bounds) == 2:
            return x.clip(node.number("min"), node.number("max"))
    for name in bounds:
        kind = "max" if name == "min" else "min"
        x = x.binary(kind, as_value(node, name, dtype, build))
    return x


def lerp(node: AtenNode, build: Build) -> Expr:
    """self + weight (end - self)"""
    x, end = promoted(node, ("self", "end"), build)
    return x + as_value(node, "weight", x.dtype, build) * (end - x)


def add_product(node: AtenNode, build: Build) -> Expr:
    """self + value tensor1 tensor2, or the quotient of both"""
    x, first, second = promoted(node, ("self", "tensor1", "tensor2"), build)
    kind = "mul" if plain_name(node) == "addcmul" else "div"
    return x + first.binary(kind, second).scaled(node.scalar("value", 1.0))


def masked_fill(node: AtenNode, build: Build) -> Expr:
    """value where the mask holds, else self."""
    x = node.operand("self")
    mask = node.operand("mask").astype(np.bool_)
    return build.value(SelectOp, [mask, as_value(node, "value", x.dtype, build), x])


def _overloads(names: dict[str, str], *overloads: str) -> list[str]:
    return [f"{name}{overload}" for name in names for overload in ("", *overloads)]


_TENSORS = (".Tensor", ".Scalar", ".Scalar_Tensor", ".Tensor_Scalar", ".Tensor_Tensor")

CONVERTERS = {
    **{
        f"{name}{o}": binary
        for name in _BINARY
        if name not in ("max", "min")
        for o in ("", *_TENSORS)
    },
    **dict.fromkeys(_overloads(_COMPARISONS, *_TENSORS), compare),
    **dict.fromkeys(_overloads(_BITS, *_TENSORS), bitwise),
    **dict.fromkeys(_overloads(_SHIFTS, *_TENSORS, ".Tensor_Scalar"), shift),
    "max.other": binary,
    "min.other": binary,
    **dict.fromkeys(_LOGICAL, logical),
    "add.Tensor": add,
    "add.Scalar": add,
    "sub.Tensor": subtract,
    "sub.Scalar": subtract,
    "subtract.Tensor": subtract,
    "subtract.Scalar": subtract,
    "rsub.Scalar": reversed_subtract,
    "rsub.Tensor": reversed_subtract,
    **dict.fromkeys(
        [
            f"{name}.{overload}"
            for name in ("div", "divide", "true_divide")
            for overload in ("Tensor", "Scalar", "Tensor_mode", "Scalar_mode")
        ],
        divide,
    ),
    "floor_divide": floor_divide,
    "floor_divide.Scalar": floor_divide,
    **{
        f"{name}.{o}": power
        for name in ("pow", "float_power")
        for o in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")
    },
    **{f"{name}.{o}": not_equal for name in ("ne", "not_equal") for o in ("Tensor", "Scalar")},
    "fmax": number_or_other,
    "fmin": number_or_other,
    "atan2": atan2,
    "arctan2": atan2,
    "hypot": hypot,
    "nextafter": next_after,
    "copysign.Tensor": copy_sign,
    "copysign.Scalar": copy_sign,
    **{
        f"{name}.{o}": x_log_y
        for name in ("xlogy", "special_xlogy", "special_xlog1py")
        for o in ("Tensor", "Scalar_Other", "Scalar_Self", "other_scalar", "self_scalar")
    },
    "special_xlog1py": x_log_y,
    "special_xlogy": x_log_y,
    "logaddexp": log_add_exp,
    "logaddexp2": log_add_exp,
    "isclose": is_close,
    "heaviside": heaviside,
    "ldexp.Tensor": load_exponent,
    "where.self": conditional,
    "where.ScalarSelf": conditional,
    "where.ScalarOther": conditional,
    "where.Scalar": conditional,
    "clamp": clamp,
    "clamp.Tensor": clamp,
    "clip": clamp,
    "clip.Tensor": clamp,
    "clamp_min": clamp,
    "clamp_max": clamp,
    "clamp_min.Tensor": clamp,
    "clamp_max.Tensor": clamp,
    "lerp.Tensor": lerp,
    "lerp.Scalar": lerp,
    "addcmul": add_product,
    "addcdiv": add_product,
    "masked_fill.Scalar": masked_fill,
    "masked_fill.Tensor": masked_fill,
}
