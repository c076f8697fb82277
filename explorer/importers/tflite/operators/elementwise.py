"""Elementwise operators.

ADD, SUB, MUL       floats: top.binary; quantized numbers: top.fixed_point, gemmlowp's roundings
LOGISTIC, RELU ...  floats: top.unary; bytes: top.lookup, the table of what the kernel computes
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.tflite.operators import quantized_pairs
from explorer.importers.tflite.operators.activations import activated, limits
from explorer.importers.tflite.operators.integers import (
    kept_within,
    rounded_shift,
    stored_as,
)
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.importers.tflite.operators.schemes import DOUBLE, rounded_away
from explorer.importers.tflite.operators.tables import TABLES, looked_up
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.types import QuantizedType, element_type_from_numpy


def arithmetic(node: TfliteNode, build: Build) -> Expr:
    """Both operands, broadcast, and the fused activation.

    Of quantized numbers in fixed point: sums at twice the larger scale, products as they are, each
    requantized with two roundings.
    """
    kind = _ARITHMETIC[node.operator]
    if node.is_quantized:
        return _fixed_point(node, kind, build)
    return activated(node.plain(0).binary(kind, node.plain(1)), node.activation)


def _fixed_point(node: TfliteNode, kind: str, build: Build) -> Expr:
    to = node.require_quantized()
    if kind not in ("add", "sub", "mul"):
        raise Unsupported(f"{kind} of quantized numbers")
    if kind != "mul" and (shifts := _shifts(node, to)) is not None:
        return _shifted_sum(node, kind, shifts, to, build)
    by = RequantizationAttr.get(to, DOUBLE, limits(to, node.activation))
    operands = [node.operand(0, build), node.operand(1, build)]
    return build.value(FixedPointOp, operands, kind=kind, by=by)


def _shifts(node: TfliteNode, to: QuantizedType) -> tuple[int, int] | None:
    """Of sums of 16 bits with scales that are powers of two: by how many bits the operands are
    shifted to the right. None where the general form is meant."""
    if node.result.element_type != "int16" or not node.options.get("pot_scale_int16", True):
        return None
    kinds = [kind_of(node.tensor(index)) for index in (0, 1)]
    if any(kind is None for kind in kinds):
        return None
    scales = [float(kind.scale_array[0]) for kind in (*kinds, to) if kind is not None]
    exponents = [math.log2(scale) for scale in scales]
    if not all(exponent.is_integer() for exponent in exponents):
        return None
    left, right = (int(exponents[2] - exponent) for exponent in exponents[:2])
    if min(left, right) != 0:
        raise Unsupported(f"scales {scales}: one operand has the result's, none a larger one")
    return left, right


def _shifted_sum(
    node: TfliteNode, kind: str, shifts: tuple[int, int], to: QuantizedType, build: Build
) -> Expr:
    """Source: tensorflow/lite/kernels/internal/reference/add.h, of int16 with `pot_scale`."""
    a, b = (
        rounded_shift(as_stored(node.operand(index, build), build).astype(np.int32), by)
        for index, by in enumerate(shifts)
    )
    return stored_as(kept_within(a.binary(kind, b), limits(to, node.activation)), to, build)


_ARITHMETIC = {"ADD": "add", "SUB": "sub", "MUL": "mul", "DIV": "div"}


def binary(node: TfliteNode, build: Build) -> Expr:
    """Both operands, broadcast; quantized ones are compared by what they stand for."""
    kind = _BINARY[node.operator]
    if node.is_quantized and kind in _COMPARISONS:
        return quantized_pairs.compared(node, kind, build)
    node.require_plain()
    return node.plain(0).binary(kind, node.plain(1))


_COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")
_BINARY = {
    "POW": "pow",
    "FLOOR_MOD": "mod",
    "LOGICAL_AND": "and",
    "LOGICAL_OR": "or",
    "BITWISE_XOR": "bit_xor",
    "RIGHT_SHIFT": "shift_right",
    "EQUAL": "equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
}


def extremum(node: TfliteNode, build: Build) -> Expr:
    """The larger or smaller of both operands, which have the result's scale."""
    operands = [as_stored(node.operand(index, build), build) for index in (0, 1)]
    kind = node.result_kind
    if kind is not None and any(kind_of(node.tensor(i)) != kind for i in (0, 1)):
        raise Unsupported("of operands with scales other than the result's")
    return build.binary(_EXTREMA[node.operator], *operands)


