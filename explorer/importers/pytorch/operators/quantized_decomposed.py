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
from explorer.importers.building.expr import Expr, maximum, minimum, where
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
    x, dtype = node.operand("input").wide(), _stored_dtype(node)
    kind = _kind(node, x, dtype, build)
    if kind is not None and x.dtype == np.float32:
        limited = _within_limits(x, kind, _limits(node, build), build)
        return as_stored(build.value(QuantizeOp, [limited], to=kind), build)
    scale, zero = _parameters(node, x, build)
    scaled = _binary("mul", x, _reciprocal(scale, x))
    whole = scaled.round()
    if zero is not None:
        whole = _binary("add", whole, zero)
    return _clipped(whole, node, dtype, build)


def quantize_per_token(node: AtenNode, build: Build) -> Expr:
    """Each row by its own scale; the zero point is added before rounding."""
    x, scales = node.operand("input"), node.operand("scales")
    inverse = 1.0 / scales
    moved = _binary("add", _binary("mul", x, inverse), node.operand("zero_points"))
    return _clipped(moved.round(), node, _stored_dtype(node), build)


def dequantize(node: AtenNode, build: Build) -> Expr:
    """(x - zero point) * scale of a whole tensor, or of each slice of an axis."""
    x, dtype = node.operand("input"), node.result_dtype()
    kind = _kind(node, x, x.dtype, build)
    if kind is not None and dtype == np.float32:
        typed = _typed(x, kind, build)
        return build.value(DequantizeOp, [typed], to=element_type_from_numpy(dtype))
    scale, zero = _parameters(node, x, build)
    if scale.rank == 0:
        real = x.astype(np.float32)
        if zero is not None:
            # Narrow floats round the difference, too.
            difference = real - zero.astype(np.float32)
            real = difference.astype(dtype).astype(np.float32)
        return (real * scale.astype(np.float32)).astype(dtype)
    return _real(x, scale, zero).astype(dtype)


def dequantize_per_token(node: AtenNode, build: Build) -> Expr:
    """(x - zero point) * scale, where each row has its own."""
    scales, zeros = node.operand("scales"), node.operand("zero_points")
    return _real(node.operand("input"), scales, zeros).astype(node.result_dtype())


def choose_parameters(node: AtenNode, build: Build) -> list[Expr]:
    """A scale and a zero point for the range of a tensor, which is made to hold 0."""
    least, greatest = _range_with_zero(node.operand("input"), None)
    low, high = _limits(node, build)
    span = greatest - least
    divided = span / float(high - low)
    scale = maximum(divided.wide(), node.number("eps"))
    steps = _binary("div", least, scale).round().astype(np.int32)
    zero = low - steps
    for kind, limit in (("max", low), ("min", high)):
        zero = zero.binary(kind, limit)
    return _as_chosen(scale, zero)


def choose_symmetric_parameters(node: AtenNode, build: Build) -> list[Expr]:
    """A scale for the largest absolute value; the zero point is the middle of the type."""
    least, greatest = _range_with_zero(node.operand("input"), None)
    low, high = _limits(node, build)
    largest = maximum(-least, greatest)
    divided = largest / ((high - low) / 2)
    scale = maximum(divided.wide(), node.number("eps"))
    middle = 128 if node.dtype() == np.uint8 else 0
    return _as_chosen(scale, build.weight(np.array(middle, np.int64)))


def choose_parameters_per_token(node: AtenNode, build: Build) -> list[Expr]:
    """For each row of numbers a scale of 8 bits around 0."""
    if node.dtype() != np.int8:
        raise Unsupported(f"parameters of {node.dtype()} for each row")
    x = node.operand("input")
    magnitudes = abs(x).max([x.rank - 1], True)
    if x.dtype == np.float16:
        magnitudes = magnitudes.astype(np.float32)
    raised = maximum(magnitudes, 1e-5)
    scale = raised / 127.0
    zero = scale * 0.0
    return [scale.astype(node.result_dtype(0)), zero.astype(node.result_dtype(1))]


