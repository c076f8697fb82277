"""Integer operations are those of LiteRT's reference kernels, bit by bit, where it is installed."""

import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, i8, i32

from explorer.ir.requantization import Requantization, RequantizationAttr
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.types import QuantizedType, numpy_dtype

sys.path.insert(0, str(Path(__file__).parent))
from quantized_kernels import build, quantized

interpreters = pytest.importorskip("ai_edge_litert.interpreter")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
flatbuffers = pytest.importorskip("flatbuffers")

I16 = IntegerType(16)
TWICE = Requantization("doubling_high_multiply", "nearest_away_from_zero")
ONCE = Requantization("multiplier_shift", "nearest_up")
Tensor = tuple[tuple[int, ...], QuantizedType | None, np.ndarray | None]


def lite_run(
    code: str, options: str, tensors: list[Tensor], inputs: dict[int, np.ndarray], **named
):
    """The last tensor, made by one node of the others; those with arrays are constants.

    A tensor without a quantized type is i32: a bias.
    """
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    graph.tensors = [_tensor(model, *tensor) for tensor in tensors]
    node = schema.OperatorT()
    node.inputs, node.outputs = list(range(len(tensors) - 1)), [len(tensors) - 1]
    node.builtinOptionsType = getattr(schema.BuiltinOptions, options)
    node.builtinOptions = getattr(schema, f"{options}T")()
    for name, value in named.items():
        setattr(node.builtinOptions, name, value)
    operator = schema.OperatorCodeT()
    operator.builtinCode = getattr(schema.BuiltinOperator, code)
    operator.deprecatedBuiltinCode, operator.version = operator.builtinCode, 3
    model.operatorCodes, graph.operators = [operator], [node]
    graph.inputs, graph.outputs = list(inputs), node.outputs
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    opened = interpreters.Interpreter(
        model_content=bytes(builder.Output()),
        experimental_op_resolver_type=interpreters.OpResolverType.BUILTIN_REF,
        num_threads=1,
    )
    opened.allocate_tensors()
    for place, array in inputs.items():
        opened.set_tensor(place, array)
    opened.invoke()
    return opened.get_tensor(node.outputs[0])


def _tensor(model, shape: tuple[int, ...], kind: QuantizedType | None, array: np.ndarray | None):
    tensor = schema.TensorT()
    tensor.shape, tensor.name, tensor.buffer = list(shape), f"t{len(model.buffers)}", 0
    dtype = np.dtype(np.int32) if kind is None else numpy_dtype(kind)
    tensor.type = getattr(schema.TensorType, dtype.name.upper())
    if kind is not None:
        parameters = schema.QuantizationParametersT()
        parameters.scale = kind.scale_array
        parameters.zeroPoint = kind.zero_point_array
        parameters.quantizedDimension = max(kind.axis_number, 0)
        tensor.quantization = parameters
    if array is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        tensor.buffer = len(model.buffers)
        model.buffers.append(buffer)
    return tensor