_EXTREMA = {"MAXIMUM": "max", "MINIMUM": "min"}


def not_equal(node: TfliteNode, build: Build) -> Expr:
    """Whether both operands differ."""
    if node.is_quantized:
        return ~quantized_pairs.compared(node, "equal", build)
    return ~(node.plain(0) == node.plain(1))


def squared_difference(node: TfliteNode, build: Build) -> Expr:
    """(a - b)^2"""
    if node.is_quantized:
        return quantized_pairs.squared_difference(node, build)
    difference = node.plain(0) - node.plain(1)
    return difference * difference


def floor_div(node: TfliteNode, build: Build) -> Expr:
    """The quotient rounded down."""
    node.require_plain()
    a, b = node.plain(0), node.plain(1)
    if a.is_float:
        return (a / b).floor()
    return a // b


def unary(node: TfliteNode, build: Build) -> Expr:
    """A function of each element; of bytes a table of what the kernel computes of each."""
    if node.is_quantized:
        return _tabulated(node, build)
    kind, alpha, beta = _UNARY[node.operator]
    return node.plain(0).unary(kind, alpha, beta)


_UNARY: dict[str, tuple[str, float | None, float | None]] = {
    "ABS": ("abs", None, None),
    "CEIL": ("ceil", None, None),
    "COS": ("cos", None, None),
    "ELU": ("elu", 1.0, None),
    "EXP": ("exp", None, None),
    "FLOOR": ("floor", None, None),
    "HARD_SWISH": ("hard_swish", None, None),
    "LOG": ("log", None, None),
    "LOGICAL_NOT": ("not", None, None),
    "LOGISTIC": ("sigmoid", None, None),
    "NEG": ("neg", None, None),
    "RELU": ("relu", None, None),
    "RELU6": ("clip", 0.0, 6.0),
    "RELU_0_TO_1": ("clip", 0.0, 1.0),
    "RELU_N1_TO_1": ("clip", -1.0, 1.0),
    "ROUND": ("round", None, None),
    "SIGN": ("sign", None, None),
    "SIN": ("sin", None, None),
    "SQRT": ("sqrt", None, None),
    "TANH": ("tanh", None, None),
}


def rsqrt(node: TfliteNode, build: Build) -> Expr:
    """1 / sqrt(x)"""
    node.require_plain()
    return node.plain(0).sqrt().reciprocal()


def square(node: TfliteNode, build: Build) -> Expr:
    """x * x"""
    node.require_plain()
    return node.plain(0) * node.plain(0)


def gelu(node: TfliteNode, build: Build) -> Expr:
    """x times the normal distribution's share below x, or its approximation by tanh."""
    node.require_plain()
    return node.plain(0).unary("gelu_tanh" if node.options.get("approximate") else "gelu")


def leaky_relu(node: TfliteNode, build: Build) -> Expr:
    """x, or alpha * x below zero."""
    if node.is_quantized:
        return _tabulated(node, build)
    return node.plain(0).unary("leaky_relu", node.number("alpha"))


def prelu(node: TfliteNode, build: Build) -> Expr:
    """x, or slope * x below zero; the slope is a tensor that broadcasts."""
    if not node.is_quantized:
        return node.plain(0).binary("prelu", node.plain(1))
    to = node.require_quantized()
    kinds = [kind_of(node.tensor(index)) for index in (0, 1)]
    if node.result.element_type == "int16" or any(k is None or not k.is_per_tensor for k in kinds):
        raise Unsupported("of numbers of 16 bits, or with a scale for each slice")
    operands = [node.operand(0, build), node.operand(1, build)]
    return build.value(FixedPointOp, operands, kind="prelu", by=RequantizationAttr.get(to, DOUBLE))


def select(node: TfliteNode, build: Build) -> Expr:
    """Elements of the second operand where the first is true, else of the third."""
    kinds = {kind_of(node.tensor(index)) for index in (1, 2)} | {node.result_kind}
    if len(kinds) > 1:
        raise Unsupported("of operands with scales other than the result's")
    condition = node.plain(0)
    a, b = (as_stored(node.operand(index, build), build) for index in (1, 2))
    if node.operator == "SELECT" and condition.rank == 1 and a.rank > 1:
        condition = condition.unsqueeze(range(1, a.rank))  # whole rows
    return where(condition, a, b)


def cast(node: TfliteNode, build: Build) -> Expr:
    """Elements in another type."""
    node.require_plain()
    return node.plain(0).astype(np.dtype(node.result.element_type))


