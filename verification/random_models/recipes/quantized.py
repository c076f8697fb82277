"""Quantized tensors: conversions, operators on integers, and the pairs around float operators.

Scales are no powers of two and operands are exact, so that what lies halfway between two steps
does so for everyone.
"""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import FLOATS8, INTEGERS4, Draft, NotPossible, Value
from verification.random_models.recipes.recipe import family, recipes

MICROSOFT = "com.microsoft"
BYTES = ("uint8", "int8")
SCALES = (0.03, 0.11, 0.0707)


def quantize(draft: Draft) -> None:
    """One scale for all, or one along an axis; there and back."""
    x = draft.operand(("float32", "float16"), is_exact=True)
    dtype = draft.one_of((*BYTES, *BYTES, "uint16", "int16", *INTEGERS4, *FLOATS8))
    count = ()
    axis = {}
    if x.rank and draft.flag():
        axis = {"axis": draft.number(-x.rank, x.rank - 1)}
        count = (x.shape[axis["axis"]],)
    scale = draft.constant(np.asarray(draft.random.choice(SCALES, count)).astype(x.dtype))
    zero = np.zeros(count) if "float8" in dtype else draft.random.integers(0, 5, count)
    given = [scale, draft.constant(np.asarray(zero).astype(dtype))]
    steps = draft.add("QuantizeLinear", [x.name, *given], **axis)[0]
    draft.add("DequantizeLinear", [steps.name, *given], **axis)


def quantize_blocks(draft: Draft) -> None:
    rows, blocks, size = draft.number(1, 3), draft.number(1, 3), draft.number(2, 4)
    x = draft.input("float32", (rows, blocks * size))
    dtype = draft.one_of((*BYTES, *INTEGERS4))
    scale = draft.constant(draft.random.choice(SCALES, (rows, blocks)).astype(np.float32))
    zero = draft.constant(draft.random.integers(0, 5, (rows, blocks)).astype(dtype))
    how = {"axis": 1, "block_size": size}
    steps = draft.add("QuantizeLinear", [x.name, scale, zero], **how)[0]
    draft.add("DequantizeLinear", [steps.name, scale, zero], **how)


def quantize_dynamic(draft: Draft) -> None:
    x = draft.operand(("float32",), (1, 2, 3), is_exact=True)
    if 0 in x.shape:
        raise NotPossible
    draft.add("DynamicQuantizeLinear", [x.name], 3)


def matmul_integer(draft: Draft) -> None:
    rows, inner, columns = (draft.number(1, 9) for _ in range(3))
    a = draft.input(draft.one_of(BYTES), (rows, inner))
    b = draft.like(Value("", draft.one_of(BYTES), ()), (inner, columns))
    zeros = [draft.weight(a.dtype, ()), draft.weight(b.dtype, ())][: draft.number(0, 2)]
    draft.add("MatMulInteger", [a.name, b.name, *zeros])


def conv_integer(draft: Draft) -> None:
    x, w = _convolved(draft, "uint8", draft.one_of(BYTES))
    zeros = [draft.weight("uint8", ()), draft.weight(w.dtype, ())][: draft.number(0, 2)]
    draft.add("ConvInteger", [x.name, w.name, *zeros], pads=[draft.number(0, 1) for _ in range(4)])


def quantized_matmul(draft: Draft) -> None:
    rows, inner, columns = (draft.number(1, 9) for _ in range(3))
    dtype = draft.one_of(BYTES)
    a = draft.input(dtype, (rows, inner))
    b = draft.like(Value("", draft.one_of(BYTES), ()), (inner, columns))
    operands = [
        *_quantized(draft, a),
        *_quantized(draft, b),
        *_scale_and_zero(draft, dtype, 0.9017),
    ]
    draft.add("QLinearMatMul", operands)


def quantized_conv(draft: Draft) -> None:
    dtype = draft.one_of(BYTES)
    x, w = _convolved(draft, dtype, "int8" if dtype == "int8" else draft.one_of(BYTES))
    operands = [
        *_quantized(draft, x),
        *_quantized(draft, w),
        *_scale_and_zero(draft, dtype, 0.9017),
    ]
    bias = np.asarray(draft.random.integers(-99, 99, w.shape[0]), np.int32)
    given = [draft.constant(bias)] if draft.flag() else []
    pads = [draft.number(0, 1) for _ in range(4)]
    draft.add("QLinearConv", [*operands, *given], pads=pads, strides=[draft.number(1, 2)] * 2)


def quantized_arithmetic(operator: str, draft: Draft) -> None:
    """onnxruntime's own sums and products of quantized tensors."""
    dtype = draft.one_of(BYTES)
    a = draft.input(dtype, draft.sizes(draft.number(1, 3)))
    b = draft.like(a, a.shape)
    operands = [
        *_quantized(draft, a),
        *_quantized(draft, b),
        *_scale_and_zero(draft, dtype, 0.1373),
    ]
    draft.add_typed(
        operator,
        operands,
        [(dtype, a.shape)],
        MICROSOFT,
    )