def choose_asymmetric_parameters_per_token(node: AtenNode, build: Build) -> list[Expr]:
    """For each row a scale and a zero point of 8 bits, as XNNPACK chooses them.

    The zero point is counted from the end of the range that it errs less at.
    """
    x = node.operand("input")
    least, greatest = _range_with_zero(x, [x.rank - 1])
    span = greatest - least
    divided = span / 255.0
    scale = maximum(divided, float(np.finfo(np.float32).eps))
    below, above = (bound / scale for bound in (least, greatest))
    low, high = (scale.constant(bound) for bound in (-128.0, 127.0))
    errors = low + below + (high + above)
    from_low = errors > 0.0
    zero = where(from_low, low - below, high - above)
    rounded = zero.clip(-128.0, 127.0).round()
    return [scale.astype(np.float64), rounded.astype(np.int64)]


def convert_elements(node: AtenNode, build: Build) -> Expr:
    """The numbers in another element type."""
    return node.operand("input").astype(node.result_dtype())


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
    return build.axis(node.integer("axis", build), x.rank)


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
        return value.reshape([])
    ones = [1] * (x.rank - _axis(node, x, build) - 1)
    return value.reshape([*value.all_sizes(), *ones])


def _reciprocal(scale: Expr, x: Expr) -> Expr:
    """1 / scale; that of a whole tensor is a number of Python, divided in f64."""
    if scale.rank:
        return 1.0 / scale
    return (1.0 / scale.astype(np.float64)).astype(x.dtype)


def _within_limits(x: Expr, kind: QuantizedType, limits: tuple[int, int], build: Build) -> Expr:
    """x between the real numbers of limits that are narrower than those of the type."""
    if limits == integer_limits(kind.storage):
        return x
    least, greatest = integer_limits(kind.storage)
    if not least <= limits[0] <= limits[1] <= greatest:
        raise ValueError(f"limits {limits} of numbers from {least} to {greatest}")
    shape = [1] * x.rank
    if not kind.is_per_tensor:
        shape[kind.axis_number] = -1
    scales = kind.scale_array.astype(np.float64)
    for function, limit in zip(("max", "min"), limits, strict=True):
        bounds = ((limit - kind.zero_point_array) * scales).astype(np.float32)
        x = x.binary(function, build.weight(bounds.reshape(shape)))
    return x


def _clipped(whole: Expr, node: AtenNode, dtype: np.dtype, build: Build) -> Expr:
    low, high = _limits(node, build)
    return whole.clip(float(low), float(high)).astype(dtype)


def _typed(x: Expr, kind: QuantizedType, build: Build) -> Expr:
    """Integers as numbers of a type; what was quantized to the same type, without its integers."""
    made = x.owner
    if isinstance(made, BitcastOp) and element_type_of(made.input) == kind:
        return build.expr(made.input)
    return as_quantized(x, kind, build)


def _real(x: Expr, scale: Expr, zero: Expr | None) -> Expr:
    """(x - zero) * scale in the type of the scale, the difference in that of both integers."""
    if zero is not None:
        x = _binary("sub", x, zero)
    return _binary("mul", x, scale)


def _binary(kind: str, left: Expr, right: Expr) -> Expr:
    """Of tensors in the type that holds both."""
    dtype = promoted_types(left.dtype, right.dtype)
    return left.astype(dtype).binary(kind, right.astype(dtype))


def _range_with_zero(x: Expr, axes: list[int] | None) -> tuple[Expr, Expr]:
    """The least and the greatest element, but no more and no less than 0; rows keep their axis."""
    along = list(range(x.rank)) if axes is None else axes
    least, greatest = (x.reduce(kind, along, axes is not None) for kind in ("min", "max"))
    zero = x.constant(0.0)
    return minimum(least, zero), maximum(greatest, zero)


def _as_chosen(scale: Expr, zero: Expr) -> list[Expr]:
    """A scale of 64 bits and a zero point, each with an axis of 1."""
    return [
        scale.astype(np.float64).reshape([1]),
        zero.astype(np.int64).reshape([1]),
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