def add_n(node: TfliteNode, build: Build) -> Expr:
    """The sum of all operands."""
    node.require_plain()
    total = node.plain(0)
    for index in range(1, len(node.given)):
        total = total + node.plain(index)
    return total


def zeros_like(node: TfliteNode, build: Build) -> Expr:
    """Zeros in the operand's shape."""
    node.require_plain()
    x = node.plain(0)
    return x.constant(0).broadcast_to(x.all_sizes())


def atan2(node: TfliteNode, build: Build) -> Expr:
    """The angle of the point (second operand, first operand), between -pi and pi.

    The sign of a zero says on which side of an axis the point lies, as in C.
    """
    node.require_plain()
    y, x = node.plain(0), node.plain(1)
    zero, half_turn = x.constant(0), x.constant(np.pi)
    is_left, is_below = (_has_minus(value, build) for value in (x, y))
    steep = y.sign() * (np.pi / 2)
    is_zero, is_level = (value == zero for value in (x, y))
    divisor = where(is_zero, 1, x)
    angle = (y / divisor).unary("atan")
    turn = where(is_below, -half_turn, half_turn)
    turned = where(is_left, angle + turn, angle)
    return where(is_zero & ~is_level, steep, turned)


def _has_minus(x: Expr, build: Build) -> Expr:
    """Whether the sign of a float is set."""
    whole = np.dtype(f"int{8 * x.dtype.itemsize}")
    return build.value(BitcastOp, [x], to=element_type_from_numpy(whole)) < 0


def bitcast(node: TfliteNode, build: Build) -> Expr:
    """The same bits as another type of the same width."""
    node.require_plain()
    target, x = np.dtype(node.result.element_type), node.plain(0)
    if target.itemsize != x.dtype.itemsize:
        raise Unsupported(f"{x.dtype} as {target}, of another width")
    return build.value(BitcastOp, [x], to=element_type_from_numpy(target))


def fake_quant(node: TfliteNode, build: Build) -> Expr:
    """Floats as whole steps within limits, which are moved so that zero is one of the steps.

    Source: tensorflow/lite/kernels/internal/quantization_util.cc, `NudgeQuantizationRange`.
    """
    node.require_plain()
    x, single = node.plain(0), np.float32
    low, high = single(node.number("min")), single(node.number("max"))
    bits = node.integer("num_bits")
    if node.options.get("narrow_range"):
        raise Unsupported("a narrow range, which the kernels refuse, too")
    least, most = 0, (1 << bits) - 1
    if not low <= 0 <= high or low == high or not 2 <= bits <= 16:
        raise ValueError(f"{bits} bits from {low} to {high}")
    scale = single((high - low) / single(most - least))
    zero = single(np.clip(rounded_away(np.asarray(single(least) - low / scale)), least, most))
    first, last = (single(single(single(end) - zero) * scale) for end in (least, most))
    kept = x.clip(float(first), float(last))
    shifted = kept - float(first)
    steps = shifted * float(single(1) / scale)
    whole = steps.floor()
    return (whole + (steps - whole >= 0.5).astype(np.float32)) * float(scale) + float(first)


def _tabulated(node: TfliteNode, build: Build) -> Expr:
    """A function of bytes."""
    to = node.require_quantized()
    function = TABLES.get(node.operator)
    if function is None:
        raise Unsupported("of quantized numbers it cannot be imported yet")
    return looked_up(node, node.operand(0, build), to, function, build)


_Convert = Callable[[TfliteNode, Build], Expr]

CONVERTERS: dict[str, _Convert] = {
    **dict.fromkeys(_ARITHMETIC, arithmetic),
    **dict.fromkeys(_BINARY, binary),
    **dict.fromkeys(_EXTREMA, extremum),
    **dict.fromkeys(_UNARY, unary),
    "NOT_EQUAL": not_equal,
    "SQUARED_DIFFERENCE": squared_difference,
    "FLOOR_DIV": floor_div,
    "RSQRT": rsqrt,
    "SQUARE": square,
    "GELU": gelu,
    "LEAKY_RELU": leaky_relu,
    "PRELU": prelu,
    "SELECT": select,
    "SELECT_V2": select,
    "CAST": cast,
    "ADD_N": add_n,
    "ZEROS_LIKE": zeros_like,
    "ATAN2": atan2,
    "BITCAST": bitcast,
    "FAKE_QUANT": fake_quant,
}
