"""Arithmetic on integers as ONNX has it: floats between DequantizeLinear and QuantizeLinear.

    %s = top.conv(%x, %w, bias = %b) : i32 sums         DequantizeLinear(x), (w), (b) -> Conv
    %y = top.requantize(%s) {by = ...}                  -> Clip -> QuantizeLinear

What runs such a file rounds in its own way (onnxruntime once, in single precision): a result may be
one step of its scale apart from the program's. Functions of one number are exact: their tables are
looked up with Gather. Sums that something else reads as integers are those of ConvInteger and
MatMulInteger, which are exact, too. Where integers are to be exact all sums are such integers,
those of wider numbers than bytes in 64 bits, and so is what is made of them (`exact_integers`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from explorer.exporters.onnx.exact_integers import (
    centered,
    divided,
    has_form,
    multiplied,
    requantized,
    stored,
    whole_conv,
)
from explorer.exporters.onnx.nodes import (
    Nodes,
    Unwritable,
    Value,
    dtype_of,
    is_quantized,
    onnx_type,
    rank_of,
    sizes_of,
    writes,
)
from explorer.exporters.onnx.quantization import (
    SINGLE,
    as_multiplied,
    axis_of,
    dequantized,
    parameters,
)
from explorer.ir.requantization import integer_limits, ratio_of
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.top.quantization.fixed_point_softmax import FixedPointSoftmaxOp
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.top.quantization.lookup import LookupOp
from explorer.ir.top.quantization.quantized import DequantizeOp, RequantizeOp
from explorer.ir.top.support.quantized_scalars import centered as centered_array
from explorer.ir.top.support.quantized_scalars import real_array
from explorer.ir.types import QuantizedType, element_type_of, numpy_dtype

PRODUCTS = {"Conv": "ConvInteger", "MatMul": "MatMulInteger"}
"""What sums products of bytes, by what sums those of floats."""
WIDE_BITS = 16
OPERATORS = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "max": "Max",
    "min": "Min",
    "prelu": "PRelu",
}


def integer_product(op: ConvOp | MatMulOp, operator: str, out: Nodes, **window: Any) -> str:
    """The sums of a product of quantized numbers; see the file for their two forms."""
    left, right, bias = op.operands[0], op.operands[1], op.bias
    if not (is_quantized(left) and is_quantized(right)):
        raise Unwritable("it multiplies quantized numbers with others")
    sums = op.results[0]
    users = [use.operation for use in sums.uses]
    if not all(isinstance(user, RequantizeOp | DequantizeOp) for user in users):
        return _summed(op, PRODUCTS[operator], out, **window)
    if out.is_exact and all(_is_of_bytes(value) for value in (left, right)):
        return _summed(op, PRODUCTS[operator], out, **window)
    is_known = operator == "MatMul" or out.stored(right) is not None
    if out.is_exact and is_known and all(_has_one_zero(value) for value in (left, right)):
        return _widely_summed(op, out)
    out.reals.add(sums)
    name = out.wanted[sums]
    factors = [dequantized(left, f"{name}.left", out), _filters(left, right, name, out)]
    if bias is not None:
        factors.append(_real_bias(bias, sums, name, out))
    elif operator == "Conv" and dtype_of(left).itemsize > 1:
        # Without a bias onnxruntime makes bytes of filters that are floats, and rounds them.
        none = out.named(f"{name}.bias", np.zeros(sizes_of(right)[0], np.int32))
        scale = out.named(f"{name}.bias.scale", np.ones((), SINGLE))
        factors.append(out.node("DequantizeLinear", none, scale))
    if operator == "MatMul" and len(factors) == 3 and rank_of(left) == rank_of(right) == 2:
        return out.node("Gemm", *factors)
    if operator == "MatMul" and len(factors) == 3:
        return out.node("Add", out.node("MatMul", *factors[:2]), factors[2])
    return out.node(operator, *factors, **window)


def _filters(left: SSAValue, right: SSAValue, name: str, out: Nodes) -> str:
    """The second factor in floats. Beside bytes it is stored as integers; beside wider numbers as
    floats: onnxruntime makes bytes of whatever is multiplied by constant bytes."""
    array, kind = out.stored(right), element_type_of(right)
    if array is None or dtype_of(left).itemsize == 1:
        return dequantized(right, f"{name}.right", out)
    return out.named(f"{out.name(right)}.real", real_array(array, kind))


def _summed(op: ConvOp | MatMulOp, operator: str, out: Nodes, **window: Any) -> str:
    """Sums of bytes as integers of 32 bits.

    Both factors have signs or neither: onnxruntime 1.32 sums bytes with signs times others wrongly.
    """
    operands: list[str] = []
    zeros: list[str] = []
    for value in op.operands[:2]:
        if not _is_of_bytes(value):
            raise Unwritable(f"{operator} takes bytes, with one zero point for each operand")
        factor, dtype, zero = value, dtype_of(value), _kind(value).zero_point_array
        if dtype_of(op.operands[0]) == np.uint8:
            factor, dtype, zero = as_multiplied(value, _kind(value), out)
        operands.append(factor if isinstance(factor, str) else out.name(factor))
        zeros.append(out.constant(zero[:1].reshape(()).astype(dtype)))
    total = out.node(operator, *operands, *zeros, **window)
    return total if op.bias is None else out.node("Add", total, along_channels(op, out))


def _widely_summed(op: ConvOp | MatMulOp, out: Nodes) -> str:
    """The same in 64 bits, of numbers of any width."""
    left, right = op.operands[:2]
    kinds = [_kind(value) for value in (left, right)]
    x = centered(left, kinds[0], out)
    if isinstance(op, ConvOp):
        array = out.stored(right)
        assert array is not None
        total = whole_conv(op, x, centered_array(array, kinds[1]), out)
    else:
        total = out.node("MatMul", x, centered(right, kinds[1], out))
    sums = out.node("Cast", total, to=onnx_type(element_type_of(op.results[0])))
    return sums if op.bias is None else out.node("Add", sums, along_channels(op, out))


def along_channels(op: ConvOp | MatMulOp, out: Nodes) -> Value:
    """A bias in a shape that broadcasts to the sums."""
    assert op.bias is not None
    behind = rank_of(op.results[0]) - 2 if isinstance(op, ConvOp) else 0
    return out.node("Reshape", op.bias, out.constant([-1, *[1] * behind])) if behind else op.bias


def _is_of_bytes(value: SSAValue) -> bool:
    """Whether they are bytes with one zero point."""
    return dtype_of(value).itemsize == 1 and _has_one_zero(value)


def _has_one_zero(value: SSAValue) -> bool:
    return np.unique(_kind(value).zero_point_array).size == 1


def _kind(value: SSAValue) -> QuantizedType:
    kind = element_type_of(value)
    assert isinstance(kind, QuantizedType)
    return kind


def _real_bias(bias: SSAValue, sums: SSAValue, name: str, out: Nodes) -> str:
    """A bias of 32 bits, whose scales are those of the sums, along its only axis."""
    kind = element_type_of(sums)
    assert isinstance(kind, QuantizedType)
    if dtype_of(bias) != np.int32:
        raise Unwritable(f"its bias is {dtype_of(bias)}; DequantizeLinear takes up to 32 bits")
    shape = () if kind.is_per_tensor else (-1,)
    scale = out.named(f"{name}.bias.scale", kind.double_scales.astype(SINGLE).reshape(shape))
    return out.node("DequantizeLinear", bias, scale, axis=None if kind.is_per_tensor else 0)


@writes(RequantizeOp)
def requantize(op: RequantizeOp, out: Nodes) -> str:
    name = out.wanted[op.output]
    if out.is_exact and op.input not in out.reals and has_form(op.by.how):
        ratio = op.parameters.along(ratio_of(op.parameters, op.by), rank_of(op.input))
        return requantized(op.input, op.parameters, ratio, op.by, out)
    real = out.name(op.input) if op.input in out.reals else dequantized(op.input, name, out)
    return _quantized(real, op.by.to, op.by.limits, op.output, out)


@writes(FixedPointOp)
def fixed_point(op: FixedPointOp, out: Nodes) -> str:
    name = out.wanted[op.output]
    if out.is_exact and has_form(op.by.how):
        return _whole_fixed_point(op, out)
    left = dequantized(op.left, f"{name}.left", out)
    right = dequantized(op.right, f"{name}.right", out)
    real = out.node(OPERATORS[op.kind.data], left, right)
    return _quantized(real, op.by.to, op.by.limits, op.output, out)


def _whole_fixed_point(op: FixedPointOp, out: Nodes) -> str:
    """Its definition, spelt out."""
    how, ratios = op.by.how, {name: np.array(ratio) for name, ratio in op.ratios.items()}
    parts: list[str] = []
    for side, value, kind in zip(("left", "right"), op.operands, op.kinds, strict=True):
        part = centered(value, kind, out)
        if op.is_sum:
            part = out.node("Mul", part, out.constant([1 << op.lift]))
        is_scaled = side in ratios and not op.multiplies
        parts.append(multiplied(part, ratios[side], how, out) if is_scaled else part)
    made = out.node("Mul" if op.multiplies else OPERATORS[op.kind.data], *parts)
    if "result" in ratios:
        made = multiplied(made, ratios["result"], how, out)
    if op.kind.data == "prelu":
        kept = multiplied(parts[0], ratios["left"], how, out)
        is_below = out.node("Less", parts[0], out.constant([0]))
        made = out.node("Where", is_below, made, kept)
    return stored(made, op.by.to, op.by.limits, out)


@writes(IntegerAverageOp)
def integer_average(op: IntegerAverageOp, out: Nodes) -> str:
    """What lies in the padding is not counted."""
    if out.is_exact and dtype_of(op.input).itemsize == 1:
        return _whole_average(op, out)
    pool = out.node(
        "AveragePool",
        dequantized(op.input, f"{out.wanted[op.output]}.input", out),
        kernel_shape=list(op.get("window")),
        strides=list(op.get("strides")),
        pads=list(op.get("pads")),
        count_include_pad=0,
        **_dilated(op),
    )
    return _quantized(pool, op.to, op.limits, op.output, out)


def _dilated(op: IntegerAverageOp) -> dict[str, list[int]]:
    """Only where there are any: onnxruntime's QLinearAveragePool, which pairs become, has none."""
    return {"dilations": list(op.steps)} if any(step > 1 for step in op.steps) else {}


