"""Reads `.tflite` files: a flatbuffer, parsed within bounds; weights are not copied.

    load(Path("net.tflite"))  ->  SourceModel(format="tflite", content=TfliteContent(...))

Nothing in a file is executed. Tensors have the file's names; empty ones are called after their
index (`t12`), and of repeated ones all but the first get it behind them (`name#12`). Weights are
views of its bytes. Behind the flatbuffer may lie what other programs read: labels in a zip
archive.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import ModelError
from explorer.importers.model import SourceModel, SourceNode, SourceValue
from explorer.importers.tflite.file.contents import (
    SCHEMA_VERSION,
    Operator,
    Quantization,
    Subgraph,
    Tensor,
    TfliteContent,
)
from explorer.importers.tflite.file.flatbuffer import Reader, names_of
from explorer.importers.tflite.file.sparse import dense, levels_of
from explorer.importers.tflite.file.states import states_of
from explorer.importers.tflite.file.text import operator_text
from explorer.ir.operation import PropertyValue
from explorer.ir.types import Shape

MARK = b"TFL3"
MAX_NAME_CHARACTERS = 5_000
"""As of ONNX's names: every stage repeats them."""
_NUMPY_NAMES = {"INT4": "int4", "BFLOAT16": "bfloat16"}
_NO_NUMBERS = ("string", "resource", "variant", "complex64", "complex128")

_Accessors = Any  # the schema's generated classes have no types


def load(path: Path) -> SourceModel:
    """The file as records; ModelError says what is wrong with it."""
    # Not mapped: whoever writes the file anew would end this process.
    return read(memoryview(path.read_bytes()), path.stem, path)


def read(content: memoryview, name: str, path: Path | None = None) -> SourceModel:
    """As `load`, of the bytes of a file."""
    try:
        return _read(content, name, path)
    except struct.error:  # of the schema's classes, which speak of buffers and offsets
        raise ModelError(
            f"it points outside of its {len(content):,} bytes",
            hint="compare the file with its original: it may be cut",
        ) from None


def _read(content: memoryview, name: str, path: Path | None) -> SourceModel:
    import tflite

    if bytes(content[4:8]) != MARK:
        raise ModelError(
            f"it is no TFLite model: {MARK.decode()} is missing at its fifth byte",
            hint="compare the file with its original",
        )
    table = tflite.Model.GetRootAs(content, 0)
    if table.Version() != SCHEMA_VERSION:
        raise ModelError(
            f"its schema has version {table.Version()}; {SCHEMA_VERSION} can be read",
            hint="write the model again with a current converter",
        )
    found = _File(table, Reader(content)).contents()
    main = found.main
    for tensor in main.inputs:
        if tensor.element_type in _NO_NUMBERS:
            raise ModelError(
                f"input {tensor.name!r} holds {tensor.element_type} elements, no numbers",
                hint="compile the part of the model that takes numbers",
            )
    states = found.states
    constants = {t.name: t.data for t in main.tensors if t.data is not None}
    return SourceModel(
        name=name,
        format="tflite",
        path=path,
        producer=Reader(content).text(table.Description()),
        opset=f"schema {SCHEMA_VERSION}",
        inputs=(
            *(SourceValue(t.name, t.element_type, _open_shape(t)) for t in main.inputs),
            *(_value(state.input, states.tensors[state.input]) for state in states.found),
        ),
        outputs=(
            *(SourceValue(t.name, t.element_type, _open_shape(t)) for t in main.outputs),
            *(_value(state.output, states.tensors[state.output]) for state in states.found),
        ),
        nodes=tuple(SourceNode(o.name, o.kind, operator_text(o)) for o in main.operators),
        parameters=_parameters(main),
        content=found,
        tensors=tuple(name for o in main.operators for name in states.flows[o.name].outputs),
        constants={**constants, **states.constants},
        states=states.found,
    )


def _value(name: str, tensor: Tensor) -> SourceValue:
    return SourceValue(name, tensor.element_type, tensor.shape)


def _open_shape(tensor: Tensor) -> Shape:
    """The shape with a name for each size that the signature leaves open, as ONNX's sizes without
    a name have it: the tensor's, and the axis. Where both disagree otherwise, the shape counts."""
    if len(tensor.signature) != len(tensor.shape):
        return tensor.shape
    pairs = enumerate(zip(tensor.shape, tensor.signature, strict=True))
    return tuple(f"{tensor.name}.{axis}" if said == -1 else size for axis, (size, said) in pairs)


def _parameters(graph: Subgraph) -> int:
    """Elements of what operators take that nothing computes."""
    taken = {t.name: t for o in graph.operators for t in o.inputs if t is not None}
    return sum(t.data.size for t in taken.values() if t.data is not None)


