"""One model that holds an operator of every exact kind, with inputs large enough to tell roundings.

    case = CASES["CONV_2D i8 per channel"]        operands, result and options
    whole_model()                                 bytes: all cases side by side
    whole_inputs()                                seeded arrays by name

What LiteRT's reference kernels answer is stored beside, by `scripts/store_tflite_outputs.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from verification.conformance.tflite.models import TYPES, OperatorOf, TensorOf, model_of

STORED = Path(__file__).with_name("tflite_outputs.npz")
LEFT, RIGHT = 0.0471, 0.0338
"""Scales that are no powers of two."""
ZEROS = {"int8": -7, "uint8": 121, "int16": 0}


@dataclass(frozen=True, kw_only=True)
class Case:
    kind: str
    operands: Sequence[TensorOf]
    result: TensorOf
    options: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def numbers(
    name: str, shape: Sequence[int], dtype: str, scale: float, zero: int | None = None
) -> TensorOf:
    chosen = ZEROS[dtype] if zero is None else zero
    return TensorOf(name=name, shape=shape, element_type=dtype, scales=[scale], zeros=[chosen])


def weights(seed: int, shape: Sequence[int], dtype: str, axis: int = -1) -> TensorOf:
    """Random filters; signed ones with a scale for each slice of an axis."""
    generator = np.random.default_rng(seed)
    low, high = (0, 256) if dtype == "uint8" else (-127, 128)
    data = generator.integers(low, high, shape).astype(dtype)
    count = shape[axis] if axis >= 0 else 1
    scales = generator.uniform(0.002, 0.01, count).astype(np.float32).tolist()
    zeros = [131] if dtype == "uint8" else [0] * count
    return TensorOf(
        name="w", shape=shape, element_type=dtype, scales=scales, zeros=zeros, axis=max(axis, 0),
        data=data,
    )  # fmt: skip


def bias(seed: int, count: int) -> TensorOf:
    data = np.random.default_rng(seed).integers(-4000, 4000, count).astype(np.int32)
    return TensorOf(name="b", shape=(count,), element_type="int32", data=data)


def _products() -> dict[str, Case]:
    window = {"Padding": 0, "StrideW": 2, "StrideH": 1}
    found = {}
    for dtype, axis in (("int8", 0), ("uint8", -1)):
        found[f"CONV_2D {dtype}"] = Case(
            kind="CONV_2D",
            operands=[
                numbers("x", (1, 20, 20, 8), dtype, LEFT),
                weights(1, (24, 3, 3, 8), dtype, axis),
                bias(2, 24),
            ],
            result=numbers("y", (1, 20, 10, 24), dtype, 0.061),
            options="Conv2DOptions",
            values={**window, "FusedActivationFunction": 3},
        )
        found[f"DEPTHWISE_CONV_2D {dtype}"] = Case(
            kind="DEPTHWISE_CONV_2D",
            operands=[
                numbers("x", (1, 24, 24, 6), dtype, LEFT),
                weights(3, (1, 3, 3, 12), dtype, 3 if axis == 0 else -1),
                bias(4, 12),
            ],
            result=numbers("y", (1, 24, 12, 12), dtype, 0.037),
            options="DepthwiseConv2DOptions",
            values={**window, "DepthMultiplier": 2},
        )
        found[f"FULLY_CONNECTED {dtype}"] = Case(
            kind="FULLY_CONNECTED",
            operands=[
                numbers("x", (64, 40), dtype, LEFT),
                weights(5, (70, 40), dtype),
                bias(6, 70),
            ],
            result=numbers("y", (64, 70), dtype, 0.043),
            options="FullyConnectedOptions",
            values={"FusedActivationFunction": 1},
        )
    return found


def _elementwise() -> dict[str, Case]:
    found = {}
    shape = (3, 40, 40)
    for dtype in ("int8", "uint8"):
        for kind, options in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
            found[f"{kind} {dtype}"] = Case(
                kind=kind,
                operands=[
                    numbers("a", shape, dtype, LEFT),
                    numbers("b", shape, dtype, RIGHT, 3),
                ],
                result=numbers("y", shape, dtype, 0.0823),
                options=options,
            )
        for kind, scale, zero, options, values in (
            ("RELU", RIGHT, None, "", {}),
            ("RELU6", RIGHT, None, "", {}),
            ("LEAKY_RELU", RIGHT, None, "LeakyReluOptions", {"Alpha": 0.3}),
            ("HARD_SWISH", RIGHT, None, "", {}),
            ("LOGISTIC", 1 / 256, 0 if dtype == "uint8" else -128, "", {}),
            ("TANH", 1 / 128, 128 if dtype == "uint8" else 0, "", {}),
        ):
            found[f"{kind} {dtype}"] = Case(
                kind=kind,
                operands=[numbers("x", (40, 110), dtype, LEFT)],
                result=numbers("y", (40, 110), dtype, scale, zero),
                options=options,
                values=values,
            )
        found[f"SOFTMAX {dtype}"] = Case(
            kind="SOFTMAX",
            operands=[numbers("x", (400, 11), dtype, 0.17)],
            result=numbers("y", (400, 11), dtype, 1 / 256, 0 if dtype == "uint8" else -128),
            options="SoftmaxOptions",
            values={"Beta": 1.0},
        )
        found[f"AVERAGE_POOL_2D {dtype}"] = Case(
            kind="AVERAGE_POOL_2D",
            operands=[numbers("x", (1, 26, 26, 8), dtype, LEFT)],
            result=numbers("y", (1, 26, 26, 8), dtype, LEFT),
            options="Pool2DOptions",
            values={"StrideW": 1, "StrideH": 1, "FilterWidth": 3, "FilterHeight": 5},
        )
        found[f"MAX_POOL_2D {dtype}"] = Case(
            kind="MAX_POOL_2D",
            operands=[numbers("x", (1, 24, 24, 8), dtype, LEFT)],
            result=numbers("y", (1, 12, 12, 8), dtype, LEFT),
            options="Pool2DOptions",
            values={
                "StrideW": 2, "StrideH": 2, "FilterWidth": 3, "FilterHeight": 3,
                "FusedActivationFunction": 3,
            },
        )  # fmt: skip
        axes = TensorOf(
            name="axes", shape=(2,), element_type="int32", data=np.array([1, 2], np.int32)
        )
        found[f"MEAN {dtype}"] = Case(
            kind="MEAN",
            operands=[numbers("x", (20, 7, 5, 210), dtype, LEFT), axes],
            result=numbers("y", (20, 210), dtype, 0.0111),
            options="ReducerOptions",
        )
        found[f"RESIZE_BILINEAR {dtype}"] = Case(
            kind="RESIZE_BILINEAR",
            operands=[
                numbers("x", (1, 17, 13, 5), dtype, LEFT),
                replace(axes, name="size", data=np.array([40, 29], np.int32)),
            ],
            result=numbers("y", (1, 40, 29, 5), dtype, LEFT),
            options="ResizeBilinearOptions",
            values={"HalfPixelCenters": dtype == "int8"},
        )
        found[f"QUANTIZE float32 {dtype}"] = Case(
            kind="QUANTIZE",
            operands=[TensorOf(name="x", shape=(64, 70))],
            result=numbers("y", (64, 70), dtype, 1 / 32),
        )
        found[f"DEQUANTIZE {dtype}"] = Case(
            kind="DEQUANTIZE",
            operands=[numbers("x", (64, 70), dtype, LEFT)],
            result=TensorOf(name="y", shape=(64, 70)),
        )
    for source, to in (("int8", "uint8"), ("uint8", "int8"), ("int8", "int8")):
        found[f"QUANTIZE {source} {to}"] = Case(
            kind="QUANTIZE",
            operands=[numbers("x", (64, 70), source, LEFT)],
            result=numbers("y", (64, 70), to, 0.0391),
        )
    found["CONCATENATION uint8"] = Case(
        kind="CONCATENATION",
        operands=[numbers("a", (64, 33), "uint8", LEFT), numbers("b", (64, 37), "uint8", RIGHT, 9)],
        result=numbers("y", (64, 70), "uint8", 0.0491),
        options="ConcatenationOptions",
        values={"Axis": 1},
    )
    return found


def _words() -> dict[str, Case]:
    """Numbers of 16 bits; a bias of 64 bits has another rounding than one of 32."""
    found = {}
    window = {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1}
    x = numbers("x", (1, 10, 10, 8), "int16", 0.0003)
    for dtype in ("int64", "int32"):
        found[f"CONV_2D int16, bias {dtype}"] = Case(
            kind="CONV_2D",
            operands=[x, weights(9, (20, 3, 3, 8), "int8", 0), _as(bias(8, 20), dtype)],
            result=numbers("y", (1, 10, 10, 20), "int16", 0.0047),
            options="Conv2DOptions",
            values={**window, "QuantizedBiasType": TYPES[dtype]},
        )
    for depth in (40, 700):  # sums of 32 bits, and of 64
        found[f"FULLY_CONNECTED int16, {depth} inputs"] = Case(
            kind="FULLY_CONNECTED",
            operands=[
                numbers("x", (50, depth), "int16", 0.0003),
                weights(10, (40, depth), "int8"),
                _as(bias(11, 40), "int64"),
            ],
            result=numbers("y", (50, 40), "int16", 0.0181),
            options="FullyConnectedOptions",
        )
    found["DEPTHWISE_CONV_2D int16"] = Case(
        kind="DEPTHWISE_CONV_2D",
        operands=[x, weights(12, (1, 3, 3, 16), "int8", 3), _as(bias(13, 16), "int64")],
        result=numbers("y", (1, 10, 10, 16), "int16", 0.0017),
        options="DepthwiseConv2DOptions",
        values={**window, "DepthMultiplier": 2},
    )
    for dtype, scale in (("int8", 0.21), ("int16", 0.077)):
        left, right = (0.0003, 0.0004) if dtype == "int16" else (LEFT, RIGHT)
        found[f"BATCH_MATMUL {dtype}"] = Case(
            kind="BATCH_MATMUL",
            operands=[
                numbers("a", (2, 40, 30), dtype, left), numbers("b", (2, 30, 28), dtype, right),
            ],
            result=numbers("y", (2, 40, 28), dtype, scale),
            options="BatchMatMulOptions",
        )  # fmt: skip
    # Their product is a single: as a double it has another multiplier of 16 bits.
    found["BATCH_MATMUL int16, near another multiplier"] = Case(
        kind="BATCH_MATMUL",
        operands=[
            numbers("a", (2, 30, 6), "int16", 0.09260292),
            numbers("b", (2, 6, 28), "int16", 0.024519721),
        ],
        result=numbers("y", (2, 30, 28), "int16", 74.40068),
        options="BatchMatMulOptions",
    )
    power = 2.0**-12
    for kind in ("ADD", "SUB", "MUL"):
        for name, scales in (
            ("", (0.0003, 0.0002, 0.0005)),
            (" shifted", (power, power / 4, power)),
        ):
            found[f"{kind} int16{name}"] = Case(
                kind=kind,
                operands=[
                    numbers("a", (40, 50), "int16", scales[0]),
                    numbers("b", (40, 50), "int16", scales[1]),
                ],
                result=numbers("y", (40, 50), "int16", scales[2]),
                options=f"{kind.capitalize()}Options",
            )
    for kind, scale, values in (
        ("LOGISTIC", 2.0**-15, {}), ("TANH", 2.0**-15, {}), ("SOFTMAX", 2.0**-15, {"Beta": 0.8}),
        ("LEAKY_RELU", 0.0004, {"Alpha": 0.3}), ("RELU6", 0.0004, {}), ("QUANTIZE", 0.0004, {}),
    ):  # fmt: skip
        names = {"SOFTMAX": "SoftmaxOptions", "LEAKY_RELU": "LeakyReluOptions"}
        found[f"{kind} int16"] = Case(
            kind=kind,
            operands=[numbers("x", (120, 17), "int16", 0.0003)],
            result=numbers("y", (120, 17), "int16", scale),
            options=names.get(kind, ""),
            values=values,
        )
    return found


def _transposed() -> dict[str, Case]:
    """Transposed convolutions of 16 bits, whose sums have 64 whether there is a bias or not."""
    size = TensorOf(
        name="s", shape=(4,), element_type="int32", data=np.array([1, 20, 22, 12], np.int32)
    )
    found = {}
    for name, depth, biases in (("", 6, []), (", long sums", 200, [_as(bias(15, 12), "int64")])):
        found[f"TRANSPOSE_CONV int16{name}"] = Case(
            kind="TRANSPOSE_CONV",
            operands=[
                size,
                weights(14, (12, 3, 3, depth), "int8", 0),
                numbers("x", (1, 10, 11, depth), "int16", 0.0003),
                *biases,
            ],
            result=numbers("y", (1, 20, 22, 12), "int16", 0.0031),
            options="TransposeConvOptions",
            values={"Padding": 0, "StrideW": 2, "StrideH": 2, "FusedActivationFunction": 1},
        )
    return found


def _reduced() -> dict[str, Case]:
    """Sums of unsigned bytes (the reference kernel is wrong for signed ones), and shares of 16 bits
    of bytes."""
    axes = TensorOf(name="axes", shape=(2,), element_type="int32", data=np.array([1, 2], np.int32))
    found = {
        "SUM uint8": Case(
            kind="SUM",
            operands=[numbers("x", (20, 7, 5, 210), "uint8", LEFT), axes],
            result=numbers("y", (20, 210), "uint8", 0.3713),
            options="ReducerOptions",
        )
    }
    for name, scale in (("", 0.17), (", small steps", 0.003)):
        found[f"SOFTMAX int8 int16{name}"] = Case(
            kind="SOFTMAX",
            operands=[numbers("x", (400, 11), "int8", scale)],
            result=numbers("y", (400, 11), "int16", 2.0**-16, -(1 << 15)),
            options="SoftmaxOptions",
            values={"Beta": 1.0},
        )
    return found


def _as(tensor: TensorOf, dtype: str) -> TensorOf:
    assert isinstance(tensor.data, np.ndarray)
    return replace(tensor, element_type=dtype, data=tensor.data.astype(dtype))


CASES: Mapping[str, Case] = {
    **_products(), **_elementwise(), **_words(), **_transposed(), **_reduced()
}  # fmt: skip


def _numbered(case: Case, number: int) -> tuple[list[TensorOf], TensorOf]:
    operands = [replace(t, name=f"{t.name}{number}") for t in case.operands]
    return operands, replace(case.result, name=f"y{number}")


@cache
def whole_model() -> bytes:
    return model_of_cases(CASES.values())


def model_of_cases(cases: Iterable[Case]) -> bytes:
    """One model; names of tensors end with the number of their case, results are y0, y1 ..."""
    tensors: list[TensorOf] = []
    operators, inputs, outputs = [], [], []
    for number, case in enumerate(cases):
        operands, result = _numbered(case, number)
        first = len(tensors)
        tensors += [*operands, result]
        places = list(range(first, first + len(operands)))
        inputs += [i for i, t in zip(places, operands, strict=True) if t.data is None]
        outputs.append(first + len(operands))
        operators.append(
            OperatorOf(
                kind=case.kind,
                inputs=places,
                outputs=[outputs[-1]],
                options=case.options,
                values=case.values,
            )
        )
    return model_of(tensors, operators, inputs, outputs)


def whole_inputs() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(7)
    found: dict[str, np.ndarray] = {}
    for number, case in enumerate(CASES.values()):
        for tensor in _numbered(case, number)[0]:
            if tensor.data is not None:
                continue
            if tensor.element_type == "float32":
                # Halves of a step are among them: they tell which way ties go.
                steps = generator.integers(-300, 300, tensor.shape) / np.float32(64)
                found[tensor.name] = steps.astype(np.float32)
                continue
            limits = np.iinfo(tensor.element_type)
            drawn = generator.integers(limits.min, limits.max + 1, tensor.shape)
            found[tensor.name] = drawn.astype(tensor.element_type)
    return found


def result_names() -> dict[str, str]:
    """Of each case the name of its result."""
    return {name: f"y{number}" for number, name in enumerate(CASES)}