def stored(shape: tuple[int, ...], dtype: type, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    random = np.random.default_rng(seed)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def conv_case(channels: int, filters: int, is_depthwise: bool):
    scales = np.random.default_rng(2).uniform(0.001, 0.02, filters).astype(np.float32)
    x_kind, y_kind = quantized(i8, 0.0371, -7), quantized(i8, 0.413, 5)
    x = stored((1, channels, 30, 31), np.int8)
    w = stored((filters, 1 if is_depthwise else channels, 3, 3), np.int8, 1)
    w = np.maximum(w, -127)
    bias = np.random.default_rng(3).integers(-20000, 20000, filters).astype(np.int32)
    w_kind = QuantizedType.get(i8, scales.tolist(), [0] * filters, axis=0)
    op = build(
        ConvOp,
        [(x_kind, x.shape), (w_kind, w.shape), (i32, bias.shape), None],
        requantization=RequantizationAttr.get(y_kind, TWICE),
        strides=[1, 1],
        pads=[0] * 4,
        dilations=[1, 1],
        group=channels if is_depthwise else 1,
    )
    (found,) = op.evaluate(x, w, bias)
    lite_w = w.transpose(1, 2, 3, 0) if is_depthwise else w.transpose(0, 2, 3, 1)
    lite_x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    made = found.transpose(0, 2, 3, 1)
    tensors: list[Tensor] = [
        (lite_x.shape, x_kind, None),
        (lite_w.shape, w_kind.with_axis(3 if is_depthwise else 0), lite_w),
        (bias.shape, None, bias),
        (made.shape, y_kind, None),
    ]
    return made, tensors, lite_x


def test_a_convolution_is_that_of_litert():
    found, tensors, x = conv_case(16, 12, is_depthwise=False)
    options = {"padding": schema.Padding.VALID, "strideW": 1, "strideH": 1}
    wanted = lite_run("CONV_2D", "Conv2DOptions", tensors, {0: x}, **options)
    np.testing.assert_array_equal(found, wanted)


def test_a_depthwise_convolution_is_that_of_litert():
    found, tensors, x = conv_case(24, 24, is_depthwise=True)
    options = {"padding": schema.Padding.VALID, "strideW": 1, "strideH": 1, "depthMultiplier": 1}
    wanted = lite_run("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", tensors, {0: x}, **options)
    np.testing.assert_array_equal(found, wanted)


def test_a_fully_connected_layer_is_that_of_litert():
    """It rounds once, unlike the others."""
    x_kind, w_kind, y_kind = quantized(i8, 0.0371, -7), quantized(i8, 0.0113), quantized(i8, 0.7, 5)
    x, w = stored((128, 96), np.int8), np.maximum(stored((80, 96), np.int8, 1), -127)
    bias = np.random.default_rng(3).integers(-20000, 20000, 80).astype(np.int32)
    op = build(
        MatMulOp,
        [(x_kind, x.shape), (w_kind, (96, 80)), (i32, bias.shape), None],
        requantization=RequantizationAttr.get(y_kind, ONCE),
    )
    (found,) = op.evaluate(x, np.ascontiguousarray(w.T), bias)
    tensors: list[Tensor] = [
        (x.shape, x_kind, None),
        (w.shape, w_kind, w),
        (bias.shape, None, bias),
        (found.shape, y_kind, None),
    ]
    wanted = lite_run("FULLY_CONNECTED", "FullyConnectedOptions", tensors, {0: x})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("ADD", (quantized(i8, 0.037, -3), quantized(i8, 0.0214, 11), quantized(i8, 0.05, -7))),
        ("SUB", (quantized(i8, 0.9, -128), quantized(i8, 0.001, 127), quantized(i8, 0.7, 0))),
        ("MUL", (quantized(i8, 0.037, -3), quantized(i8, 0.0214, 11), quantized(i8, 0.05, -7))),
        ("ADD", (quantized(I16, 3.1e-4), quantized(I16, 1.3e-4), quantized(I16, 5.7e-4))),
    ],
)
def test_elementwise_arithmetic_is_that_of_litert(code, kinds):
    dtype = numpy_dtype(kinds[0]).type
    a, b = stored((1, 40, 50, 16), dtype), stored((1, 40, 50, 16), dtype, 1)
    by = RequantizationAttr.get(kinds[2], TWICE)
    op = build(FixedPointOp, [(k, a.shape) for k in kinds[:2]], kind=code.lower(), by=by)
    tensors: list[Tensor] = [(a.shape, kind, None) for kind in kinds]
    named = {"potScaleInt16": False} if code == "ADD" else {}
    wanted = lite_run(code, f"{code.title()}Options", tensors, {0: a, 1: b}, **named)
    np.testing.assert_array_equal(op.evaluate(a, b)[0], wanted)


def test_a_requantization_is_that_of_litert():
    source, to = quantized(I16, 0.00037), quantized(i8, 0.0931, 3)
    x = stored((1, 40000), np.int16)
    op = build(RequantizeOp, [(source, x.shape)], by=RequantizationAttr.get(to, TWICE))
    tensors: list[Tensor] = [(x.shape, source, None), (x.shape, to, None)]
    wanted = lite_run("QUANTIZE", "QuantizeOptions", tensors, {0: x})
    np.testing.assert_array_equal(op.evaluate(x)[0], wanted)