def quantized_unary(operator: str, draft: Draft) -> None:
    """onnxruntime's own activations of quantized tensors."""
    dtype = draft.one_of(BYTES)
    x = draft.input(dtype, draft.sizes(draft.number(1, 3)))
    given = {"alpha": 0.3} if operator == "QLinearLeakyRelu" else {}
    operands = [*_quantized(draft, x), *_scale_and_zero(draft, dtype, 0.01303)]
    draft.add_typed(operator, operands, [(dtype, x.shape)], MICROSOFT, **given)


def quantized_pooling(draft: Draft) -> None:
    dtype = draft.one_of(BYTES)
    shape = (1, draft.number(1, 4), draft.number(3, 6), draft.number(3, 6))
    x = draft.input(dtype, shape)
    operands = [*_quantized(draft, x), *_scale_and_zero(draft, dtype, 0.1373)]
    if draft.flag():
        types = [(dtype, (*shape[:2], 1, 1))]
        draft.add_typed("QLinearGlobalAveragePool", operands, types, MICROSOFT, channels_last=0)
        return
    sizes = tuple(n - 1 for n in shape[2:])
    types = [(dtype, (*shape[:2], *sizes))]
    draft.add_typed("QLinearAveragePool", operands, types, MICROSOFT, kernel_shape=[2, 2])


def quantized_concat(draft: Draft) -> None:
    dtype = draft.one_of(BYTES)
    rows = draft.number(1, 4)
    columns = [draft.number(1, 5) for _ in range(draft.number(1, 3))]
    operands = _scale_and_zero(draft, dtype, 0.1373)
    for count in columns:
        operands += _quantized(draft, draft.input(dtype, (rows, count)))
    types = [(dtype, (rows, sum(columns)))]
    draft.add_typed("QLinearConcat", operands, types, MICROSOFT, axis=1)


def quantized_gemm(draft: Draft) -> None:
    dtype = draft.one_of(BYTES)
    rows, inner, columns = (draft.number(1, 9) for _ in range(3))
    a = draft.input(dtype, (rows, inner))
    b = draft.like(Value("", draft.one_of(BYTES), ()), (inner, columns))
    bias = np.asarray(draft.random.integers(-99, 99, columns), np.int32)
    given = [draft.constant(bias) if draft.flag() else ""]
    operands = [*_quantized(draft, a), *_quantized(draft, b), *given]
    if draft.flag():
        operands += _scale_and_zero(draft, dtype, 0.9017)
        types = [(dtype, (rows, columns))]
    else:
        types = [("float32", (rows, columns))]
    draft.add_typed("QGemm", operands, types, MICROSOFT, transA=0, transB=0, alpha=1.0)


def pairs_around(draft: Draft) -> None:
    """DequantizeLinear of stored bytes, an operator on floats, QuantizeLinear of its result."""
    dtype = draft.one_of(BYTES)
    rows, inner, columns = (draft.number(1, 9) for _ in range(3))
    a = draft.input(dtype, (rows, inner))
    scale, zero = _scale_and_zero(draft, dtype, 0.0707)
    x = draft.add("DequantizeLinear", [a.name, scale, zero])[0]
    w = draft.weight("int8", (inner, columns))
    y = draft.add("DequantizeLinear", [w, draft.constant(np.array(0.011, np.float32))])[0]
    product = draft.add("MatMul", [x.name, y.name])[0]
    scale, zero = _scale_and_zero(draft, dtype, 0.01303)
    steps = draft.add("QuantizeLinear", [product.name, scale, zero])[0]
    draft.add("DequantizeLinear", [steps.name, scale, zero])


def _convolved(draft: Draft, dtype: str, weights: str) -> tuple[Value, Value]:
    channels, out = draft.number(1, 5), draft.number(1, 6)
    x = draft.input(dtype, (1, channels, draft.number(3, 6), draft.number(3, 6)))
    shape = (out, channels, draft.number(1, 3), draft.number(1, 3))
    return x, Value(draft.weight(weights, shape), weights, shape)


def _quantized(draft: Draft, value: Value) -> list[str]:
    return [value.name, *_scale_and_zero(draft, value.dtype, draft.one_of(SCALES))]


def _scale_and_zero(draft: Draft, dtype: str, scale: float) -> list[str]:
    zero = draft.constant(np.array(draft.number(0, 20), dtype))
    return [draft.constant(np.array(scale, np.float32)), zero]


RECIPES = (
    *recipes(quantize, quantize, quantize_dynamic, matmul_integer, conv_integer),
    *recipes(quantized_matmul, quantized_conv, pairs_around),
    *recipes(quantize_blocks, since=21),
    *recipes(quantized_pooling, quantized_concat, quantized_gemm),
    *family(quantized_arithmetic, "QLinearAdd", "QLinearMul"),
    *family(quantized_unary, "QLinearSigmoid", "QLinearLeakyRelu"),
)