def _whole_average(op: IntegerAverageOp, out: Nodes) -> str:
    """Sums of stored numbers, as products with 1, divided by how many they are."""
    _, channels, *image = sizes_of(op.input)
    dtype, window = dtype_of(op.input), list(op.get("window"))
    none = out.constant(np.zeros((), dtype))
    sums = out.node(
        PRODUCTS["Conv"],
        op.input,
        out.constant(np.ones((channels, 1, *window), dtype)),
        none,
        none,
        kernel_shape=window,
        strides=list(op.get("strides")),
        pads=list(op.get("pads")),
        dilations=list(op.steps),
        group=channels,
    )
    whole, counts = out.node("Cast", sums, to=TensorProto.INT64), op.counts(image)
    if op.by is not None:
        zeros = counts * int(op.kind.zero_point_array[0])
        moved = out.node("Sub", whole, out.constant(zeros)) if zeros.any() else whole
        lifted = out.node("Mul", moved, out.constant(np.array(1 << op.lift)))
        scaled = multiplied(lifted, op.ratios[counts - 1], op.by.how, out)
        return stored(scaled, op.to, op.limits, out)
    average = divided(whole, counts, out)
    kept = out.node("Clip", average, *(out.constant(np.array(limit)) for limit in op.limits))
    return out.node("Cast", kept, to=onnx_type(op.kind))


