"""Functions of single elements, and casts."""

from __future__ import annotations

import numpy as np
from onnx import helper

from verification.random_models.draft import (
    FLOATS,
    FLOATS8,
    INTEGERS,
    SIGNED,
    STORED,
    TYPES,
    UNSIGNED,
    Draft,
    NotPossible,
    Value,
)
from verification.random_models.recipes.recipe import family, recipes

NUMBERS = (*FLOATS, *FLOATS, *INTEGERS)


def smooth(operator: str, draft: Draft) -> None:
    draft.add(operator, [draft.operand(FLOATS).name])


def bent(operator: str, draft: Draft) -> None:
    """Activations with a parameter of their own."""
    x = draft.operand(FLOATS)
    draft.add(
        operator, [x.name], **({"alpha": draft.one_of([0.1, 0.5, 1.5])} if draft.flag() else {})
    )


def gelu(draft: Draft) -> None:
    """onnxruntime's approximation in float64 has constants of float32."""
    x = draft.operand(FLOATS)
    how = "none" if x.dtype == "float64" else draft.one_of(["none", "tanh"])
    draft.add("Gelu", [x.name], approximate=how)


def jumping(operator: str, draft: Draft) -> None:
    draft.add(operator, [draft.operand(FLOATS, is_exact=True).name])


def infinite(draft: Draft) -> None:
    x = draft.operand(FLOATS, is_exact=True)
    zero = draft.constant(np.zeros((), x.dtype))
    divided = draft.add("Div", [x.name, zero])[0]
    flags = {"detect_negative": draft.number(0, 1), "detect_positive": draft.number(0, 1)}
    draft.add("IsInf", [divided.name], **flags)


def integer_unary(operator: str, draft: Draft) -> None:
    draft.add(operator, [draft.operand(SIGNED, is_exact=True).name])


def positive(operator: str, draft: Draft) -> None:
    """Functions of positive numbers: of an absolute value plus something."""
    x = draft.operand(FLOATS)
    size = draft.add("Abs", [x.name])[0]
    shift = draft.constant(np.array(1.5 if operator == "Acosh" else 0.5, x.dtype))
    shifted = draft.add("Add", [size.name, shift])[0]
    draft.add(operator, [shifted.name])


def small(operator: str, draft: Draft) -> None:
    """Functions of numbers below 1: of an input times 0.4."""
    x = draft.operand(FLOATS, is_exact=True)
    scaled = draft.add("Mul", [x.name, draft.constant(np.array(0.4, x.dtype))])[0]
    draft.add(operator, [scaled.name])


def shrink(draft: Draft) -> None:
    """Whole parameters for integers: ONNX's own function rounds them, onnxruntime the result.

    Not in float64, which onnxruntime computes in float32.
    """
    x = draft.operand(("float32", "float16", *SIGNED), is_exact=True)
    limit, bias = (0.5, draft.one_of([0.0, 0.5])) if x.is_float else (1.0, 1.0)
    draft.add("Shrink", [x.name], lambd=limit, bias=bias)


def arithmetic(operator: str, draft: Draft) -> None:
    x = draft.operand(NUMBERS)
    y = draft.like(x, draft.broadcast_to(x.shape))
    pair = [x.name, y.name]
    draft.add(operator, pair if draft.flag() else pair[::-1])


def division(draft: Draft) -> None:
    """The divisor is a constant without zeros."""
    x = draft.operand(NUMBERS, is_exact=True)
    array = draft.array(x.dtype, draft.broadcast_to(x.shape))
    divisor = np.where(np.abs(array.astype(np.float64)) < 0.25, 1, array).astype(x.dtype)
    draft.add("Div", [x.name, draft.constant(divisor)])


def modulo(draft: Draft) -> None:
    x = draft.operand((*INTEGERS, "float32", "float64", "float16"), is_exact=True)
    array = draft.array(x.dtype, draft.broadcast_to(x.shape))
    divisor = np.where(np.abs(array.astype(np.float64)) < 0.25, 1, array).astype(x.dtype)
    fmod = 1 if x.is_float else draft.number(0, 1)
    draft.add("Mod", [x.name, draft.constant(divisor)], fmod=fmod)


def extremum(operator: str, draft: Draft) -> None:
    x = draft.operand(NUMBERS if operator in ("Max", "Min") else FLOATS)
    others = [draft.like(x, draft.broadcast_to(x.shape)).name for _ in range(draft.number(0, 2))]
    draft.add(operator, [x.name, *others])


def comparison(operator: str, draft: Draft) -> None:
    types = (*NUMBERS, "bool") if operator == "Equal" else NUMBERS
    x = draft.operand(types, is_exact=True)
    draft.add(operator, [x.name, draft.weight(x.dtype, draft.broadcast_to(x.shape))])


def logic(operator: str, draft: Draft) -> None:
    x = draft.operand(("bool",))
    others = [] if operator == "Not" else [draft.like(x, draft.broadcast_to(x.shape)).name]
    draft.add(operator, [x.name, *others])


def bitwise(operator: str, draft: Draft) -> None:
    x = draft.operand(INTEGERS, is_exact=True)
    others = [draft.like(x, draft.broadcast_to(x.shape)).name] if operator != "BitwiseNot" else []
    draft.add(operator, [x.name, *others])


def bit_shift(draft: Draft) -> None:
    x = draft.operand(UNSIGNED, is_exact=True)
    amounts = draft.random.integers(0, 8, draft.broadcast_to(x.shape))
    shift = draft.constant(np.asarray(amounts).astype(x.dtype))
    draft.add("BitShift", [x.name, shift], direction=draft.one_of(["LEFT", "RIGHT"]))


