"""Small TFLite models, written with the schema's accessors.

    model = one_operator("SOFTMAX", [tensor("x", (1, 10), "int8", (0.1,), (0,))], [...], options)
    bytes of a file

Only what such models need of the schema is written: enough for any operator with plain options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "string": 5, "bool": 6,
    "int16": 7, "complex64": 8, "int8": 9, "uint64": 12, "resource": 13, "uint32": 15, "int4": 17,
}  # fmt: skip


VERSIONS = {"BROADCAST_TO": 2}
"""Of operators whose first form nothing runs."""


@dataclass(frozen=True, kw_only=True)
class TensorOf:
    name: str
    shape: Sequence[int]
    signature: Sequence[int] = ()
    """The shape with -1 where a size is open."""
    element_type: str = "float32"
    scales: Sequence[float] = ()
    zeros: Sequence[int] = ()
    axis: int = 0
    data: np.ndarray | bytes | None = None
    is_variable: bool = False
    sparse: np.ndarray | None = None
    """A matrix whose zeros the file leaves out, row by row, instead of `data`."""


@dataclass(frozen=True, kw_only=True)
class OperatorOf:
    kind: str
    """Of the schema, or `custom.NAME`."""
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: str = ""
    """Name of the table of options: Conv2DOptions."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Its fields as the schema's builders call them: {"Padding": 1}."""
    intermediates: Sequence[int] = ()
    custom_options: bytes = b""


@dataclass(frozen=True, kw_only=True)
class GraphOf:
    """A subgraph; tensors are known by their places in it."""

    tensors: Sequence[TensorOf]
    operators: Sequence[OperatorOf]
    inputs: Sequence[int]
    outputs: Sequence[int]


def model_of(
    tensors: Sequence[TensorOf],
    operators: Sequence[OperatorOf],
    inputs: Sequence[int],
    outputs: Sequence[int],
    version: int = 3,
    others: Sequence[GraphOf] = (),
) -> bytes:
    """The file's bytes; `others`: subgraphs 1, 2, ... that operators call."""
    builder = flatbuffers.Builder(1024)
    main = GraphOf(tensors=tensors, operators=operators, inputs=inputs, outputs=outputs)
    graphs, buffers = [main, *others], [_buffer(builder, None)]
    kinds = list(dict.fromkeys(o.kind for graph in graphs for o in graph.operators))
    codes = [_code(builder, kind) for kind in kinds]
    tables = [_subgraph(builder, graph, number, kinds, buffers)
              for number, graph in enumerate(graphs)]  # fmt: skip
    parts = {
        "OperatorCodes": _offsets(builder, codes),
        "Subgraphs": _offsets(builder, tables),
        "Buffers": _offsets(builder, buffers),
    }
    description = builder.CreateString("a test")
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, version)
    tflite.ModelAddDescription(builder, description)
    for label, offset in parts.items():
        getattr(tflite, f"ModelAdd{label}")(builder, offset)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def _subgraph(
    builder: flatbuffers.Builder,
    graph: GraphOf,
    number: int,
    kinds: Sequence[str],
    buffers: list[int],
) -> int:
    places = []
    for tensor in graph.tensors:
        data = tensor.data if tensor.sparse is None else tensor.sparse[tensor.sparse != 0]
        places.append(len(buffers) if data is not None else 0)
        if data is not None:
            buffers.append(_buffer(builder, data))
    tables = [_tensor(builder, t, p) for t, p in zip(graph.tensors, places, strict=True)]
    nodes = [_operator(builder, o, kinds.index(o.kind)) for o in graph.operators]
    name = builder.CreateString(f"graph{number}" if number else "main")
    lists = {
        "Tensors": _offsets(builder, tables),
        "Inputs": _numbers(builder, graph.inputs),
        "Outputs": _numbers(builder, graph.outputs),
        "Operators": _offsets(builder, nodes),
    }
    tflite.SubGraphStart(builder)
    for label, offset in lists.items():
        getattr(tflite, f"SubGraphAdd{label}")(builder, offset)
    tflite.SubGraphAddName(builder, name)
    return tflite.SubGraphEnd(builder)


def one_operator(
    kind: str,
    inputs: Sequence[TensorOf | None],
    outputs: Sequence[TensorOf],
    options: str = "",
    values: Mapping[str, Any] | None = None,
    others: Sequence[GraphOf] = (),
    intermediates: Sequence[TensorOf] = (),
) -> bytes:
    """A model of one operator; its inputs are those operands that hold nothing. None stands for an
    operand that is left out."""
    operands = [tensor for tensor in inputs if tensor is not None]
    tensors = [*operands, *outputs, *intermediates]
    results = range(len(operands), len(operands) + len(outputs))
    places = iter(range(len(operands)))
    node = OperatorOf(
        kind=kind,
        inputs=[-1 if tensor is None else next(places) for tensor in inputs],
        outputs=results,
        options=options,
        values=values or {},
        intermediates=range(results.stop, len(tensors)),
    )
    given = [
        i
        for i, t in enumerate(operands)
        if t.data is None and t.sparse is None and not t.is_variable
    ]
    return model_of(tensors, [node], given, results, others=others)


def _buffer(builder: flatbuffers.Builder, data: np.ndarray | bytes | None) -> int:
    content = None
    if data is not None:
        raw = data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes()
        builder.StartVector(1, len(raw), 16)
        builder.head = builder.head - len(raw)
        builder.Bytes[builder.Head() : builder.Head() + len(raw)] = raw
        content = builder.EndVector()
    tflite.BufferStart(builder)
    if content is not None:
        tflite.BufferAddData(builder, content)
    return tflite.BufferEnd(builder)