@writes(FixedPointSoftmaxOp)
def fixed_point_softmax(op: FixedPointSoftmaxOp, out: Nodes) -> str:
    """Its result has 2^8 or 2^16 steps from 0 on, whatever its type says: so has the written."""
    x = dequantized(op.input, f"{out.wanted[op.output]}.input", out)
    beta = op.get("beta")
    scaled = x if beta == 1 else out.node("Mul", x, out.constant(np.array(beta, SINGLE)))
    share = out.node("Softmax", scaled, axis=op.get("axis"))
    lowest = integer_limits(op.to.storage)[0]
    steps = QuantizedType.get(op.to.storage, [2.0**-op.result_bits], [lowest])
    return _quantized(share, steps, integer_limits(op.to.storage), op.output, out)


@writes(LookupOp)
def lookup(op: LookupOp, out: Nodes) -> str:
    """The function of every number there is, from 0 on: indices below it count from the end."""
    storage = numpy_dtype(element_type_of(op.input))
    if storage.itemsize * 8 > WIDE_BITS:
        raise Unwritable(f"its table would have an entry for each number of {storage}")
    bounds = np.iinfo(storage)
    numbers = np.arange(bounds.min, bounds.max + 1).astype(storage)
    (entries,) = op.evaluate(numbers)
    table = out.named(f"{out.wanted[op.output]}.table", np.roll(entries, int(bounds.min)))
    wide = out.node("Cast", op.input, to=TensorProto.INT32)
    return out.node("Gather", table, wide, axis=0)


def _quantized(
    real: str, to: QuantizedType, limits: tuple[int, int], result: SSAValue, out: Nodes
) -> str:
    """Floats as numbers of a type, kept within limits of what is stored."""
    assert isinstance(result.type, TensorType)
    if to.storage.width.data > WIDE_BITS:
        raise Unwritable(f"QuantizeLinear makes integers of at most {WIDE_BITS} bits")
    if limits != integer_limits(to.storage):
        if not to.is_per_tensor:
            raise Unwritable("Clip has one limit for all slices, whose scales differ")
        scale, zero = to.scale_array[0], int(to.zero_point_array[0])
        low, high = (SINGLE.type((limit - zero) * scale) for limit in limits)
        real = out.node("Clip", real, out.constant(np.array(low)), out.constant(np.array(high)))
    scale, zero = parameters(to, out.wanted[result], to.zero_point_array, out)
    return out.node("QuantizeLinear", real, scale, zero, axis=axis_of(to))