class _File:
    """The parts of a file as they are read."""

    def __init__(self, table: _Accessors, reader: Reader) -> None:
        self.table = table
        self.reader = reader
        self.buffers = [self._buffer(b) for b in reader.tables(table, "Buffers")]
        self.codes = [self._code(code) for code in reader.tables(table, "OperatorCodes")]
        self.names = Counter[str]()
        self.operator_count = 0

    def contents(self) -> TfliteContent:
        subgraphs = tuple(
            self._subgraph(number, graph)
            for number, graph in enumerate(self.reader.tables(self.table, "Subgraphs"))
        )
        if not subgraphs:
            raise ModelError("it has no subgraph", hint="compare the file with its original")
        metadata = {}
        for entry in self.reader.tables(self.table, "Metadata"):
            buffer = self._data(entry.Buffer())
            metadata[self.reader.text(entry.Name())] = 0 if buffer is None else len(buffer)
        signatures = self.reader.tables(self.table, "SignatureDefs")
        keys = tuple(self.reader.text(s.SignatureKey()) for s in signatures)
        states = states_of(subgraphs)
        return TfliteContent(subgraphs, self.reader.content, states, metadata, keys)

    # -- parts of the file -----------------------------------------------------------------------
    def _buffer(self, table: _Accessors) -> np.ndarray | None:
        """The bytes of a buffer, where they lie; None for none. Large ones lie behind the
        flatbuffer, at an offset."""
        content = self.reader.content
        begin, size = table.Offset(), table.Size()
        if begin > 1:
            if begin + size > len(content):
                raise ValueError(f"a buffer of {size:,} bytes at {begin:,} lies outside of it")
            return np.frombuffer(content, np.uint8, size, begin)
        if table.DataIsNone():
            return None
        if table.DataLength() > len(content):
            raise ValueError(f"a buffer claims {table.DataLength():,} bytes")
        return table.DataAsNumpy() if table.DataLength() else None

    def _data(self, index: int) -> np.ndarray | None:
        if index >= len(self.buffers):
            raise ValueError(f"buffer {index} of {len(self.buffers)} is asked for")
        return self.buffers[index]

    def _code(self, table: _Accessors) -> tuple[str, int]:
        """Name and version of an operator. Codes above 127 stand in a field of their own."""
        number = max(table.BuiltinCode(), table.DeprecatedBuiltinCode())
        name = names_of("BuiltinOperator").get(number, f"BUILTIN_{number}")
        if name == "CUSTOM":
            name = f"custom.{self.reader.text(table.CustomCode())}"
        return name, table.Version()

    def _subgraph(self, number: int, table: _Accessors) -> Subgraph:
        entries = self.reader.tables(table, "Tensors")
        tensors = tuple(self._tensor(index, entry) for index, entry in enumerate(entries))
        operators = tuple(
            self._operator(number, entry, tensors)
            for entry in self.reader.tables(table, "Operators")
        )
        inputs, outputs = (
            tuple(_at(tensors, index, "subgraph") for index in self.reader.numbers(table, name))
            for name in ("Inputs", "Outputs")
        )
        for kind, values in (("inputs", inputs), ("outputs", outputs)):
            if len({t.index for t in values}) < len(values):
                raise ValueError(f"a tensor is twice among its {kind}")
        return Subgraph(self.reader.text(table.Name()), tensors, inputs, outputs, operators)

    def _tensor(self, index: int, table: _Accessors) -> Tensor:
        kind = names_of("TensorType").get(table.Type(), f"type {table.Type()}")
        element_type = _NUMPY_NAMES.get(kind, kind.lower())
        shape = tuple(self.reader.numbers(table, "Shape"))
        name = self._name(self.reader.text(table.Name()), index)
        if any(size < 0 for size in shape):
            raise ModelError(f"tensor {name!r} has the shape {shape}", node=name)
        sparsity = table.Sparsity()
        is_sparse = sparsity is not None
        stored = self._data(table.Buffer())
        data = None
        if stored is not None and is_sparse:
            levels, block_map = levels_of(sparsity, self.reader)
            data = dense(stored.view(_dtype(element_type)), shape, levels, block_map, name)
        elif stored is not None:
            data = _array(stored, element_type, shape, name)
        return Tensor(
            index=index,
            name=name,
            element_type=element_type,
            shape=shape,
            signature=tuple(self.reader.numbers(table, "ShapeSignature")),
            quantization=self._quantization(table.Quantization(), name),
            data=data,
            is_variable=table.IsVariable(),
            is_sparse=is_sparse,
        )

    def _name(self, text: str, index: int) -> str:
        if len(text) > MAX_NAME_CHARACTERS:
            raise ValueError(f"a name has {len(text):,} characters; it begins {text[:60]!r}")
        name = text or f"t{index}"
        while self.names[name]:
            name = f"{name}#{index}"
        self.names[name] += 1
        return name

    def _quantization(self, table: _Accessors | None, name: str) -> Quantization | None:
        if table is None:
            return None
        scales = self.reader.array(table, "Scale", np.float32, 4)
        zeros = self.reader.array(table, "ZeroPoint", np.int64, 8)
        if scales.size and zeros.size not in (0, 1, scales.size):
            raise ModelError(
                f"tensor {name!r} has {scales.size} scales and {zeros.size} zero points", node=name
            )
        if not np.all(scales >= 0):  # infinite ones are for what reads them
            raise ModelError(f"tensor {name!r} has a scale that is no scale", node=name)
        details = names_of("QuantizationDetails").get(table.DetailsType(), "")
        return Quantization(
            scales,
            zeros if zeros.size else np.zeros(1, np.int64),
            table.QuantizedDimension(),
            "" if details == "NONE" else details,
        )

    def _operator(self, graph: int, table: _Accessors, tensors: Sequence[Tensor]) -> Operator:
        index = table.OpcodeIndex()
        if index >= len(self.codes):
            raise ValueError(f"operator code {index} of {len(self.codes)} is asked for")
        kind, version = self.codes[index]
        # Of the model itself by place, of a subgraph by its number, too.
        where = f"{graph}_{self.operator_count}" if graph else str(self.operator_count)
        self.operator_count += 1
        label = re.sub(r"\W+", "_", kind)
        operands = self.reader.numbers(table, "Inputs")
        return Operator(
            name=f"{label}_{where}",
            kind=kind,
            version=version,
            inputs=tuple(None if i == -1 else _at(tensors, i, kind) for i in operands),
            outputs=tuple(_at(tensors, i, kind) for i in self.reader.numbers(table, "Outputs")),
            options=self._options(table),
            intermediates=tuple(
                _at(tensors, i, kind) for i in self.reader.numbers(table, "Intermediates")
            ),
            custom_options=self._custom_options(table),
        )

    def _options(self, table: _Accessors) -> dict[str, PropertyValue]:
        """Both unions of options as one; what the schema does not know is named by its number."""
        import tflite

        found: dict[str, PropertyValue] = {}
        for union in ("BuiltinOptions", "BuiltinOptions2"):
            number = getattr(table, f"{union}Type")()
            raw = getattr(table, union)()
            if not number or raw is None:
                continue
            kind = getattr(tflite, names_of(union).get(number, ""), None)
            if kind is None:
                found[f"unknown_options_{number}"] = True
                continue
            options = kind()
            options.Init(raw.Bytes, raw.Pos)
            found |= self.reader.fields(options)
        return found

    def _custom_options(self, table: _Accessors) -> bytes:
        if table.CustomOptionsIsNone():
            return b""
        count = self.reader.vector(table.CustomOptionsLength(), 1)
        return table.CustomOptionsAsNumpy().tobytes() if count else b""