def _tensor(builder: flatbuffers.Builder, tensor: TensorOf, buffer: int) -> int:
    name, shape = builder.CreateString(tensor.name), _numbers(builder, tensor.shape)
    signature = _numbers(builder, tensor.signature) if tensor.signature else None
    quantization = None
    if tensor.scales:
        scales = builder.CreateNumpyVector(np.array(tensor.scales, np.float32))
        zeros = builder.CreateNumpyVector(np.array(tensor.zeros or [0], np.int64))
        tflite.QuantizationParametersStart(builder)
        tflite.QuantizationParametersAddScale(builder, scales)
        tflite.QuantizationParametersAddZeroPoint(builder, zeros)
        tflite.QuantizationParametersAddQuantizedDimension(builder, tensor.axis)
        quantization = tflite.QuantizationParametersEnd(builder)
    sparsity = None if tensor.sparse is None else _sparsity(builder, tensor.sparse)
    tflite.TensorStart(builder)
    tflite.TensorAddShape(builder, shape)
    tflite.TensorAddType(builder, TYPES[tensor.element_type])
    tflite.TensorAddBuffer(builder, buffer)
    tflite.TensorAddName(builder, name)
    tflite.TensorAddIsVariable(builder, tensor.is_variable)
    if signature is not None:
        tflite.TensorAddShapeSignature(builder, signature)
    if quantization is not None:
        tflite.TensorAddQuantization(builder, quantization)
    if sparsity is not None:
        tflite.TensorAddSparsity(builder, sparsity)
    return tflite.TensorEnd(builder)


def _sparsity(builder: flatbuffers.Builder, matrix: np.ndarray) -> int:
    """Rows all of them, of each the columns that hold a number."""
    counts = np.count_nonzero(matrix, axis=1)
    arrays = np.concatenate([[0], np.cumsum(counts)]), np.nonzero(matrix)[1]
    vectors = []
    for array in arrays:
        values = _numbers(builder, array.tolist())
        tflite.Int32VectorStart(builder)
        tflite.Int32VectorAddValues(builder, values)
        vectors.append(tflite.Int32VectorEnd(builder))
    tflite.DimensionMetadataStart(builder)
    tflite.DimensionMetadataAddFormat(builder, tflite.DimensionType.DENSE)
    tflite.DimensionMetadataAddDenseSize(builder, len(matrix))
    rows = tflite.DimensionMetadataEnd(builder)
    tflite.DimensionMetadataStart(builder)
    tflite.DimensionMetadataAddFormat(builder, tflite.DimensionType.SPARSE_CSR)
    for name, vector in zip(("Segments", "Indices"), vectors, strict=True):
        getattr(tflite, f"DimensionMetadataAddArray{name}Type")(
            builder, tflite.SparseIndexVector.Int32Vector
        )
        getattr(tflite, f"DimensionMetadataAddArray{name}")(builder, vector)
    columns = tflite.DimensionMetadataEnd(builder)
    levels, order = _offsets(builder, [rows, columns]), _numbers(builder, [0, 1])
    tflite.SparsityParametersStart(builder)
    tflite.SparsityParametersAddTraversalOrder(builder, order)
    tflite.SparsityParametersAddDimMetadata(builder, levels)
    return tflite.SparsityParametersEnd(builder)


def _code(builder: flatbuffers.Builder, kind: str) -> int:
    is_custom = kind.startswith("custom.")
    name = builder.CreateString(kind.removeprefix("custom.")) if is_custom else None
    number = getattr(tflite.BuiltinOperator, "CUSTOM" if is_custom else kind)
    tflite.OperatorCodeStart(builder)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(number, 127))
    tflite.OperatorCodeAddBuiltinCode(builder, number)
    tflite.OperatorCodeAddVersion(builder, VERSIONS.get(kind, 1))
    if name is not None:
        tflite.OperatorCodeAddCustomCode(builder, name)
    return tflite.OperatorCodeEnd(builder)


def _operator(builder: flatbuffers.Builder, operator: OperatorOf, code: int) -> int:
    inputs, outputs = _numbers(builder, operator.inputs), _numbers(builder, operator.outputs)
    options, kind = None, operator.options
    if kind:
        values = {
            name: _vector(builder, value)
            if isinstance(value, list | tuple | np.ndarray | str)
            else value
            for name, value in operator.values.items()
        }
        # As the accessors are called: `SubGraphStart`, `Conv2DOptionsStart`.
        getattr(tflite, f"{kind}Start")(builder)
        for name, value in values.items():
            getattr(tflite, f"{kind}Add{name}")(builder, value)
        options = getattr(tflite, f"{kind}End")(builder)
    intermediates = _numbers(builder, operator.intermediates) if operator.intermediates else None
    custom = None
    if operator.custom_options:
        custom = builder.CreateByteVector(operator.custom_options)
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, code)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    if intermediates is not None:
        tflite.OperatorAddIntermediates(builder, intermediates)
    if custom is not None:
        tflite.OperatorAddCustomOptions(builder, custom)
    if options is not None:
        # Newer operators have their options in a second union.
        second = "" if hasattr(tflite.BuiltinOptions, kind) else "2"
        union = getattr(getattr(tflite, f"BuiltinOptions{second}"), kind)
        getattr(tflite, f"OperatorAddBuiltinOptions{second}Type")(builder, union)
        getattr(tflite, f"OperatorAddBuiltinOptions{second}")(builder, options)
    return tflite.OperatorEnd(builder)


def _numbers(builder: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    return builder.CreateNumpyVector(np.array(list(numbers), np.int32))


def _vector(builder: flatbuffers.Builder, value: Sequence[int] | np.ndarray | str) -> int:
    """Integers of 32 bits, numbers of an array's own type, or a text."""
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, np.ndarray):
        return builder.CreateNumpyVector(value)
    return _numbers(builder, value)


def _offsets(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()
