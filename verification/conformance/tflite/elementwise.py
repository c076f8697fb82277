"""Random models of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from verification.conformance.tflite.drawing import QUANTIZED, Draw, Drawn
from verification.conformance.tflite.models import TensorOf

ANY = (-5.0, 5.0)
POSITIVE = (0.1, 9.0)


def unary(
    draw: Draw,
    types: tuple[str, ...] = ("float32",),
    interval: tuple[float, float] = ANY,
    result: str = "",
) -> Drawn:
    shape, dtype = draw.shape(), draw.choice(*types)
    x = draw.tensor("x", shape, dtype)
    y = draw.tensor("y", shape, result or dtype)
    return Drawn(inputs=[x], results=[y], ranges={"x": interval} if dtype == "float32" else {})


def bounded(draw: Draw, scale: float, signed_zero: int) -> Drawn:
    """LOGISTIC, TANH, SOFTMAX: bytes have the scale and zero point that the kernels ask for."""
    shape, dtype = draw.shape(), draw.choice("float32", "int8", "uint8", "int16")
    x = draw.tensor("x", shape, dtype)
    y = draw.tensor("y", shape, dtype)
    if dtype == "int16":  # of any scale, or of the power of two that needs no rounding
        power = draw.quantized("x", shape, dtype, 2.0**-12, 0)
        x = power if draw.flag() else x
        y = draw.quantized("y", shape, dtype, 2.0**-15, 0)
    elif dtype != "float32":
        y = draw.quantized("y", shape, dtype, scale, signed_zero + 128 * (dtype == "uint8"))
    return Drawn(inputs=[x], results=[y])


def softmax(draw: Draw) -> Drawn:
    made = bounded(draw, 1 / 256, -128)
    beta = float(draw.random.uniform(0.3, 2))
    return Drawn(
        inputs=made.inputs, results=made.results, options="SoftmaxOptions", values={"Beta": beta}
    )


def leaky_relu(draw: Draw) -> Drawn:
    made = unary(draw, ("float32", *QUANTIZED))
    values = {"Alpha": float(draw.random.uniform(0.01, 0.6))}
    return Drawn(
        inputs=made.inputs, results=made.results, options="LeakyReluOptions", values=values
    )


def gelu(draw: Draw) -> Drawn:
    made = unary(draw)
    values = {"Approximate": draw.flag()}
    return Drawn(inputs=made.inputs, results=made.results, options="GeluOptions", values=values)


def fake_quant(draw: Draw) -> Drawn:
    made = unary(draw)
    low, high = -draw.random.uniform(0, 4), draw.random.uniform(0.5, 4)
    values = {"Min": float(low), "Max": float(high), "NumBits": draw.integer(2, 16)}
    return Drawn(
        inputs=made.inputs, results=made.results, options="FakeQuantOptions", values=values
    )


def arithmetic(draw: Draw, types: tuple[str, ...]) -> Drawn:
    shape, dtype = draw.shape(), draw.choice(*types)
    a, b = draw.tensor("a", shape, dtype), draw.tensor("b", draw.broadcast(shape), dtype)
    y = draw.tensor("y", shape, dtype)
    name = f"{draw.kind.capitalize()}Options"
    values: dict[str, object] = {"FusedActivationFunction": draw.activation()}
    if dtype == "int16" and draw.kind != "MUL":
        values["PotScaleInt16"] = draw.flag()
        if draw.flag():  # scales that are powers of two, one operand's the result's
            shifts = draw.choice((0, draw.integer(0, 4)), (draw.integer(0, 4), 0))
            scales = [2.0 ** (-10 - shift) for shift in (*shifts, 0)]
            a, b, y = (
                draw.quantized(t.name, t.shape, dtype, scale, 0)
                for t, scale in zip((a, b, y), scales, strict=True)
            )
    ranges = {"b": (1.0, 9.0)} if draw.kind == "DIV" else {}
    return Drawn(inputs=[a, b], results=[y], options=name, values=values, ranges=ranges)


def binary(
    draw: Draw,
    types: tuple[str, ...] = ("float32", "int32"),
    result: str = "",
    left: tuple[float, float] | None = None,
    right: tuple[float, float] | None = None,
    is_broadcast: bool = True,
) -> Drawn:
    """Of plain numbers, bytes too."""
    shape, dtype = draw.shape(), draw.choice(*types)
    other = draw.broadcast(shape) if is_broadcast else shape
    a, b = (
        TensorOf(name=name, shape=sizes, element_type=dtype)
        for name, sizes in (("a", shape), ("b", other))
    )
    pairs = (("a", left), ("b", right))
    return Drawn(
        inputs=[a, b],
        results=[TensorOf(name="y", shape=shape, element_type=result or dtype)],
        ranges={name: limits for name, limits in pairs if limits is not None},
    )


def compared(draw: Draw) -> Drawn:
    """Plain numbers; bytes of two scales."""
    shape, dtype = draw.shape(), draw.choice("float32", "int32", "int64", "int8", "uint8")
    a, b = draw.tensor("a", shape, dtype), draw.tensor("b", draw.broadcast(shape), dtype)
    return Drawn(inputs=[a, b], results=[draw.tensor("y", shape, "bool")])


def squared_difference(draw: Draw) -> Drawn:
    shape, dtype = draw.shape(), draw.choice("float32", "int32", "int8")
    a, b = draw.tensor("a", shape, dtype), draw.tensor("b", draw.broadcast(shape), dtype)
    return Drawn(inputs=[a, b], results=[draw.tensor("y", shape, dtype)])


def extremum(draw: Draw) -> Drawn:
    """Operands and result have one scale."""
    shape, dtype = draw.shape(), draw.choice("float32", "int32", *QUANTIZED)
    a = draw.tensor("a", shape, dtype)
    return Drawn(
        inputs=[a, draw.like(a, "b", draw.broadcast(shape))], results=[draw.like(a, "y", shape)]
    )


def prelu(draw: Draw) -> Drawn:
    shape, dtype = draw.image(), draw.choice("float32", "int8")
    x, slope = draw.tensor("x", shape, dtype), draw.tensor("s", (1, 1, shape[-1]), dtype)
    return Drawn(inputs=[x, slope], results=[draw.tensor("y", shape, dtype)])


def select(draw: Draw) -> Drawn:
    shape, dtype = draw.shape(), draw.choice("float32", "int32", "int8", "bool")
    other = draw.broadcast(shape) if draw.kind == "SELECT_V2" else shape
    condition = draw.tensor("c", other, "bool")
    a = draw.tensor("a", shape, dtype)
    return Drawn(
        inputs=[condition, a, draw.like(a, "b", shape)], results=[draw.like(a, "y", shape)]
    )


def cast(draw: Draw) -> Drawn:
    kinds = ("float32", "int32", "int64", "bool")
    shape = draw.shape()
    source, to = draw.choice(*kinds), draw.choice(*kinds)
    return Drawn(inputs=[draw.tensor("x", shape, source)], results=[draw.tensor("y", shape, to)])


def bitcast(draw: Draw) -> Drawn:
    shape = draw.shape()
    source, to = draw.choice(("float32", "int32"), ("int32", "float32"))
    x = draw.tensor("x", shape, source)
    return Drawn(inputs=[x], results=[draw.tensor("y", shape, to)], ranges={"x": (1, 100)})


def add_n(draw: Draw) -> Drawn:
    shape, dtype = draw.shape(), draw.choice("float32", "int32")
    parts = [draw.tensor(f"x{i}", shape, dtype) for i in range(draw.integer(2, 4))]
    return Drawn(inputs=parts, results=[draw.tensor("y", shape, dtype)])


def quantize(draw: Draw) -> Drawn:
    shape = draw.shape()
    source = draw.choice("float32", *QUANTIZED)
    to = draw.choice(*QUANTIZED) if source in ("float32", "int16") else draw.choice("int8", "uint8")
    x = draw.tensor("x", shape, source)
    return Drawn(inputs=[x], results=[draw.tensor("y", shape, to)])


def dequantize(draw: Draw) -> Drawn:
    shape = draw.shape()
    x = draw.tensor("x", shape, draw.choice("int8", "uint8", "int16"))
    return Drawn(inputs=[x], results=[draw.tensor("y", shape)])


_BYTES = ("float32", "int8", "uint8")

DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    **dict.fromkeys(("CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "ROUND", "SIN"), unary),
    **dict.fromkeys(("RELU", "RELU6"), partial(unary, types=("float32", *QUANTIZED))),
    **dict.fromkeys(("RELU_0_TO_1", "RELU_N1_TO_1", "SQUARE"), unary),
    **dict.fromkeys(("NEG", "SIGN"), partial(unary, types=("float32", "int32"))),
    "ABS": partial(unary, types=("float32", "int32", "int8", "int16")),
    **dict.fromkeys(("LOG", "SQRT", "RSQRT"), partial(unary, interval=POSITIVE)),
    "HARD_SWISH": partial(unary, types=_BYTES),
    "ZEROS_LIKE": partial(unary, types=("float32", "int32", "int64")),
    "LOGICAL_NOT": partial(unary, types=("bool",)),
    "LOGISTIC": partial(bounded, scale=1 / 256, signed_zero=-128),
    "TANH": partial(bounded, scale=1 / 128, signed_zero=0),
    "SOFTMAX": softmax,
    "LOG_SOFTMAX": unary,
    "L2_NORMALIZATION": unary,
    "LEAKY_RELU": leaky_relu,
    "GELU": gelu,
    "FAKE_QUANT": fake_quant,
    **dict.fromkeys(("ADD", "SUB", "MUL"), partial(arithmetic, types=(*_BYTES, "int16", "int32"))),
    "DIV": partial(arithmetic, types=("float32", "int32")),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"),
                    compared),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR"), partial(binary, types=("bool",))),
    "BITWISE_XOR": partial(binary, types=("int8", "int16", "int32", "bool")),
    "RIGHT_SHIFT": partial(binary, types=("int32", "int16", "int8"), right=(0, 7)),
    "SQUARED_DIFFERENCE": squared_difference,
    "FLOOR_DIV": partial(binary, right=(1, 20)),
    "FLOOR_MOD": partial(binary, right=(1, 20)),
    "POW": partial(binary, types=("float32",), left=POSITIVE, right=(-2, 2)),
    "ATAN2": partial(binary, types=("float32",), is_broadcast=False),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), extremum),
    **dict.fromkeys(("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM",
                     "STABLEHLO_MINIMUM"), partial(binary, is_broadcast=False)),
    "STABLEHLO_AND": partial(binary, types=("int32", "bool"), is_broadcast=False),
    "STABLEHLO_SHIFT_LEFT": partial(
        binary, types=("int32",), right=(0, 31), is_broadcast=False
    ),
    "PRELU": prelu,
    "SELECT": select,
    "SELECT_V2": select,
    "CAST": cast,
    "BITCAST": bitcast,
    "ADD_N": add_n,
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
}  # fmt: skip
