"""Quantization: real numbers to stored ones and back, and operators on stored ones.

    QuantizeLinear     top.quantize: clip(round(x / scale) + zero point)
    DequantizeLinear   top.dequantize: (x - zero point) * scale
    QLinearConv        top.conv of quantized tensors, sums in i32; top.requantize

Scales are those of the whole tensor, one per slice of `axis`, or one per block of slices, for which
there is an operation of its own. Where they are not constant, or the type is float8, it is written
out in arithmetic.
Reference: ONNX operators, QuantizeLinear-10 to -25; onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerType,
    Signedness,
)

from explorer.importers.building.expr import Expr, Size, where
from explorer.importers.building.quantized_types import (
    as_quantized,
    as_stored,
    dequantized_blocks,
)
from explorer.importers.onnx.file.tensors import dtype_of, read_tensor
from explorer.importers.onnx.operators.nn import conv, matmul
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.quantized_types import quantized_type, with_suited_operands
from explorer.importers.onnx.program.structures import Imported
from explorer.ir.requantization import BY_SHIFT, DOUBLED_BITS, RequantizationAttr
from explorer.ir.top.elementwise import CastOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp, RequantizeOp
from explorer.ir.types import (
    QuantizedType,
    element_type_from_numpy,
    stored_type,
)

NARROW = (Float32Type(), Float16Type(), BFloat16Type())
"""Floats that quantize and dequantize compute in single precision."""


@converts("QuantizeLinear", since=10)
def quantize(node: Node, build: Build) -> Expr:
    """Real numbers to quantized ones.

    The division is in `precision`, else in the type of the scale: a quotient of half precision is
    rounded to that before it is rounded to the result, and one of whole numbers is in f64; a scale
    of 8 bits only stores a power of two, and the quotient has the type of x. Before opset 23 it is
    in f32, or in f64 where an operand is.
    """
    x, scale, zero_point = node.operand(0), node.operand(1), node.optional(2)
    dtype = np.dtype(np.uint8)
    if zero_point is not None:
        dtype = zero_point.dtype
    elif node.integer("output_dtype", 0):
        dtype = dtype_of(node.integer("output_dtype"), "the result")
    kind = _typed(node, x, scale, zero_point, dtype, build)
    precision = np.dtype(np.float64) if scale.dtype.kind in "iu" else scale.dtype
    if scale.is_float and scale.dtype.itemsize == 1:
        precision = x.dtype
    if node.opset < 23:
        is_double = np.float64 in (x.dtype, precision)
        precision = np.dtype(np.float64 if is_double else np.float32)
    if node.integer("precision", 0):
        precision = dtype_of(node.integer("precision"), "the division")
    is_single = precision == np.float32
    if kind is not None and is_single and x.element_type in NARROW and dtype.itemsize <= 2:
        return build.value(QuantizeOp, [x], to=kind)
    divided = x.astype(precision) / _aligned(scale.astype(precision), node, x, build)
    if not isinstance(element_type_from_numpy(dtype), IntegerType):
        saturate = None if node.integer("saturate", 1) else False
        return build.value(CastOp, [divided], to=element_type_from_numpy(dtype), saturate=saturate)
    zero = None if zero_point is None else _aligned(zero_point, node, x, build)
    return _quantized(divided, zero, dtype)


@converts("DequantizeLinear", since=10, knows_quantized=True)
def dequantize(node: Node, build: Build) -> Expr:
    """Quantized numbers to real ones.

    In f32 (f64 where the scale is), rounded to the scale's type or `output_dtype` at the end. Zero
    points of float8 are zero; integers of 32 bits have none.
    """
    x, scale, zero_point = node.operand(0), node.operand(1), node.optional(2)
    dtype = scale.dtype
    if node.integer("output_dtype", 0):
        dtype = dtype_of(node.integer("output_dtype"), "the result")
    kind = _typed(node, x, scale, zero_point, x.dtype, build)
    if kind is not None and element_type_from_numpy(dtype) in NARROW:
        to = element_type_from_numpy(dtype)
        return build.value(DequantizeOp, [as_quantized(x, kind, build)], to=to)
    x = as_stored(x, build)
    wide = np.dtype(np.float64 if scale.dtype == np.float64 else np.float32)
    block = node.integer("block_size", 0)
    if block and isinstance(x.element_type, IntegerType):
        axis = build.axis(node.integer("axis", 1), x.rank)
        real = dequantized_blocks(x, scale.astype(wide), zero_point, axis, block, build)
        return real.astype(dtype)
    real = x.astype(wide)
    if zero_point is not None and isinstance(x.element_type, IntegerType):
        zero = _aligned(zero_point, node, x, build).astype(wide)
        real = real - zero
    return (real * _aligned(scale.astype(wide), node, x, build)).astype(dtype)


def _typed(
    node: Node,
    x: Expr,
    scale: Expr,
    zero_point: Expr | None,
    dtype: np.dtype,
    build: Build,
) -> QuantizedType | None:
    """The quantized type that the operands say; None where arithmetic has to."""
    if node.integer("block_size", 0) or not isinstance(
        stored_type(element_type_from_numpy(dtype)), IntegerType
    ):
        return None
    rank = x.rank
    axis = build.axis(node.integer("axis", 1), rank) if scale.rank and rank > 1 else 0
    return quantized_type(scale, zero_point, dtype, build, axis)


def _quantized(x: Expr, zero: Expr | None, dtype: np.dtype) -> Expr:
    """x, already divided by its scale, as integers of the type; NaN is the least of them."""
    if not isinstance(element_type_from_numpy(dtype), IntegerType) or dtype.itemsize > 2:
        raise Unsupported(f"quantization to {dtype}")
    rounded = x.round().wide()
    if zero is not None:
        rounded = rounded + zero.astype(rounded.dtype)
    low, high = integer_range(dtype)
    clipped = rounded.clip(float(low), float(high))
    return where(rounded.is_nan(), low, clipped).astype(dtype)


def integer_range(dtype: np.dtype) -> tuple[int, int]:
    """Least and greatest number of an integer type, those of ml_dtypes included."""
    kind = element_type_from_numpy(dtype)
    assert isinstance(kind, IntegerType)
    bits = kind.width.data
    is_unsigned = dtype.name.startswith("u")
    return (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _aligned(parameter: Expr, node: Node, x: Expr, build: Build) -> Expr:
    """A scale or zero point in a form that broadcasts to x."""
    rank = x.rank
    if parameter.rank == 0:
        return parameter
    if node.integer("block_size", 0):
        axis = build.axis(node.integer("axis", 1), rank)
        return _repeated(parameter, axis, node.integer("block_size"), x)
    if parameter.size(0) == 1 and parameter.rank == 1:
        return parameter.reshape([])
    axis = build.axis(node.integer("axis", 1), rank)
    return parameter.reshape([*parameter.all_sizes(), *[1] * (rank - axis - 1)])


def _repeated(parameter: Expr, axis: int, block: int, x: Expr) -> Expr:
    """Each slice along the axis `block` times; the last block may be cut off."""
    blocks, size = parameter.sizes([axis], "blocks")[0], x.sizes([axis], "blocks")[0]
    if not (blocks - 1) * block < size <= blocks * block:
        raise ValueError(f"{blocks} blocks of {block} for {size} slices")
    sizes: list[Size] = [parameter.dim(a) for a in range(parameter.rank)]
    apart = parameter.unsqueeze([axis + 1])
    wide = apart.broadcast_to([*sizes[: axis + 1], block, *sizes[axis + 1 :]])
    joined = wide.reshape([*sizes[:axis], blocks * block, *sizes[axis + 1 :]])
    return joined.slice(axis, 0, size) if size < blocks * block else joined


@converts("ConvInteger", since=10)
def conv_integer(node: Node, build: Build) -> Expr:
    """The sums of products, as i32; both scales are 1."""
    x, weight = node.operand(0), node.operand(1)
    weight_zero = node.optional(3)
    typed = _unscaled(node, x, weight, 0, build)
    if typed is not None:
        return as_stored(_one(conv.convert(replace(node, operands=typed), build)), build)
    if weight_zero is not None:
        weight_zero = _per_filter(weight_zero, weight.rank)
    operands = (
        _centered(x, node.optional(2)),
        _centered(weight, weight_zero),
    )
    return _one(conv.convert(replace(node, operands=operands), build))


@converts("MatMulInteger", since=10)
def matmul_integer(node: Node, build: Build) -> Expr:
    """Zero points of the left are one per row, of the right one per column, or single numbers."""
    left, right, left_zero, right_zero = (
        node.operand(0),
        node.operand(1),
        node.optional(2),
        node.optional(3),
    )
    typed = _unscaled(node, left, right, right.rank - 1, build)
    if typed is not None:
        return as_stored(_one(matmul.convert(replace(node, operands=typed), build)), build)
    if left_zero is not None:
        left_zero = _per_row(left_zero)
    operands = (_centered(left, left_zero), _centered(right, right_zero))
    return _one(matmul.convert(replace(node, operands=operands), build))


def _unscaled(
    node: Node, left: Expr, right: Expr, right_axis: int, build: Build
) -> tuple[Expr, Expr] | None:
    """The operands as quantized numbers of scale 1; None where zero points are not constant."""
    typed = []
    for x, zero, axis in ((left, node.optional(2), -1), (right, node.optional(3), right_axis)):
        zeros = np.zeros((), np.int64) if zero is None else build.stored(zero)
        if zeros is None or zeros.ndim > 1 or (zeros.size > 1 and axis < 0):
            return None
        numbers = zeros.reshape(-1).astype(np.int64).tolist()
        storage = x.element_type
        assert isinstance(storage, IntegerType)
        kind = QuantizedType.get(
            storage, [1.0] * len(numbers), numbers, axis if len(numbers) > 1 else -1
        )
        typed.append((x, kind))
    (left, left_kind), (right, right_kind) = typed
    return as_quantized(left, left_kind, build), as_quantized(right, right_kind, build)


@converts("QLinearConv", since=10, knows_quantized=True)
def qlinear_conv(node: Node, build: Build) -> Expr:
    """The convolution of integers, rescaled at the end."""
    typed = quantized_operands(node, 0, build)
    if typed is not None:
        y = conv.convert(replace(node, operands=(*typed.operands, node.optional(8))), build)
        return requantized(_one(y), typed.result, build)
    node = with_suited_operands(node, False, build)
    x, x_scale, x_zero, weight, w_scale, w_zero = (node.operand(index) for index in range(6))
    plain = replace(
        node,
        operands=(
            _centered(x, x_zero),
            _centered(weight, _per_filter(w_zero, weight.rank)),
            node.optional(8),
        ),
    )
    y = _one(conv.convert(plain, build))
    scale = x_scale.wide() * w_scale.wide()
    return _requantized(y, _per_filter(scale, weight.rank - 1), node, 6)


@converts("QLinearMatMul", since=10, knows_quantized=True)
def qlinear_matmul(node: Node, build: Build) -> Expr:
    """The product of matrices of integers, rescaled at the end."""
    typed = quantized_operands(node, node.operand(3).rank - 1, build)
    if typed is not None:
        y = matmul.convert(replace(node, operands=typed.operands), build)
        return requantized(_one(y), typed.result, build)
    node = with_suited_operands(node, False, build)
    left, left_scale, left_zero, right, right_scale, right_zero = (
        node.operand(index) for index in range(6)
    )
    # Floats of 8 bits have fractions.
    dtype = np.float32 if left.is_float or right.is_float else np.int32
    operands = (
        _centered(left, _per_row(left_zero), dtype),
        _centered(right, right_zero, dtype),
    )
    product = _one(matmul.convert(replace(node, operands=operands), build))
    left_scale, right_scale = left_scale.wide(), right_scale.wide()
    return _requantized(product, _per_row(left_scale) * right_scale, node, 6)


@dataclass(frozen=True)
class TypedOperands:
    """The two operands of a product in their quantized types, and the type of its result."""

    operands: tuple[Expr, Expr]
    result: QuantizedType


def quantized_operands(node: Node, right_axis: int, build: Build) -> TypedOperands | None:
    """Operands (number, scale, zero point) from 0 and 3 on, and the result's (scale, zero point).

    None where a parameter is not constant, or is one per row.
    """
    kinds = []
    for first, axis in ((0, -1), (3, right_axis)):
        x, scale, zero = (node.operand(first), node.operand(first + 1), node.optional(first + 2))
        kinds.append(quantized_type(scale, zero, x.dtype, build, axis))
    zero = node.optional(7)
    dtype = (node.operand(0) if zero is None else zero).dtype
    left, right = kinds
    result = quantized_type(node.operand(6), zero, dtype, build)
    if left is None or right is None or result is None:
        return None
    operands = (
        as_quantized(node.operand(0), left, build),
        as_quantized(node.operand(3), right, build),
    )
    return TypedOperands(operands, result)


def requantized(sums: Expr, to: QuantizedType, build: Build) -> Expr:
    """Sums in a narrow type, as onnxruntime computes it: passes may choose another scheme."""
    return build.value(RequantizeOp, [sums], by=RequantizationAttr.get(to))


_BYTES = {True: IntegerType(8), False: IntegerType(8, Signedness.UNSIGNED)}
_I32 = IntegerType(32)
_WHOLE = QuantizedType.get(_I32, [1.0], [0])
"""Whole numbers that floats hold."""


@converts("RequantShift")
def requantize_by_shift(node: Node, build: Build) -> Expr:
    """clip(floor((x * factor + offset) / div + 1/2)): integers by integers, as Deeploy has it.

    Scherer et al., "Deeploy: Enabling Energy-Efficient Deployment of Small Language Models on
    Heterogeneous Microcontrollers", 2024. All numbers are whole, held in floats: x becomes integers
    of 32 bits, their scale is factor / div, and what they are requantized to has the scale 1. An
    offset that the factor divides is added before; any other one to the product, in 32 bits, as
    Deeploy's kernels do. What is no bytes, or computed, is written out in floats.
    """
    x, factor, offset = (node.operand(index) for index in range(3))
    divisor, levels, is_signed = (_number(node, name) for name in ("div", "n_levels_out", "signed"))
    low = -levels / 2 if is_signed else 0.0
    limits = (low, low + levels - 1)
    sums = None
    if levels <= 256 and low == int(low) and x.element_type == Float32Type():
        sums = _whole_sums(x, build.stored(factor), build.stored(offset), divisor, build)
    if sums is None:
        scaled = x * factor + offset
        return (scaled.scaled(1 / divisor) + 0.5).floor().clip(*limits)
    kind = QuantizedType.get(_BYTES[bool(is_signed)], [1.0], [0])
    by = RequantizationAttr.get(kind, BY_SHIFT, (int(limits[0]), int(limits[1])))
    stored = build.value(RequantizeOp, [sums], by=by)
    return build.value(DequantizeOp, [stored], to=x.element_type)


def _whole_sums(
    x: Expr,
    factor: np.ndarray | None,
    offset: np.ndarray | None,
    divisor: float,
    build: Build,
) -> Expr | None:
    """Whole numbers of 32 bits whose scale is factor / divisor; None where that says no type."""
    if factor is None or offset is None or not factor.size:
        return None
    is_power = np.frexp(divisor)[0] == 0.5 and divisor >= 1
    if not is_power or factor.min() <= 0 or factor.max() >= (1 << DOUBLED_BITS):
        return None
    if not all(np.array_equal(array, np.rint(array)) for array in (factor, offset)):
        return None
    rank, factors = x.rank, factor.astype(np.int64)
    if max(factor.ndim, offset.ndim) > rank or np.abs(offset).max() > (1 << DOUBLED_BITS):
        return None
    shape = (1,) * (rank - factor.ndim) + factor.shape
    along = [axis for axis, size in enumerate(shape) if size > 1 and np.ptp(factor)]
    if len(along) > 1:
        return None
    before, rest = np.divmod(offset.astype(np.int64), factors)
    if not rest.any():
        if before.any():
            x = x + build.weight(before.astype(np.float32))
        numbers = factors.reshape(-1) if along else factors.reshape(-1)[:1]
        scales = (numbers / divisor).tolist()
        kind = QuantizedType.get(_I32, scales, [0] * len(scales), along[0] if along else -1)
        return as_quantized(build.value(QuantizeOp, [x], to=_WHOLE), kind, build)
    whole = as_stored(build.value(QuantizeOp, [x], to=_WHOLE), build)
    product = whole * build.weight(factor.astype(np.int32))
    moved = product + build.weight(offset.astype(np.int32))
    return as_quantized(moved, QuantizedType.get(_I32, [1 / divisor], [0]), build)


def _centered(x: Expr, zero: Expr | None, dtype: type = np.int32) -> Expr:
    """Stored numbers minus their zero point, in a type that holds them."""
    wide = x.astype(dtype)
    return wide if zero is None else wide - zero.astype(dtype)


def _per_row(parameter: Expr) -> Expr:
    """A vector with one number per row of a matrix; single numbers as they are."""
    if parameter.rank != 1 or parameter.size(0) == 1:
        return parameter
    return parameter.unsqueeze([1])


def _per_filter(parameter: Expr, rank: int) -> Expr:
    """A vector over the first of `rank` axes."""
    if parameter.rank == 0 or parameter.size(0) == 1:
        return parameter.reshape([]) if parameter.rank else parameter
    return parameter.reshape([*parameter.all_sizes(), *[1] * (rank - 1)])


def _requantized(y: Expr, scale: Expr, node: Node, first: int) -> Expr:
    """y * scale / result scale, as integers; operand `first` is the result's scale. In f32 at
    least: products of scales are too small for half precision."""
    result_scale, zero = node.operand(first).wide(), node.operand(first + 1)
    factor = scale / result_scale
    return _quantized(y.astype(factor.dtype) * factor, zero, zero.dtype)


def _one(result: Imported | Sequence[Imported | None]) -> Expr:
    assert isinstance(result, Expr)
    return result


def _number(node: Node, name: str) -> float:
    """An attribute that holds one number in a tensor."""
    tensor = node.tensor(name)
    if tensor is None:
        raise ValueError(f"attribute {name} is missing")
    return float(read_tensor(tensor, None).item())
