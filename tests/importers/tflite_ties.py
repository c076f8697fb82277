"""Cases of TFLite whose scales make ties of rounding: ratios that are powers of two, or nearly.

    ties("CONV_2D", "uint8", draw=3)      ->  a case, and inputs by name

The scale of the result is that of the sums times a power of two, rounded to a single. A kernel that
computes the ratio in single precision meets exact ties, and one that computes in double lies a
little beside them, so that every tie tells which precision and which rounding a kernel has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tests.importers.tflite_cases import Case, numbers
from verification.conformance.tflite.models import TensorOf

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


def zero_of(dtype: str, generator: np.random.Generator) -> int:
    low, high = LIMITS[dtype]
    return 0 if dtype == "int16" else int(generator.integers(low, high + 1))


def codes(dtype: str, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Random numbers of the whole range, both ends among them."""
    low, high = LIMITS[dtype]
    found = generator.integers(low, high, shape, endpoint=True).astype(dtype)
    found.flat[:2] = low, high
    return found


def scale(generator: np.random.Generator) -> float:
    return float(np.float32(generator.uniform(0.01, 0.1)))


def small_weights(
    dtype: str, shape: tuple[int, ...], axis: int | None, generator: np.random.Generator
) -> TensorOf:
    count = 1 if axis is None else shape[axis]
    zero = 128 if dtype == "uint8" else 0
    data = (generator.integers(-3, 4, shape) + zero).astype(dtype)
    return TensorOf(
        name="w", shape=shape, element_type=dtype, data=data, axis=axis or 0,
        scales=[scale(generator) for _ in range(count)], zeros=[zero] * count,
    )  # fmt: skip


