"""Quantization as the PT2E flow writes it: real numbers to stored ones and back.

    quantize_per_tensor(x, 0.02, 3, -128, 127, int8)     top.quantize to !top.quantized<i8, 0.02:3>
    dequantize_per_channel(w, scales, zeros, 0, ...)     top.dequantize
    choose_qparams.tensor(x, -128, 127, eps, int8)       minima, maxima and arithmetic

Constant scales stand in the type of a value, as those of ONNX's QuantizeLinear do: both give one
integer program. PyTorch multiplies by 1 / scale where `top.quantize` divides by the scale: a number
within the error of a tie may be one step apart. Computed scales are arithmetic, as PyTorch has it.
Reference: torch/ao/quantization/fx/_decomposed.py, torch/ao/quantization/utils.py.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_quantized, as_stored, type_of_numbers
from explorer.importers.pytorch.file.program import Ref
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import promoted_types
from explorer.ir.requantization import integer_limits
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.types import QuantizedType, element_type_from_numpy, element_type_of


def quantize(node: AtenNode, build: Build) -> Expr:
    """clip(round(x / scale) + zero point) of a whole tensor, or of each slice of an axis."""
    x, dtype = build.wide(node.operand("input")), _stored_dtype(node)
    kind = _kind(node, x, dtype, build)
    if kind is not None and build.dtype(x) == np.float32:
        limited = _within_limits(x, kind, _limits(node, build), build)
        return as_stored(build.value(QuantizeOp, [limited], to=kind), build)
    scale, zero = _parameters(node, x, build)
    scaled = _binary("mul", x, _reciprocal(scale, x, build), build)
    whole = build.unary("round", scaled)
    if zero is not None:
        whole = _binary("add", whole, zero, build)
    return _clipped(whole, node, dtype, build)


def quantize_per_token(node: AtenNode, build: Build) -> Expr:
    """Each row by its own scale; the zero point is added before rounding."""
    x, scales = node.operand("input"), node.operand("scales")
    inverse = build.binary("div", build.scalar_like(1.0, scales), scales)
    moved = _binary("add", _binary("mul", x, inverse, build), node.operand("zero_points"), build)
    return _clipped(build.unary("round", moved), node, _stored_dtype(node), build)


def dequantize(node: AtenNode, build: Build) -> Expr:
    """(x - zero point) * scale of a whole tensor, or of each slice of an axis."""
    x, dtype = node.operand("input"), node.result_dtype()
    kind = _kind(node, x, build.dtype(x), build)
    if kind is not None and dtype == np.float32:
        typed = _typed(x, kind, build)
        return build.value(DequantizeOp, [typed], to=element_type_from_numpy(dtype))
    scale, zero = _parameters(node, x, build)
    if build.rank(scale) == 0:
        real = build.cast(x, np.float32)
        if zero is not None:
            # Narrow floats round the difference, too.
            difference = build.binary("sub", real, build.cast(zero, np.float32))
            real = build.cast(build.cast(difference, dtype), np.float32)
        scaled = build.binary("mul", real, build.cast(scale, np.float32))
        return build.cast(scaled, dtype)
    return build.cast(_real(x, scale, zero, build), dtype)


def dequantize_per_token(node: AtenNode, build: Build) -> Expr:
    """(x - zero point) * scale, where each row has its own."""
    scales, zeros = node.operand("scales"), node.operand("zero_points")
    return build.cast(_real(node.operand("input"), scales, zeros, build), node.result_dtype())


def choose_parameters(node: AtenNode, build: Build) -> list[Expr]:
    """A scale and a zero point for the range of a tensor, which is made to hold 0."""
    least, greatest = _range_with_zero(node.operand("input"), None, build)
    low, high = _limits(node, build)
    span = build.binary("sub", greatest, least)
    divided = build.binary("div", span, build.scalar_like(float(high - low), span))
    scale = _at_least(build.wide(divided), node.number("eps"), build)
    steps = build.cast(build.unary("round", _binary("div", least, scale, build)), np.int32)
    zero = build.binary("sub", build.scalar_like(low, steps), steps)
    for kind, limit in (("max", low), ("min", high)):
        zero = build.binary(kind, zero, build.scalar_like(limit, zero))
    return _as_chosen(scale, zero, build)


def choose_symmetric_parameters(node: AtenNode, build: Build) -> list[Expr]:
    """A scale for the largest absolute value; the zero point is the middle of the type."""
    least, greatest = _range_with_zero(node.operand("input"), None, build)
    low, high = _limits(node, build)
    largest = build.binary("max", build.unary("neg", least), greatest)
    divided = build.binary("div", largest, build.scalar_like((high - low) / 2, largest))
    scale = _at_least(build.wide(divided), node.number("eps"), build)
    middle = 128 if node.dtype() == np.uint8 else 0
    return _as_chosen(scale, build.weight(np.array(middle, np.int64)), build)


def choose_parameters_per_token(node: AtenNode, build: Build) -> list[Expr]:
    """For each row of numbers a scale of 8 bits around 0."""
    if node.dtype() != np.int8:
        raise Unsupported(f"parameters of {node.dtype()} for each row")
    x = node.operand("input")
    magnitudes = build.reduce("max", build.unary("abs", x), [build.rank(x) - 1], True)
    if build.dtype(x) == np.float16:
        magnitudes = build.cast(magnitudes, np.float32)
    raised = build.binary("max", magnitudes, build.scalar_like(1e-5, magnitudes))
    scale = build.binary("div", raised, build.scalar_like(127.0, raised))
    zero = build.binary("mul", scale, build.scalar_like(0.0, scale))
    return [build.cast(scale, node.result_dtype(0)), build.cast(zero, node.result_dtype(1))]


def choose_asymmetric_parameters_per_token(node: AtenNode, build: Build) -> list[Expr]:
    """For each row a scale and a zero point of 8 bits, as XNNPACK chooses them.

    The zero point is counted from the end of the range that it errs less at.
    """
    x = node.operand("input")
    least, greatest = _range_with_zero(x, [build.rank(x) - 1], build)
    span = build.binary("sub", greatest, least)
    divided = build.binary("div", span, build.scalar_like(255.0, span))
    scale = _at_least(divided, float(np.finfo(np.float32).eps), build)
    below, above = (build.binary("div", bound, scale) for bound in (least, greatest))
    low, high = (build.scalar_like(bound, scale) for bound in (-128.0, 127.0))
    errors = build.binary("add", build.binary("add", low, below), build.binary("add", high, above))
    from_low = build.binary("greater", errors, build.scalar_like(0.0, errors))
    zero = build.select(from_low, build.binary("sub", low, below), build.binary("sub", high, above))
    rounded = build.unary("round", build.unary("clip", zero, -128.0, 127.0))
    return [build.cast(scale, np.float64), build.cast(rounded, np.int64)]


def convert_elements(node: AtenNode, build: Build) -> Expr:
    """The numbers in another element type."""
    return build.cast(node.operand("input"), node.result_dtype())


# -- parameters ------------------------------------------------------------------------------------


def _stored_dtype(node: AtenNode) -> np.dtype:
    dtype = node.result_dtype()
    if not isinstance(element_type_from_numpy(dtype), IntegerType) or dtype.itemsize > 4:
        raise Unsupported(f"quantization to {dtype}")
    return dtype


def _limits(node: AtenNode, build: Build) -> tuple[int, int]:
    """The least and the greatest stored number."""
    return node.integer("quant_min", build), node.integer("quant_max", build)


def _kind(node: AtenNode, x: Expr, dtype: np.dtype, build: Build) -> QuantizedType | None:
    """The quantized type that constant parameters state; None where arithmetic has to."""
    scales, zeros = (_constant(node, name, build) for name in _names(node))
    if scales is None or zeros is None or not np.array_equal(zeros, np.rint(zeros)):
        return None
    if not node.has("axis"):
        return type_of_numbers(scales.reshape(-1)[:1], zeros.reshape(-1)[:1], dtype)
    return type_of_numbers(scales, zeros, dtype, _axis(node, x, build))


def _constant(node: AtenNode, name: str, build: Build) -> np.ndarray | None:
    """The contents of a parameter; 0 for zero points that are left out."""
    if not node.has(name):
        return np.zeros(1, np.int64)
    if isinstance(node.argument(name), Ref):
        return build.stored(node.operand(name))
    return np.asarray(node.number(name))


def _names(node: AtenNode) -> tuple[str, str]:
    return ("scales", "zero_points") if node.has("scales") else ("scale", "zero_point")


def _axis(node: AtenNode, x: Expr, build: Build) -> int:
    return build.axis(node.integer("axis", build), build.rank(x))


def _parameters(node: AtenNode, x: Expr, build: Build) -> tuple[Expr, Expr | None]:
    """The scale and the zero point, in a form that broadcasts to x; of a whole tensor no axes."""
    scale, zero = (_parameter(node, name, x, build) for name in _names(node))
    if scale is None:
        raise ValueError("the scale is missing")
    return scale, zero


def _parameter(node: AtenNode, name: str, x: Expr, build: Build) -> Expr | None:
    if not node.has(name):
        return None
    if not isinstance(node.argument(name), Ref):
        return build.weight(np.asarray(node.number(name), np.float64))
    value = node.operand(name)
    if not node.has("axis"):
        return build.reshape(value, [])
    ones = [1] * (build.rank(x) - _axis(node, x, build) - 1)
    return build.reshape(value, [*build.all_sizes(value), *ones])


def _reciprocal(scale: Expr, x: Expr, build: Build) -> Expr:
    """1 / scale; that of a whole tensor is a number of Python, divided in f64."""
    if build.rank(scale):
        return build.binary("div", build.scalar_like(1.0, scale), scale)
    wide = build.cast(scale, np.float64)
    return build.cast(build.binary("div", build.scalar_like(1.0, wide), wide), build.dtype(x))


def _within_limits(x: Expr, kind: QuantizedType, limits: tuple[int, int], build: Build) -> Expr:
    """x between the real numbers of limits that are narrower than those of the type."""
    if limits == integer_limits(kind.storage):
        return x
    least, greatest = integer_limits(kind.storage)
    if not least <= limits[0] <= limits[1] <= greatest:
        raise ValueError(f"limits {limits} of numbers from {least} to {greatest}")
    shape = [1] * build.rank(x)
    if not kind.is_per_tensor:
        shape[kind.axis_number] = -1
    scales = kind.scale_array.astype(np.float64)
    for function, limit in zip(("max", "min"), limits, strict=True):
        bounds = ((limit - kind.zero_point_array) * scales).astype(np.float32)
        x = build.binary(function, x, build.weight(bounds.reshape(shape)))
    return x


def _clipped(whole: Expr, node: AtenNode, dtype: np.dtype, build: Build) -> Expr:
    low, high = _limits(node, build)
    return build.cast(build.unary("clip", whole, float(low), float(high)), dtype)


def _typed(x: Expr, kind: QuantizedType, build: Build) -> Expr:
    """Integers as numbers of a type; what was quantized to the same type, without its integers."""
    made = x.owner
    if isinstance(made, BitcastOp) and element_type_of(made.input) == kind:
        return build.expr(made.input)
    return as_quantized(x, kind, build)


def _real(x: Expr, scale: Expr, zero: Expr | None, build: Build) -> Expr:
    """(x - zero) * scale in the type of the scale, the difference in that of both integers."""
    if zero is not None:
        x = _binary("sub", x, zero, build)
    return _binary("mul", x, scale, build)


def _binary(kind: str, left: Expr, right: Expr, build: Build) -> Expr:
    """Of tensors in the type that holds both."""
    dtype = promoted_types(build.dtype(left), build.dtype(right))
    return build.binary(kind, build.cast(left, dtype), build.cast(right, dtype))


def _range_with_zero(x: Expr, axes: list[int] | None, build: Build) -> tuple[Expr, Expr]:
    """The least and the greatest element, but no more and no less than 0; rows keep their axis."""
    along = list(range(build.rank(x))) if axes is None else axes
    least, greatest = (build.reduce(kind, x, along, axes is not None) for kind in ("min", "max"))
    zero = build.scalar_like(0.0, x)
    return build.binary("min", least, zero), build.binary("max", greatest, zero)


def _at_least(x: Expr, bound: float, build: Build) -> Expr:
    return build.binary("max", x, build.scalar_like(bound, x))


def _as_chosen(scale: Expr, zero: Expr, build: Build) -> list[Expr]:
    """A scale of 64 bits and a zero point, each with an axis of 1."""
    return [
        build.reshape(build.cast(scale, np.float64), [1]),
        build.reshape(build.cast(zero, np.int64), [1]),
    ]


OF_LIBRARIES = {
    f"quantized_decomposed.{name}": convert
    for name, convert in {
        "quantize_per_tensor": quantize,
        "quantize_per_tensor.tensor": quantize,
        "quantize_per_tensor.tensor2": quantize,
        "quantize_per_channel": quantize,
        "quantize_per_token": quantize_per_token,
        "dequantize_per_tensor": dequantize,
        "dequantize_per_tensor.tensor": dequantize,
        "dequantize_per_tensor.tensor2": dequantize,
        "dequantize_per_channel": dequantize,
        "dequantize_per_token": dequantize_per_token,
        "choose_qparams.tensor": choose_parameters,
        "choose_qparams_symmetric.tensor": choose_symmetric_parameters,
        "choose_qparams_per_token": choose_parameters_per_token,
        "choose_qparams_per_token_asymmetric": choose_asymmetric_parameters_per_token,
        "convert_element_type.no_fuse": convert_elements,
    }.items()
}
