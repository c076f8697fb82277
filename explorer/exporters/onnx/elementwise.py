"""Elementwise operations as ONNX nodes: `top.unary`, `top.binary`, `top.select`, casts."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from explorer.exporters.onnx.nodes import (
    Nodes,
    Unwritable,
    Value,
    dtype_of,
    forbid_quantized,
    onnx_type,
    writes,
)
from explorer.ir.top.casting import BitcastOp, CastOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp, UnaryOp
from explorer.ir.top.support.unary_kinds import UNARY
from explorer.ir.types import element_type_of, stored_type

LARGEST_POWER = 62
"""Of two, among integers of 64 bits."""

UNARY_OPERATORS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "hard_swish": "HardSwish",
    "mish": "Mish",
    "tanh": "Tanh",
    "erf": "Erf",
    "gelu": "Gelu",
    "softplus": "Softplus",
    "neg": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
    "not": "Not",
    "bit_not": "BitwiseNot",
    "is_nan": "IsNaN",
}
"""Kinds without parameters."""

BINARY_OPERATORS = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "max": "Max",
    "min": "Min",
    "prelu": "PRelu",
    "and": "And",
    "or": "Or",
    "xor": "Xor",
    "bit_and": "BitwiseAnd",
    "bit_or": "BitwiseOr",
    "bit_xor": "BitwiseXor",
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}


@writes(UnaryOp)
def unary(op: UnaryOp, out: Nodes) -> str:
    forbid_quantized(op)
    kind = op.kind.data
    table = UNARY[kind]
    alpha, beta = op.get("alpha", table.alpha), op.get("beta", table.beta)
    return unary_node(out, kind, op.input, dtype_of(op.input), alpha, beta)


def unary_node(out: Nodes, kind: str, x: Value, dtype: np.dtype, alpha: float, beta: float) -> str:
    """A kind of `top.unary` of x, whose element type is given."""
    match kind:
        case "leaky_relu" | "elu":
            operator = "LeakyRelu" if kind == "leaky_relu" else "Elu"
            return out.node(operator, x, alpha=float(alpha))
        case "clip":
            return out.node("Clip", x, _bound(out, alpha, dtype), _bound(out, beta, dtype))
        case "hard_sigmoid":
            return out.node("HardSigmoid", x, alpha=float(alpha), beta=float(beta))
        case "relu" if dtype == np.int64:  # of which onnxruntime has no Relu
            return out.node("Max", x, out.constant(_scalar(0, dtype)))
        case "silu":
            scaled = x if alpha == 1 else out.node("Mul", x, out.constant(_scalar(alpha, dtype)))
            return out.node("Mul", x, out.node("Sigmoid", scaled))
        case "gelu_tanh":
            return out.node("Gelu", x, approximate="tanh")
        case "is_infinite":
            return out.node("IsInf", x, detect_positive=int(alpha), detect_negative=int(beta))
        case _ if kind in UNARY_OPERATORS:
            return out.node(UNARY_OPERATORS[kind], x)
    raise Unwritable(f"ONNX has no {kind}")


def _bound(out: Nodes, number: float, dtype: np.dtype) -> str | None:
    return None if math.isinf(number) else out.constant(_scalar(number, dtype))


def _scalar(number: float, dtype: np.dtype) -> np.ndarray:
    return np.asarray(number).astype(dtype)


@writes(BinaryOp)
def binary(op: BinaryOp, out: Nodes) -> str:
    forbid_quantized(op)
    kind, left, right = op.kind.data, op.left, op.right
    is_float = isinstance(element_type_of(left), AnyFloat)
    match kind:
        case "fmod":
            return out.node("Mod", left, right, fmod=1)
        case "mod" if is_float:
            # ONNX has the remainder with the dividend's sign only: moved to the divisor's.
            rest = out.node("Mod", left, right, fmod=1)
            zero = out.number(0, left)
            is_other = out.node("Less", out.node("Mul", rest, right), zero)
            return out.node("Where", is_other, out.node("Add", rest, right), rest)
        case "mod":
            return out.node("Mod", left, right)
        case "hypot":
            return _length(left, right, out)
        case "copy_sign":
            # Of -0 the reciprocal has the sign that a comparison with 0 does not see.
            zero, one = out.number(0, right), out.number(1, right)
            is_zero = out.node("Equal", right, zero)
            seen = out.node("Where", is_zero, out.node("Div", one, right), right)
            size = out.node("Abs", left)
            is_negative = out.node("Less", seen, zero)
            return out.node("Where", is_negative, out.node("Neg", size), size)
        case "shift_left" | "shift_right":
            if not dtype_of(left).name.startswith("u"):
                return _shifted(op, out)
            direction = "LEFT" if kind == "shift_left" else "RIGHT"
            return out.node("BitShift", left, right, direction=direction)
        case _ if kind in BINARY_OPERATORS:
            return out.node(BINARY_OPERATORS[kind], left, right)
    raise Unwritable(f"ONNX has no {kind}")


def _length(left: SSAValue, right: SSAValue, out: Nodes) -> str:
    """large sqrt(1 + (small / large)²), which does not overflow before the result does."""
    sizes = [out.node("Abs", value) for value in (left, right)]
    large, small = out.node("Max", *sizes), out.node("Min", *sizes)
    zero, one = out.number(0, left), out.number(1, left)
    is_plain = out.node("Greater", large, zero)
    infinite = out.node("IsInf", large)
    divisor = out.node("Where", infinite, one, out.node("Where", is_plain, large, one))
    share = out.node("Where", infinite, zero, out.node("Div", small, divisor))
    rest = out.node("Sqrt", out.node("Add", out.node("Mul", share, share), one))
    return out.node("Mul", large, rest)


def _shifted(op: BinaryOp, out: Nodes) -> str:
    """Signed integers, which ONNX does not shift: times a power of two, or divided by one and
    rounded down, in 64 bits. 2^63 is no such integer: larger powers are taken in two."""
    x, amount = (out.node("Cast", v, to=TensorProto.INT64) for v in (op.left, op.right))
    first = out.node("Min", amount, out.constant(np.array(LARGEST_POWER, np.int64)))
    known = out.stored(op.right)
    is_small = known is not None and np.all(known <= LARGEST_POWER)
    for part in (first,) if is_small else (first, out.node("Sub", amount, first)):
        one, unsigned = np.array(1, np.uint64), out.node("Cast", part, to=TensorProto.UINT64)
        power = out.node("BitShift", out.constant(one), unsigned, direction="LEFT")
        power = out.node("Cast", power, to=TensorProto.INT64)
        if op.kind.data == "shift_left":
            x = out.node("Mul", x, power)
        else:  # the remainder has the divisor's sign
            x = out.node("Div", out.node("Sub", x, out.node("Mod", x, power)), power)
    return out.node("Cast", x, to=onnx_type(element_type_of(op.left)))


@writes(SelectOp)
def select(op: SelectOp, out: Nodes) -> str:
    forbid_quantized(op)
    return out.node("Where", op.condition, op.if_true, op.if_false)


@writes(CastOp)
def cast(op: CastOp, out: Nodes) -> str:
    if op.get("rounding") is not None:
        raise Unwritable(f"opset 21 rounds to {op.to} in one way only")
    saturate = op.get("saturate")
    return out.node(
        "Cast", op.input, to=onnx_type(op.to), saturate=None if saturate is None else int(saturate)
    )


@writes(BitcastOp)
def bitcast(op: BitcastOp, out: Nodes) -> str:
    """Integers that stand for numbers are those integers in ONNX."""
    if stored_type(element_type_of(op.input)) != stored_type(op.to):
        raise Unwritable("opset 21 does not take bits for another type's")
    return out.name(op.input)