def product(kind: str, dtype: str, generator: np.random.Generator, per_axis: bool) -> Case:
    """Sums of up to 2^9 or so, in steps of 2^-1 to 2^-4 of the result's."""
    x = numbers("x", (1, 9, 8, 5), dtype, scale(generator), zero_of(dtype, generator))
    filters = "int8" if dtype == "int16" else dtype
    shapes: Mapping[str, tuple[tuple[int, ...], int, tuple[int, ...], str]] = {
        "CONV_2D": ((6, 1, 1, 5), 0, (1, 9, 8, 6), "Conv2DOptions"),
        "DEPTHWISE_CONV_2D": ((1, 1, 1, 5), 3, (1, 9, 8, 5), "DepthwiseConv2DOptions"),
        "FULLY_CONNECTED": ((6, 5), 0, (72, 6), "FullyConnectedOptions"),
        "TRANSPOSE_CONV": ((6, 1, 1, 5), 0, (1, 9, 8, 6), "TransposeConvOptions"),
    }
    shape, axis, result, options = shapes[kind]
    w = small_weights(filters, shape, axis if per_axis else None, generator)
    power = 2.0 ** int(generator.integers(1, 5)) * (256 if dtype == "int16" else 1)
    made = float(np.float32(x.scales[0]) * np.float32(w.scales[0]) * np.float32(power))
    y = numbers("y", result, dtype, made, 0 if dtype == "int16" else sum(LIMITS[dtype]) // 2)
    operands = [x, w]
    if kind == "CONV_2D":  # whose kernel takes none without a bias
        wide = "int64" if dtype == "int16" else "int32"
        bias = generator.integers(-9, 9, 6).astype(wide)
        scales = [x.scales[0] * one for one in w.scales]
        operands.append(TensorOf(name="b", shape=(6,), element_type=wide, data=bias,
                                 scales=scales, zeros=[0] * len(scales)))  # fmt: skip
    if kind == "TRANSPOSE_CONV":
        size = np.array(result, np.int32)
        operands = [TensorOf(name="s", shape=(4,), element_type="int32", data=size), w, x]
    values = {} if kind == "FULLY_CONNECTED" else {"StrideW": 1, "StrideH": 1}
    values |= {"DepthMultiplier": 1} if kind == "DEPTHWISE_CONV_2D" else {}
    return Case(kind=kind, operands=operands, result=y, options=options, values=values)


def pair(kind: str, dtype: str, generator: np.random.Generator) -> Case:
    """Of two operands, one in steps that are a power of two times the other's."""
    left, shift = scale(generator), int(generator.integers(-3, 4))
    right = scale(generator) if kind == "MUL" else float(np.float32(left * 2.0**shift))
    made = left * right * 2.0**5 if kind == "MUL" else max(left, right) * 2
    made *= 2.0**8 if kind == "MUL" and dtype == "int16" else 1
    shape = (40, 60)
    return Case(
        kind=kind,
        operands=[
            numbers("a", shape, dtype, left, zero_of(dtype, generator)),
            numbers("b", shape, dtype, right, zero_of(dtype, generator)),
        ],
        result=numbers("y", shape, dtype, float(np.float32(made)), zero_of(dtype, generator)),
        options=f"{kind.capitalize()}Options",
    )


def rescaled(kind: str, dtype: str, generator: np.random.Generator) -> Case:
    """Of one operand, to steps of another size."""
    source, made = scale(generator), 2.0 ** int(generator.integers(-1, 3))
    options: Mapping[str, tuple[str, Mapping[str, float]]] = {
        "LEAKY_RELU": ("LeakyReluOptions", {"Alpha": 2.0 ** -int(generator.integers(1, 4))}),
        "SOFTMAX": ("SoftmaxOptions", {"Beta": 1.0}),
    }
    low, _ = LIMITS[dtype]
    fixed = {
        "LOGISTIC": (2.0**-15, 0) if dtype == "int16" else (1 / 256, low),
        "TANH": (2.0**-15, 0) if dtype == "int16" else (1 / 128, low + 128),
        "SOFTMAX": (2.0**-15, 0) if dtype == "int16" else (1 / 256, low),
    }
    to = float(np.float32(source * made))
    to, zero = fixed.get(kind, (to, zero_of(dtype, generator)))
    shape = (60, 64) if dtype != "int16" else (200, 64)
    name, values = options.get(kind, ("", {}))
    return Case(
        kind=kind,
        operands=[numbers("x", shape, dtype, source, zero_of(dtype, generator))],
        result=numbers("y", shape, dtype, to, zero),
        options=name,
        values=values,
    )


def averaged(kind: str, dtype: str, generator: np.random.Generator) -> Case:
    """Means of 2, 4, 6 or 8 numbers."""
    source, rows = scale(generator), int(generator.choice([1, 2, 3, 4]))
    x = numbers("x", (1, rows, 2, 400), dtype, source, zero_of(dtype, generator))
    if kind == "AVERAGE_POOL_2D":
        return Case(
            kind=kind,
            operands=[x],
            result=numbers("y", (1, 1, 1, 400), dtype, source, x.zeros[0]),
            options="Pool2DOptions",
            values={
                "StrideW": 1, "StrideH": 1, "FilterWidth": 2, "FilterHeight": rows, "Padding": 1
            },
        )  # fmt: skip
    axes = TensorOf(name="axes", shape=(2,), element_type="int32", data=np.array([1, 2], np.int32))
    return Case(
        kind=kind,
        operands=[x, axes],
        result=numbers("y", (1, 400), dtype, source, x.zeros[0]),
        options="ReducerOptions",
    )


def joined(kind: str, dtype: str, generator: np.random.Generator) -> Case:
    """Operands of other steps than the result's."""
    left = scale(generator)
    return Case(
        kind=kind,
        operands=[
            numbers("a", (20, 33), dtype, left, zero_of(dtype, generator)),
            numbers("b", (20, 37), dtype, left * 2, zero_of(dtype, generator)),
        ],
        result=numbers("y", (20, 70), dtype, left * 4, zero_of(dtype, generator)),
        options="ConcatenationOptions",
        values={"Axis": 1},
    )


def prelu(kind: str, dtype: str, generator: np.random.Generator) -> Case:
    source = scale(generator)
    slopes = small_weights(dtype, (1, 1, 12), None, generator)
    made = source * slopes.scales[0] * 4
    return Case(
        kind=kind,
        operands=[numbers("x", (1, 20, 20, 12), dtype, source, zero_of(dtype, generator)), slopes],
        result=numbers("y", (1, 20, 20, 12), dtype, float(np.float32(made)),
                       zero_of(dtype, generator)),
    )  # fmt: skip


BYTES, ALL = ("int8", "uint8"), ("int8", "uint8", "int16")
PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
RESCALED = ("LEAKY_RELU", "QUANTIZE", "LOGISTIC", "TANH", "SOFTMAX", "RELU", "RELU6")
KINDS: Mapping[str, tuple[Callable[..., Case], tuple[str, ...]]] = {
    **dict.fromkeys(PRODUCTS, (product, ALL)),
    **dict.fromkeys(("ADD", "SUB", "MUL"), (pair, ALL)),
    **dict.fromkeys(RESCALED, (rescaled, ALL)),
    **dict.fromkeys(("HARD_SWISH", "RELU_N1_TO_1"), (rescaled, BYTES)),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MEAN"), (averaged, ALL)),
    "ABS": (rescaled, ("int8", "int16")),
    "CONCATENATION": (joined, ("uint8",)),
    "PRELU": (prelu, BYTES),
}
"""What makes the cases of an operator, and its types."""


def ties(kind: str, dtype: str, draw: int) -> tuple[Case, dict[str, np.ndarray]]:
    """A case of this kind, with other scales for every draw, and its inputs."""
    generator = np.random.default_rng([draw, *kind.encode(), *dtype.encode()])
    make, _ = KINDS[kind]
    more = {"per_axis": draw % 2 == 1 and dtype != "uint8"} if make is product else {}
    case = make(kind, dtype, generator, **more)
    inputs = {
        t.name: codes(dtype, tuple(t.shape), generator) for t in case.operands if t.data is None
    }
    return case, inputs