def _at(tensors: Sequence[Tensor], index: int, what: str) -> Tensor:
    if not 0 <= index < len(tensors):
        raise ValueError(f"{what} asks for tensor {index} of {len(tensors)}")
    return tensors[index]


def _array(stored: np.ndarray, element_type: str, shape: Sequence[int], name: str) -> np.ndarray:
    """A buffer as an array of the tensor; 4-bit elements, two in a byte, are unpacked."""
    if element_type in _NO_NUMBERS or element_type.startswith("type "):
        return stored
    count = math.prod(shape)
    if element_type == "int4":
        import ml_dtypes

        needed = -(-count // 2)
        if len(stored) == needed:
            nibbles = np.stack([stored & 15, stored >> 4], -1).reshape(-1)[:count]
            signed = (nibbles.astype(np.int8) ^ 8) - 8
            return signed.astype(ml_dtypes.int4).reshape(shape)
    else:
        dtype = _dtype(element_type)
        needed = count * dtype.itemsize
        if len(stored) == needed:
            return stored.view(dtype).reshape(shape)
    raise ModelError(
        f"tensor {name!r} of shape {'x'.join(map(str, shape)) or 'scalar'} takes {needed:,} bytes, "
        f"and has {len(stored):,}",
        node=name,
        hint="the file is damaged: compare it with its original",
    )


def _dtype(element_type: str) -> np.dtype:
    if element_type == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(element_type)
