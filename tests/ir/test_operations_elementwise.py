"""Unary, binary, select, cast against onnxruntime, and as C on plain, haloed, blocked buffers."""

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i1

from explorer.ir.top.elementwise import BINARY, UNARY, BinaryOp, CastOp, SelectOp, UnaryOp
from explorer.ir.types import ELEMENT_TYPES, Layout

BLOCKED = Layout(4, (1, 0, 2, 1), 5.0)
# Functions of the C library and NumPy's differ in the last bits; erf and exp of float32 by more.
TOLERANCE = 1e-5

ONNX_UNARY = {
    "relu": "Relu",
    "leaky_relu": "LeakyRelu",
    "sigmoid": "Sigmoid",
    "hard_sigmoid": "HardSigmoid",
    "hard_swish": "HardSwish",
    "tanh": "Tanh",
    "erf": "Erf",
    "gelu": "Gelu",
    "elu": "Elu",
    "softplus": "Softplus",
    "neg": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "sin": "Sin",
    "cos": "Cos",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
}
ONNX_BINARY = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "max": "Max",
    "min": "Min",
    "prelu": "PRelu",
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}


@pytest.mark.parametrize("kind", ONNX_UNARY)
def test_unary_means_what_onnx_means(kind, values, build, check, onnx_outputs):
    low = 0.1 if kind in ("log", "sqrt", "reciprocal") else -3
    x = values(3, 50, low=low)
    x[0, :3] = [0.5, 1.5, 2.5]  # halves round to even
    op = build(UnaryOp, [x], kind=kind)
    check(op, [x], onnx_outputs(ONNX_UNARY[kind], [x]), TOLERANCE)


def test_every_unary_kind_is_tested():
    others = {"clip", "silu", "gelu_tanh", "not", "is_nan"}
    assert set(UNARY) == set(ONNX_UNARY) | others


def test_unary_with_parameters(values, build, check, onnx_outputs):
    x = values(40)
    op = build(UnaryOp, [x], kind="leaky_relu", alpha=0.25)
    check(op, [x], onnx_outputs("LeakyRelu", [x], alpha=0.25))
    op = build(UnaryOp, [x], kind="clip", alpha=-1.0, beta=0.5)
    bounds = [np.array(b, np.float32) for b in (-1.0, 0.5)]
    check(op, [x], onnx_outputs("Clip", [x, *bounds]))
    op = build(UnaryOp, [x], kind="gelu_tanh")
    check(op, [x], onnx_outputs("Gelu", [x], approximate="tanh"), TOLERANCE)
    op = build(UnaryOp, [x], kind="silu")
    check(op, [x], [x / (1 + np.exp(-x))], TOLERANCE)


def test_unary_of_booleans_and_nan(build, check):
    x = np.array([True, False])
    check(build(UnaryOp, [x], kind="not"), [x], [~x])
    x = np.array([1, np.nan, np.inf], np.float32)
    check(build(UnaryOp, [x], kind="is_nan"), [x], [np.array([False, True, False])])


@pytest.mark.parametrize("kind", ["relu", "neg", "abs", "sign"])
def test_unary_of_integers(kind, values, build, check):
    x = values(30, dtype="int32", low=-9, high=9)
    check(build(UnaryOp, [x], kind=kind), [x])


@pytest.mark.parametrize("kind", ["sigmoid", "softplus", "tanh", "silu", "elu", "gelu"])
def test_unary_of_large_numbers_stays_finite(kind, build, check):
    x = np.array([-1e4, -100, 0, 100, 1e4], np.float32)
    op = build(UnaryOp, [x], kind=kind)
    assert op.keeps_finite
    assert np.isfinite(op.evaluate(x)[0]).all()
    check(op, [x], tolerance=TOLERANCE)


def test_unary_between_layouts(values, build, check):
    x = values(2, 6, 3, 4)
    result = Layout(4, (0, 1, 1, 0))
    check(build(UnaryOp, [x], layouts=[BLOCKED], result_layout=result, kind="relu"), [x])


@pytest.mark.parametrize("kind", ONNX_BINARY)
def test_binary_broadcasts_and_means_what_onnx_means(kind, values, build, check, onnx_outputs):
    # Few different numbers, so that comparisons meet equal ones.
    a, b = values(4, 3, 5).round(), values(3, 1).round()
    if kind in ("div", "pow"):
        a, b = np.abs(a) + 0.5, np.abs(b) + 1
    op = build(BinaryOp, [a, b], kind=kind)
    check(op, [a, b], onnx_outputs(ONNX_BINARY[kind], [a, b]), TOLERANCE)


