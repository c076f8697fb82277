"""Arithmetic on integers as ONNX has it: floats between DequantizeLinear and QuantizeLinear.

    %s = top.conv(%x, %w, bias = %b) : i32 sums         DequantizeLinear(x), (w), (b) -> Conv
    %y = top.requantize(%s) {by = ...}                  -> Clip -> QuantizeLinear

What runs such a file rounds in its own way (onnxruntime once, in single precision): a result may be
one step of its scale apart from the program's. Functions of one number are exact: their tables are
looked up with Gather. Sums that something else reads as integers are those of ConvInteger and
MatMulInteger, which are exact, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from explorer.exporters.onnx.nodes import (
    Nodes,
    Unwritable,
    dtype_of,
    is_quantized,
    rank_of,
    writes,
)
from explorer.exporters.onnx.quantization import SINGLE, axis_of, dequantized, parameters
from explorer.ir.requantization import integer_limits
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.top.quantization.fixed_point_softmax import FixedPointSoftmaxOp
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.top.quantization.lookup import LookupOp
from explorer.ir.top.quantization.quantized import DequantizeOp, RequantizeOp
from explorer.ir.top.support.quantized_scalars import real_array
from explorer.ir.types import QuantizedType, element_type_of, numpy_dtype

PRODUCTS = {"Conv": "ConvInteger", "MatMul": "MatMulInteger"}
"""What sums products of bytes, by what sums those of floats."""
WIDE_BITS = 16
OPERATORS = {"add": "Add", "sub": "Sub", "mul": "Mul", "max": "Max", "min": "Min"}


def integer_product(op: ConvOp | MatMulOp, operator: str, out: Nodes, **window: Any) -> str:
    """The sums of a product of quantized numbers; see the file for their two forms."""
    left, right, bias = op.operands[0], op.operands[1], op.bias
    if not (is_quantized(left) and is_quantized(right)):
        raise Unwritable("it multiplies quantized numbers with others")
    sums = op.results[0]
    if not all(isinstance(use.operation, RequantizeOp | DequantizeOp) for use in sums.uses):
        return _summed(op, PRODUCTS[operator], out, **window)
    out.reals.add(sums)
    name = out.wanted[sums]
    factors = [dequantized(left, f"{name}.left", out), _filters(left, right, name, out)]
    if bias is not None:
        factors.append(_real_bias(bias, sums, name, out))
    if operator == "MatMul" and len(factors) == 3 and rank_of(left) == rank_of(right) == 2:
        return out.node("Gemm", *factors)
    if operator == "MatMul" and len(factors) == 3:
        return out.node("Add", out.node("MatMul", *factors[:2]), factors[2])
    return out.node(operator, *factors, **window)


def _filters(left: SSAValue, right: SSAValue, name: str, out: Nodes) -> str:
    """The second factor in floats. Beside bytes it is stored as integers; beside wider numbers as
    floats: onnxruntime makes bytes of whatever is multiplied by constant bytes."""
    stored, kind = out.stored(right), element_type_of(right)
    if stored is None or dtype_of(left).itemsize == 1:
        return dequantized(right, f"{name}.right", out)
    return out.named(f"{out.name(right)}.real", real_array(stored, kind))


def _summed(op: ConvOp | MatMulOp, operator: str, out: Nodes, **window: Any) -> str:
    """Sums of bytes as integers of 32 bits."""
    operands: list[str] = []
    zeros: list[str] = []
    for value in op.operands[:2]:
        kind = element_type_of(value)
        assert isinstance(kind, QuantizedType)
        zero = np.unique(kind.zero_point_array)
        if dtype_of(value).itemsize != 1 or zero.size != 1:
            raise Unwritable(f"{operator} takes bytes, with one zero point for each operand")
        operands.append(out.name(value))
        zeros.append(out.constant(zero.reshape(()).astype(dtype_of(value))))
    total = out.node(operator, *operands, *zeros, **window)
    if op.bias is None:
        return total
    behind = rank_of(op.results[0]) - 2 if isinstance(op, ConvOp) else 0
    along = out.node("Reshape", op.bias, out.constant([-1, *[1] * behind])) if behind else op.bias
    return out.node("Add", total, along)


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
    real = out.name(op.input) if op.input in out.reals else dequantized(op.input, name, out)
    return _quantized(real, op.by.to, op.by.limits, op.output, out)


@writes(FixedPointOp)
def fixed_point(op: FixedPointOp, out: Nodes) -> str:
    name = out.wanted[op.output]
    left = dequantized(op.left, f"{name}.left", out)
    right = dequantized(op.right, f"{name}.right", out)
    real = out.node(OPERATORS[op.kind.data], left, right)
    return _quantized(real, op.by.to, op.by.limits, op.output, out)


@writes(IntegerAverageOp)
def integer_average(op: IntegerAverageOp, out: Nodes) -> str:
    """What lies in the padding is not counted."""
    pool = out.node(
        "AveragePool",
        dequantized(op.input, f"{out.wanted[op.output]}.input", out),
        kernel_shape=list(op.get("window")),
        strides=list(op.get("strides")),
        pads=list(op.get("pads")),
        count_include_pad=0,
    )
    return _quantized(pool, op.kind, (op.get("low"), op.get("high")), op.output, out)


@writes(FixedPointSoftmaxOp)
def fixed_point_softmax(op: FixedPointSoftmaxOp, out: Nodes) -> str:
    """Its result has 256 steps from 0 on, whatever its type says: so has the written one."""
    x = dequantized(op.input, f"{out.wanted[op.output]}.input", out)
    beta = op.get("beta")
    scaled = x if beta == 1 else out.node("Mul", x, out.constant(np.array(beta, SINGLE)))
    share = out.node("Softmax", scaled, axis=op.get("axis"))
    lowest = integer_limits(op.to.storage)[0]
    steps = QuantizedType.get(op.to.storage, [2.0**-8], [lowest])
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
