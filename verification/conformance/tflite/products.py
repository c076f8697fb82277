"""Random models of convolutions, matrix products, pools, reductions and resized images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from verification.conformance.tflite.drawing import LARGE, Draw, Drawn
from verification.conformance.tflite.models import TensorOf

TYPES = ("float32", "int8", "uint8")
HYBRID = "hybrid"
"""Floats times bytes."""


def _weights(draw: Draw, shape: Sequence[int], dtype: str, axis: int) -> TensorOf:
    """Filters; `axis` is that of the scales, -1 for one scale. Those of 16 bits have bytes."""
    if dtype == "float32":
        return draw.floats("w", shape)
    low, high = (0, 255) if dtype == "uint8" else (-127, 127)
    has_many = dtype in ("int8", "int16") and axis >= 0
    count = shape[axis] if has_many else 1
    stored = "uint8" if dtype == "uint8" else "int8"
    return TensorOf(
        name="w",
        shape=shape,
        element_type=stored,
        scales=[draw.scale(0.001, 0.02) for _ in range(count)],
        zeros=[draw.integer(100, 150) if dtype == "uint8" else 0] * count,
        axis=max(axis, 0),
        data=draw.random.integers(low, high + 1, shape).astype(stored),
    )


def _bias(draw: Draw, count: int, x: TensorOf, weights: TensorOf) -> TensorOf:
    if x.element_type == "float32":
        return draw.floats("b", (count,))
    scales = [x.scales[0] * scale for scale in weights.scales]
    is_wide = x.element_type == "int16"
    dtype, most = ("int64", 400_000) if is_wide else ("int32", 4000)
    return TensorOf(
        name="b",
        shape=(count,),
        element_type=dtype,
        scales=scales,
        zeros=[0] * len(scales),
        data=draw.random.integers(-most, most + 1, count).astype(dtype),
    )


def _sums(draw: Draw, shape: Sequence[int], x: TensorOf, weights: TensorOf, depth: int) -> TensorOf:
    """The result; its scale is such that few of the sums lie outside."""
    dtype = x.element_type
    if dtype == "float32":
        return draw.tensor("y", shape)
    most = np.iinfo(dtype).max - np.iinfo(dtype).min + 1
    widest = most / 3.2 * max(weights.scales) * x.scales[0] * 70 * depth**0.5
    scale = widest / (most / 2) * float(draw.random.uniform(0.3, 2))
    return draw.quantized("y", shape, dtype, scale, draw.zero(dtype))


def _window(draw: Draw, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[dict, list[int]]:
    """Options of a window, and the sizes of what it makes."""
    padding, dilations = draw.integer(0, 1), [1] * len(sizes)
    strides = [draw.integer(1, 3) for _ in sizes]
    if draw.integer(0, 3) == 0 and draw.kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        dilations, strides = [2 for _ in sizes], [1 for _ in sizes]
    made = []
    for size, width, stride, apart in zip(sizes, kernel, strides, dilations, strict=True):
        reach = (width - 1) * apart + 1
        made.append(-(-size // stride) if padding == 0 else (size - reach) // stride + 1)
    names = "HW" if len(sizes) == 2 else "DHW"
    values = {"Padding": padding}
    values |= {f"Stride{n}": s for n, s in zip(names, strides, strict=True)}
    if draw.kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        values |= {f"Dilation{n}Factor": d for n, d in zip(names, dilations, strict=True)}
    return values, made


def conv_2d(draw: Draw) -> Drawn:
    is_hybrid = draw.integer(0, 4) == 0
    dtype = "float32" if is_hybrid else draw.choice(*TYPES, "int16")
    batch, *sizes, channels = draw.image()
    channels = min(channels, 8)
    kernel = [draw.integer(1, 3) for _ in sizes]
    x = draw.tensor("x", (batch, *sizes, channels), dtype)
    is_depthwise = draw.kind == "DEPTHWISE_CONV_2D"
    values, made = _window(draw, sizes, kernel)
    values["FusedActivationFunction"] = draw.activation()
    multiplier = draw.integer(1, 3)
    filters = channels * multiplier if is_depthwise else draw.integer(1, 5)
    if draw.is_large:  # the results are many, too
        missing = -(-LARGE // (batch * made[0] * made[1]))
        multiplier = max(multiplier, -(-missing // channels))
        filters = channels * multiplier if is_depthwise else max(filters, missing)
    if is_depthwise:
        values["DepthMultiplier"] = multiplier
        kind = "int8" if is_hybrid else dtype
        weights, depth = _weights(draw, (1, *kernel, filters), kind, 3), kernel[0] * kernel[1]
    else:
        shape = (filters, *kernel, channels)
        weights = _weights(draw, shape, dtype, 0)
        if is_hybrid:
            weights = _weights(draw, shape, "int8", draw.choice(-1, 0))
        depth = kernel[0] * kernel[1] * channels
    return Drawn(
        inputs=[x, weights, _bias(draw, filters, x, weights)],
        results=[_sums(draw, (batch, *made, filters), x, weights, depth)],
        options="DepthwiseConv2DOptions" if is_depthwise else "Conv2DOptions",
        values=values,
    )


def conv_3d(draw: Draw) -> Drawn:
    batch, *sizes, channels = draw.image(5)
    channels, filters = min(channels, 4), draw.integer(1, 6)
    kernel = [draw.integer(1, 3) for _ in sizes]
    values, made = _window(draw, sizes, kernel)
    values["FusedActivationFunction"] = draw.activation()
    weights, bias = draw.floats("w", (*kernel, channels, filters)), draw.floats("b", (filters,))
    return Drawn(
        inputs=[draw.tensor("x", (batch, *sizes, channels)), weights, bias],
        results=[draw.tensor("y", (batch, *made, filters))],
        options="Conv3DOptions",
        values=values,
    )


def conv_3d_transpose(draw: Draw) -> Drawn:
    batch, *sizes, channels = draw.image(5)
    sizes = [max(2, size // 3) for size in sizes]
    channels, filters = min(channels, 4), draw.integer(1, 4)
    kernel, stride = [draw.integer(1, 3) for _ in sizes], draw.integer(1, 2)
    padding = draw.integer(0, 1)
    made = [
        n * stride if padding == 0 else (n - 1) * stride + max(k, stride)
        for n, k in zip(sizes, kernel, strict=True)
    ]
    result = (batch, *made, filters)
    bias = [draw.floats("b", (filters,))] if draw.flag() else []
    return Drawn(
        inputs=[
            draw.constant("s", result), draw.floats("w", (*kernel, filters, channels)),
            draw.tensor("x", (batch, *sizes, channels)), *bias,
        ],
        results=[draw.tensor("y", result)],
        options="Conv3DOptions",
        values={"Padding": padding, **{f"Stride{n}": stride for n in "DHW"},
                **{f"Dilation{n}Factor": 1 for n in "DHW"}},
    )  # fmt: skip


def reduce_window(draw: Draw) -> Drawn:
    """ADD, MUL, MINIMUM, MAXIMUM of numbers, ALL and ANY of booleans: as the schema counts."""
    function = draw.integer(1, 6)
    dtype = "bool" if function > 4 else draw.choice("float32", "int32")
    shape = tuple(draw.integer(6, 9) * (3 if draw.is_large else 1) for _ in range(3))
    windows, strides, dilations = ([draw.integer(1, 2) for _ in shape] for _ in range(3))
    made = [
        (n - (w - 1) * d - 1) // s + 1
        for n, w, s, d in zip(shape, windows, strides, dilations, strict=True)
    ]
    lists = zip("wsd", (windows, strides, dilations), strict=True)
    return Drawn(
        inputs=[
            draw.tensor("x", shape, dtype), draw.constant("i", draw.integer(0, 1), dtype),
            *(draw.constant(name, numbers, "int64") for name, numbers in lists),
        ],
        results=[draw.tensor("y", made, dtype)],
        options="ReduceWindowOptions",
        values={"ReduceFunction": function},
        ranges={"x": (-3, 3)} if dtype != "bool" else {},
    )  # fmt: skip


def fully_connected(draw: Draw) -> Drawn:
    kind = draw.choice(*TYPES, "int16", HYBRID)
    dtype = "float32" if kind == HYBRID else kind
    depth, outputs, rows = draw.integer(1, 60), draw.integer(1, 20), draw.integer(1, 5)
    if draw.is_large and kind == HYBRID:
        outputs = -(-LARGE // rows)
    elif draw.is_large:
        rows = -(-LARGE // outputs)
    x = draw.tensor("x", (rows, depth), dtype)
    is_hybrid = kind == HYBRID
    axis = draw.choice(-1, 0) if is_hybrid else -1
    weights = _weights(draw, (outputs, depth), "int8" if is_hybrid else kind, axis)
    return Drawn(
        inputs=[x, weights, _bias(draw, outputs, x, weights)],
        results=[_sums(draw, (rows, outputs), x, weights, depth)],
        options="FullyConnectedOptions",
        values={
            "FusedActivationFunction": draw.activation(),
            "AsymmetricQuantizeInputs": is_hybrid and draw.flag(),
        },
    )


def transpose_conv(draw: Draw) -> Drawn:
    dtype = draw.choice(*TYPES, "int16")
    batch, *sizes, channels = draw.image()
    channels, filters = min(channels, 6), draw.integer(1, 4)
    kernel = [draw.integer(1, 4), draw.integer(1, 4)]
    strides = [draw.integer(1, 2), draw.integer(1, 2)]
    padding = draw.integer(0, 1)
    shape = [
        n * s if padding == 0 else (n - 1) * s + max(k, s)
        for n, s, k in zip(sizes, strides, kernel, strict=True)
    ]
    result = (batch, *shape, filters)
    weights = _weights(draw, (filters, *kernel, channels), dtype, 0)
    x = draw.tensor("x", (batch, *sizes, channels), dtype)
    bias = [_bias(draw, filters, x, weights)] if draw.flag() else []
    depth = channels * kernel[0] * kernel[1]
    return Drawn(
        inputs=[draw.constant("s", result), weights, x, *bias],
        results=[_sums(draw, result, x, weights, depth)],
        options="TransposeConvOptions",
        values={"Padding": padding, "StrideH": strides[0], "StrideW": strides[1]},
    )


def batch_matmul(draw: Draw) -> Drawn:
    rows, depth, columns = (draw.integer(1, 40 if draw.is_large else 9) for _ in range(3))
    batch = tuple(draw.integer(1, 3) for _ in range(draw.integer(1, 2)))
    if draw.is_large:
        columns = max(columns, -(-LARGE // (rows * int(np.prod(batch)))))
    turns = draw.flag(), draw.flag()
    left, right = (rows, depth), (depth, columns)
    left, right = (pair[::-1] if turn else pair
                   for pair, turn in zip((left, right), turns, strict=True))  # fmt: skip
    dtype = draw.choice("float32", "int8", "int16")
    a = draw.tensor("a", (*batch, *left), dtype)
    b = draw.tensor("b", (*batch, *right), dtype)
    y = draw.tensor("y", (*batch, rows, columns), dtype)
    if dtype != "float32":
        most = np.iinfo(dtype).max
        scale = a.scales[0] * b.scales[0] * most * depth**0.5 / 2
        y = draw.quantized("y", y.shape, dtype, scale, draw.zero(dtype))
    return Drawn(
        inputs=[a, b],
        results=[y],
        options="BatchMatMulOptions",
        values={"AdjX": turns[0], "AdjY": turns[1]},
    )


def pool(draw: Draw) -> Drawn:
    dtype = "float32" if draw.kind == "L2_POOL_2D" else draw.choice(*TYPES, "int16")
    batch, *sizes, channels = draw.image()
    kernel = [draw.integer(1, 4) for _ in sizes]
    values, made = _window(draw, sizes, kernel)
    x = draw.tensor("x", (batch, *sizes, channels), dtype)
    values |= {"FilterHeight": kernel[0], "FilterWidth": kernel[1]}
    values["FusedActivationFunction"] = draw.activation()
    return Drawn(
        inputs=[x],
        results=[draw.like(x, "y", (batch, *made, channels))],
        options="Pool2DOptions",
        values=values,
    )


def reduction(draw: Draw) -> Drawn:
    types = {
        "MEAN": (*TYPES, "int16"),
        "SUM": (*TYPES, "int16", "int32"),
        "REDUCE_MAX": (*TYPES, "int16", "int32"),
        "REDUCE_MIN": (*TYPES, "int16", "int32"),
        "REDUCE_ALL": ("bool",),
        "REDUCE_ANY": ("bool",),
    }.get(draw.kind, ("float32", "int32"))
    shape, dtype = draw.shape(), draw.choice(*types)
    axes, keeps = draw.axes(len(shape)), draw.flag()
    made = [1 if axis in axes else size for axis, size in enumerate(shape)]
    if not keeps:
        made = [size for axis, size in enumerate(shape) if axis not in axes]
    x = draw.tensor("x", shape, dtype)
    same = draw.kind not in ("MEAN", "SUM")
    return Drawn(
        inputs=[x, draw.constant("axes", axes)],
        results=[draw.like(x, "y", made) if same else draw.tensor("y", made, dtype)],
        options="ReducerOptions",
        values={"KeepDims": keeps},
        ranges={"x": (-1, 1)} if draw.kind == "REDUCE_PROD" else {},
    )


def arg(draw: Draw) -> Drawn:
    shape, dtype = draw.shape(), draw.choice("float32", "int32", "int8", "uint8")
    axis = draw.axis(len(shape))
    made = [size for a, size in enumerate(shape) if a != axis % len(shape)]
    to, number = draw.choice(("int32", 2), ("int64", 4))
    name = "ArgMaxOptions" if draw.kind == "ARG_MAX" else "ArgMinOptions"
    return Drawn(
        inputs=[draw.tensor("x", shape, dtype), draw.constant("a", axis)],
        results=[draw.tensor("y", made, to)],
        options=name,
        values={"OutputType": number},
    )


def resize(draw: Draw) -> Drawn:
    x = draw.tensor("x", draw.image(), draw.choice(*TYPES))
    size = [draw.integer(1, 24), draw.integer(1, 24)]
    flags = draw.choice({}, {"AlignCorners": True}, {"HalfPixelCenters": True})
    name = "".join(part.capitalize() for part in draw.kind.split("_"))
    return Drawn(
        inputs=[x, draw.constant("s", size)],
        results=[draw.like(x, "y", (x.shape[0], *size, x.shape[-1]))],
        options=f"{name}Options",
        values=flags,
    )


def response(draw: Draw) -> Drawn:
    x = draw.tensor("x", draw.image())
    uniform = draw.random.uniform
    numbers = {"Bias": uniform(0.5, 2), "Alpha": uniform(0.01, 0.5), "Beta": uniform(0.3, 1)}
    return Drawn(
        inputs=[x],
        results=[draw.like(x, "y", x.shape)],
        options="LocalResponseNormalizationOptions",
        values={"Radius": draw.integer(0, 3), **{n: float(v) for n, v in numbers.items()}},
    )


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": conv_2d,
    "CONV_3D": conv_3d,
    "CONV_3D_TRANSPOSE": conv_3d_transpose,
    "REDUCE_WINDOW": reduce_window,
    "FULLY_CONNECTED": fully_connected,
    "TRANSPOSE_CONV": transpose_conv,
    "BATCH_MATMUL": batch_matmul,
    **dict.fromkeys(("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"), pool),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), reduction),
    **dict.fromkeys(("REDUCE_PROD", "REDUCE_ALL", "REDUCE_ANY"), reduction),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), arg),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), resize),
    "LOCAL_RESPONSE_NORMALIZATION": response,
}
