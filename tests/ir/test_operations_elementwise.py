"""Unary, binary, select, cast against onnxruntime, and as C on plain, haloed, blocked buffers."""

import math

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i1

from explorer.ir.top.elementwise import BINARY, UNARY, BinaryOp, CastOp, SelectOp, UnaryOp
from explorer.ir.types import ELEMENT_TYPES, Layout, numpy_dtype

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
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
}
# Where a function is defined, or far enough from its poles.
DOMAINS = {
    "log": (0.1, 3),
    "sqrt": (0.1, 3),
    "reciprocal": (0.1, 3),
    "tan": (-1.3, 1.3),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "acosh": (1, 4),
    "atanh": (-0.9, 0.9),
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
    low, high = DOMAINS.get(kind, (-3, 3))
    x = values(3, 50, low=low, high=high)
    if kind not in DOMAINS:
        x[0, :3] = [0.5, 1.5, 2.5]  # halves round to even
    op = build(UnaryOp, [x], kind=kind)
    check(op, [x], onnx_outputs(ONNX_UNARY[kind], [x]), TOLERANCE)


def test_every_unary_kind_is_tested():
    others = {"clip", "silu", "mish", "gelu_tanh", "not", "is_nan", "is_infinite", "bit_not"}
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
    op = build(UnaryOp, [x], kind="silu", alpha=1.5)
    check(op, [x], [x / (1 + np.exp(-1.5 * x))], TOLERANCE)
    op = build(UnaryOp, [x], kind="mish")
    check(op, [x], onnx_outputs("Mish", [x]), TOLERANCE)


def test_unary_of_booleans_and_nan(build, check):
    x = np.array([True, False])
    check(build(UnaryOp, [x], kind="not"), [x], [~x])
    x = np.array([1, np.nan, np.inf], np.float32)
    check(build(UnaryOp, [x], kind="is_nan"), [x], [np.array([False, True, False])])


@pytest.mark.parametrize("kind", ["relu", "neg", "abs", "sign"])
def test_unary_of_integers(kind, values, build, check):
    x = values(30, dtype="int32", low=-9, high=9)
    check(build(UnaryOp, [x], kind=kind), [x])


@pytest.mark.parametrize("kind", ["sigmoid", "softplus", "tanh", "silu", "elu", "gelu", "mish"])
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
    others = {"mod", "fmod", "and", "or", "xor", "bit_and", "bit_or", "bit_xor", "hypot"}
    others |= {"copy_sign"}
    assert set(BINARY) == set(ONNX_BINARY) | others | {"shift_left", "shift_right"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_length_overflows_and_vanishes_only_where_the_result_does(dtype, build, compiled):
    """Compared number by number with Python's hypot, which rounds once."""
    info = np.finfo(dtype)
    root = float(np.sqrt(info.max))
    numbers = [0.0, 3.0, -4.0, 1e-3, 0.3 * root, 2 * root, 0.5 * info.max, info.tiny, np.inf]
    numbers += [float(info.tiny) ** 0.6, -float(info.smallest_subnormal) * 5, np.nan]
    a, b = (np.array(v, dtype).reshape(-1) for v in np.meshgrid(numbers, numbers))
    expected = np.array([math.hypot(x, y) for x, y in zip(a, b, strict=True)]).astype(dtype)
    op = build(BinaryOp, [a, b], kind="hypot")
    for found in (op.evaluate(a, b)[0], compiled.run(op, [a, b])[0]):
        # Subnormal numbers have few digits: one step of them.
        np.testing.assert_allclose(
            found, expected, rtol=4 * info.eps, atol=2 * info.smallest_subnormal
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_sign_of_zero_and_of_nan_is_taken_over(dtype, build, compiled):
    a = np.array([1, 1, -1, 2, -np.inf, 0, 3, -5], dtype)
    b = np.array([0.0, -0.0, -3, 4, 0.0, -1, -np.nan, np.nan], dtype)
    op = build(BinaryOp, [a, b], kind="copy_sign")
    expected = np.copysign(a, b)
    for found in (op.evaluate(a, b)[0], compiled.run(op, [a, b])[0]):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("kind", ["and", "or", "xor"])
def test_binary_of_booleans(kind, values, build, check, onnx_outputs):
    a, b = values(3, 4, dtype="bool"), values(4, dtype="bool")
    op = build(BinaryOp, [a, b], kind=kind)
    check(op, [a, b], onnx_outputs(kind.capitalize(), [a, b]))


def test_integer_division_truncates_and_remainder_has_the_divisors_sign(build, check, onnx_outputs):
    a, b = np.array([7, -7, 7, -7, 6, -6], np.int32), np.array([2, 2, -2, -2, 3, -3], np.int32)
    check(build(BinaryOp, [a, b], kind="div"), [a, b], onnx_outputs("Div", [a, b]))
    check(build(BinaryOp, [a, b], kind="mod"), [a, b], onnx_outputs("Mod", [a, b]))
    check(build(BinaryOp, [a, b], kind="fmod"), [a, b], onnx_outputs("Mod", [a, b], fmod=1))


def test_remainders_of_floats_are_exact(values, build, check):
    a = np.concatenate([values(30, low=-1e4, high=1e4), [0, -0.0, 5, -5, np.inf, 1]])
    b = np.concatenate([values(30), [2, 2, np.inf, np.inf, 3, 0]])
    for dtype in (np.float32, np.float64):
        x, y = a.astype(dtype), b.astype(dtype)
        with np.errstate(invalid="ignore"):
            check(build(BinaryOp, [x, y], kind="mod"), [x, y], [np.mod(x, y)], 0.0)
            check(build(BinaryOp, [x, y], kind="fmod"), [x, y], [np.fmod(x, y)], 0.0)


def test_integer_division_never_stops_the_program(build, check):
    """By zero it gives 0; the least number divided by -1 wraps around to itself."""
    least = np.iinfo(np.int32).min
    a = np.array([5, -5, least, least, 0], np.int32)
    b = np.array([0, 0, -1, 0, -1], np.int32)
    expected = np.array([0, 0, least, 0, 0], np.int32)
    with np.errstate(all="ignore"):
        check(build(BinaryOp, [a, b], kind="div"), [a, b], [expected])
        zeros = [np.zeros(5, np.int32)]
        check(build(BinaryOp, [a, b], kind="mod"), [a, b], zeros)
        check(build(BinaryOp, [a, b], kind="fmod"), [a, b], zeros)


def test_integers_to_a_negative_power_are_zero_but_for_one(build, check):
    a = np.array([2, 1, -1, -1, 3, 0], np.int64)
    b = np.array([-1, -3, -3, -2, 2, 0], np.int64)
    expected = np.array([0, 1, -1, 1, 9, 1])
    check(build(BinaryOp, [a, b], kind="pow"), [a, b], [expected])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint64"])
def test_bits(dtype, values, build, check, onnx_outputs):
    low, high = (0, 200) if dtype.startswith("u") else (-200, 200)
    a, b = values(4, 5, dtype=dtype, low=low, high=high), values(5, dtype=dtype, low=low, high=high)
    for kind in ("and", "or", "xor"):
        expected = onnx_outputs(f"Bitwise{kind.capitalize()}", [a, b])
        check(build(BinaryOp, [a, b], kind=f"bit_{kind}"), [a, b], expected)
    check(build(UnaryOp, [a], kind="bit_not"), [a], onnx_outputs("BitwiseNot", [a]))


@pytest.mark.parametrize("direction", ["left", "right"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int32", "int64"])
def test_shifts_beyond_the_width_leave_the_sign(direction, dtype, build, check):
    bits = 8 * np.dtype(dtype).itemsize
    a = np.array([1, 77, 100, 3, 1, 5], dtype)
    amounts = [0, 1, 3, bits, bits - 1, bits + 1]
    if dtype.startswith("i"):
        a = np.concatenate([a, -a]).astype(dtype)
        amounts = [*amounts, *amounts[:-1], -1]
    b = np.array(amounts).astype(dtype)
    expected = [
        (int(x) << int(n) if direction == "left" else int(x) >> int(n))
        if 0 <= int(n) < bits
        else (-1 if direction == "right" and x < 0 else 0)
        for x, n in zip(a, b, strict=True)
    ]
    wrapped = np.array([e % 2**bits for e in expected], np.uint64).astype(f"u{bits // 8}")
    check(build(BinaryOp, [a, b], kind=f"shift_{direction}"), [a, b], [wrapped.view(dtype)])


@pytest.mark.parametrize(("positive", "negative"), [(1, 1), (1, 0), (0, 1), (0, 0)])
def test_infinities_of_either_sign_are_found(positive, negative, build, check, onnx_outputs):
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    op = build(UnaryOp, [x], kind="is_infinite", alpha=float(positive), beta=float(negative))
    expected = onnx_outputs("IsInf", [x], detect_positive=positive, detect_negative=negative)
    check(op, [x], expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_computed_in_single_precision_and_rounded_once(
    dtype, values, build, compiled
):
    kind = numpy_dtype(ELEMENT_TYPES[dtype])
    a, b = values(40).astype(kind), values(40).astype(kind)
    for op, arrays, wide in (
        (build(UnaryOp, [a], kind="gelu"), [a], UNARY["gelu"].meaning(a.astype("f4"), 0, 0)),
        (build(BinaryOp, [a, b], kind="mul"), [a, b], a.astype("f4") * b.astype("f4")),
    ):
        np.testing.assert_array_equal(op.evaluate(*arrays)[0], wide.astype(kind))
        np.testing.assert_array_equal(compiled.run(op, arrays)[0], wide.astype(kind))


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