def test_every_binary_kind_is_tested():
    assert set(BINARY) == set(ONNX_BINARY) | {"mod", "and", "or", "xor"}


@pytest.mark.parametrize("kind", ["and", "or", "xor"])
def test_binary_of_booleans(kind, values, build, check, onnx_outputs):
    a, b = values(3, 4, dtype="bool"), values(4, dtype="bool")
    op = build(BinaryOp, [a, b], kind=kind)
    check(op, [a, b], onnx_outputs(kind.capitalize(), [a, b]))


def test_integer_division_truncates_and_remainder_has_the_divisors_sign(build, check, onnx_outputs):
    a, b = np.array([7, -7, 7, -7, 6, -6], np.int32), np.array([2, 2, -2, -2, 3, -3], np.int32)
    check(build(BinaryOp, [a, b], kind="div"), [a, b], onnx_outputs("Div", [a, b]))
    check(build(BinaryOp, [a, b], kind="mod"), [a, b], onnx_outputs("Mod", [a, b]))
    x, y = a.astype(np.float32) / 4, b.astype(np.float32)
    check(build(BinaryOp, [x, y], kind="mod"), [x, y], onnx_outputs("Mod", [x, y], fmod=1))


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64"])
def test_binary_of_other_element_types(dtype, values, build, check):
    a, b = values(20, dtype=dtype, low=0, high=100), values(20, dtype=dtype, low=1, high=100)
    for kind in ("add", "max", "div", "less"):
        check(build(BinaryOp, [a, b], kind=kind), [a, b])


@pytest.mark.parametrize("shape", [(2, 6, 3, 4), (1, 6, 1, 1), (1, 1, 3, 4), (1, 1, 1, 1)])
def test_binary_between_layouts(shape, values, build, check):
    arrays = [values(2, 6, 3, 4), values(*shape)]
    second = Layout(4, (0, 2, 0, 0)) if shape[1] == 6 else Layout(0, (1, 1, 1, 1))
    op = build(
        BinaryOp,
        arrays,
        layouts=[BLOCKED, second],
        result_layout=Layout(4, (0, 1, 1, 0)),
        kind="add",
    )
    check(op, arrays)


def test_select_broadcasts_its_three_operands(values, build, check, onnx_outputs):
    arrays = [values(3, 1, dtype="bool"), values(4), values(2, 3, 1)]
    check(build(SelectOp, arrays), arrays, onnx_outputs("Where", arrays))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int32"),
        ("float32", "int8"),
        ("float32", "bool"),
        ("float32", "float64"),
        ("float64", "float32"),
        ("float32", "uint8"),
        ("int64", "int32"),
        ("int8", "int64"),
        ("uint8", "int32"),
        ("int32", "float32"),
        ("uint8", "float32"),
        ("bool", "float32"),
        ("bool", "int64"),
        ("int32", "bool"),
    ],
)
def test_cast(source, target, values, build, check, onnx_outputs):
    from onnx.helper import np_dtype_to_tensor_dtype

    is_unsigned = "uint" in source or "uint" in target
    x = values(30, dtype=source, low=0 if is_unsigned else -3, high=3)
    op = build(CastOp, [x], to=ELEMENT_TYPES[target])
    check(op, [x], onnx_outputs("Cast", [x], to=np_dtype_to_tensor_dtype(np.dtype(target))))


def test_elementwise_keeps_symbolic_dimensions(infer):
    assert infer(UnaryOp, [("n", 3)], kind="relu") == [("n", 3)]
    assert infer(BinaryOp, [("n", 1), (1, "m")], kind="add") == [("n", "m")]
    assert infer(BinaryOp, [("n", 3), (4, 1)], kind="add") == [(4, 3)]
    assert infer(SelectOp, [(("n", 1), "bool"), (3,), ()]) == [("n", 3)]
    assert infer(CastOp, [("n",)], to=f16) == [("n",)]


def test_elementwise_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match="do not broadcast: sizes"):
        infer(BinaryOp, [(3,), (4,)], kind="add")
    with pytest.raises(ValueError, match="unknown kind 'gate'; known: relu"):
        infer(UnaryOp, [(3,)], kind="gate")
    with pytest.raises(ValueError, match="unknown kind 'plus'; known: add"):
        infer(BinaryOp, [(3,), (3,)], kind="plus")


def test_comparisons_are_boolean(build, values):
    op = build(BinaryOp, [values(3), values(3)], kind="less")
    assert op.results[0].type.element_type == i1
    assert build(UnaryOp, [values(3)], kind="relu").results[0].type.element_type == f32