def power(draft: Draft) -> None:
    """Small whole exponents, of the base's type or of another."""
    x = draft.operand((*FLOATS, "int32", "int64"))
    dtype = x.dtype if draft.flag() else draft.one_of(["float32", "int32", "int64"])
    shape = draft.broadcast_to(x.shape)
    exponent = np.asarray(draft.random.integers(1, 4, shape)).astype(dtype)
    draft.add("Pow", [x.name, draft.constant(exponent)])


def prelu(draft: Draft) -> None:
    x = draft.operand(NUMBERS)
    draft.add("PRelu", [x.name, draft.weight(x.dtype, draft.broadcast_to(x.shape))])


def clip(draft: Draft) -> None:
    x = draft.operand(NUMBERS)
    first = 2 if x.dtype.startswith("u") else -1
    low, high = (draft.constant(np.array(n, x.dtype)) for n in (first, 3))
    bounds = draft.one_of([[low, high], [low], ["", high], []])
    draft.add("Clip", [x.name, *bounds])


def cast(draft: Draft) -> None:
    """Small numbers, so that no type is left; negative ones not to unsigned types.

    Fractions not to four bits: onnxruntime rounds them, ONNX cuts them off.
    """
    x = draft.operand((*TYPES, *STORED), is_exact=True)
    target = _target(x, draft)
    saturate = {"saturate": draft.number(0, 1)} if "float8" in target and draft.flag() else {}
    draft.add("Cast", [x.name], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)), **saturate)


def cast_like(draft: Draft) -> None:
    x = draft.operand(TYPES, is_exact=True)
    like = draft.weight(_target(x, draft), (1,))
    draft.add("CastLike", [x.name, like])


def _target(x: Value, draft: Draft) -> str:
    is_negative = x.is_float or not x.dtype.startswith(("u", "bool"))
    targets = (*TYPES, *FLOATS8) if x.is_float else (*TYPES, *STORED)
    return draft.one_of([t for t in targets if not (t[0] == "u" and is_negative)])


_SAME_WIDTH = (
    ("float32", "int32", "uint32"),
    ("float64", "int64", "uint64"),
    ("float16", "bfloat16", "int16", "uint16"),
    ("int8", "uint8", "bool"),
)


def bit_cast(draft: Draft) -> None:
    types = draft.one_of(_SAME_WIDTH)
    x = draft.operand(types, is_exact=True)
    target = draft.one_of([t for t in types if t not in ("bool", "float16", "float32", "float64")])
    draft.add("BitCast", [x.name], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


def where(draft: Draft) -> None:
    x = draft.operand(TYPES)
    condition = draft.like(Value("", "bool", ()), draft.broadcast_to(x.shape))
    y = draft.like(x, draft.broadcast_to(x.shape))
    draft.add("Where", [condition.name, x.name, y.name])


def dropout(draft: Draft) -> None:
    """As it is at inference: nothing happens, and the mask is true everywhere."""
    x = draft.operand(FLOATS)
    ratio = draft.constant(np.array(draft.one_of([0.0, 0.5]), np.float32))
    mode = draft.one_of([[], ["", draft.constant(np.array(False))]])
    operands = [x.name, ratio, mode[1]] if mode else [x.name, ratio][: draft.number(1, 2)]
    draft.add("Dropout", operands, draft.number(1, 2))


def identity(draft: Draft) -> None:
    draft.add("Identity", [draft.operand((*TYPES, *STORED)).name])


def loss(operator: str, draft: Draft) -> None:
    """Of log probabilities or scores, classes along axis 1."""
    classes = draft.number(2, 6)
    batch, inner = draft.number(1, 4), draft.sizes(draft.number(0, 2), 4)
    if 0 in inner:
        raise NotPossible
    x = draft.input(draft.one_of(["float32", "float64"]), (batch, classes, *inner))
    targets = np.asarray(draft.random.integers(0, classes, (batch, *inner)))
    labels = draft.constant(targets.astype(draft.one_of(["int32", "int64"])))
    weight = draft.constant(np.abs(draft.array(x.dtype, (classes,))) + np.array(0.5, x.dtype))
    ignored = {"ignore_index": draft.number(0, classes - 1)} if draft.flag() else {}
    if ignored and (targets == ignored["ignore_index"]).all():
        raise NotPossible
    operands = [x.name, labels, weight][: draft.number(2, 3)]
    draft.add(operator, operands, reduction=draft.one_of(["none", "mean", "sum"]), **ignored)


RECIPES = (
    *family(smooth, "Abs", "Atan", "Cos", "Cosh", "Erf", "Exp", "HardSwish", "Mish", "Neg"),
    *family(smooth, "Relu", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Tanh", "Asinh"),
    *family(bent, "Elu", "Celu", "Selu", "LeakyRelu", "HardSigmoid"),
    *family(bent, "Swish", since=24),
    *recipes(gelu, since=20),
    *family(jumping, "Ceil", "Floor", "Round", "Sign", "IsNaN", "ThresholdedRelu"),
    *family(integer_unary, "Abs", "Neg", "Sign", "Relu"),
    *family(positive, "Log", "Sqrt", "Reciprocal", "Acosh"),
    *family(small, "Acos", "Asin", "Atanh", "Tan"),
    *family(arithmetic, "Add", "Sub", "Mul"),
    *family(arithmetic, "Add", "Sub", "Mul"),
    *family(extremum, "Max", "Min", "Sum", "Mean"),
    *family(comparison, "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    *family(logic, "And", "Or", "Xor", "Not"),
    *family(bitwise, "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"),
    *family(loss, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
    *recipes(infinite, shrink, division, modulo, bit_shift, power, prelu, clip, where, dropout),
    *recipes(identity, cast, cast, cast_like),
    *recipes(bit_cast, since=26),
)
