"""Reading a flatbuffer within bounds: no vector is longer than the file, and all ends soon.

    reader = Reader(memoryview(content))
    reader.vector(operator.InputsLength(), 4)          its length, or ValueError
    reader.fields(conv_options)                        {"padding": "SAME", "stride_w": 2, ...}

The accessors of the schema (package `tflite`) go wherever an offset leads, and vectors may claim
2^32 elements or be shared by a million tables. What is outside of the file raises whatever Python
raises there; lengths are checked here, and all that is read together is limited to a few times the
file's size.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from explorer.ir.operation import PropertyValue

BYTES_PER_BYTE = 8
"""Most that is read for each byte of a file: writers share equal vectors."""
MIN_BYTES = 1 << 20

_Accessors = Any  # the schema's generated classes have no types


class Reader:
    """Counts what is read of a file."""

    def __init__(self, content: memoryview) -> None:
        self.content = content
        self._left = BYTES_PER_BYTE * len(content) + MIN_BYTES

    def vector(self, length: int, item_bytes: int) -> int:
        """The length of a vector that is about to be read."""
        size = length * item_bytes
        if size > len(self.content):
            raise ValueError(
                f"it has a vector of {length:,} elements, more than its {len(self.content):,} "
                "bytes hold"
            )
        self._left -= size
        if self._left < 0:
            raise ValueError("its tables share so many vectors that reading all would not end")
        return length

    def numbers(self, table: _Accessors, name: str, item_bytes: int = 4) -> list[int]:
        """A vector of numbers of a table; empty where it is absent."""
        count = self.vector(getattr(table, f"{name}Length")(), item_bytes)
        return getattr(table, f"{name}AsNumpy")().tolist() if count else []

    def array(self, table: _Accessors, name: str, dtype: type, item_bytes: int) -> np.ndarray:
        """A vector of numbers in memory of its own."""
        return np.array(self.numbers(table, name, item_bytes), dtype)

    def tables(self, table: _Accessors, name: str) -> list[_Accessors]:
        """A vector of tables."""
        count = self.vector(getattr(table, f"{name}Length")(), 4)
        return [getattr(table, name)(index) for index in range(count)]

    def text(self, raw: bytes | None) -> str:
        """A string, whose bytes need not be UTF-8."""
        found = raw or b""
        self.vector(len(found), 1)
        return found.decode("utf-8", "backslashreplace")

    def fields(self, table: _Accessors) -> dict[str, PropertyValue]:
        """All fields of a table of numbers, texts and lists of these, by the schema's names."""
        return {name: read(self, table) for name, read in _fields(type(table)).items()}


_Read = Callable[[Reader, _Accessors], PropertyValue]


@cache
def _fields(kind: type) -> dict[str, _Read]:
    """How each field of a table is read: told from the methods that its class has."""
    methods = [
        name
        for name in vars(kind)
        if not name.startswith(("_", "GetRootAs")) and name != "Init"
        and not name.endswith("BufferHasIdentifier")
    ]  # fmt: skip
    vectors = {name.removesuffix("Length") for name in methods if f"{name}" in _lengths(methods)}
    helpers = {v + end for v in vectors for end in ("AsNumpy", "Length", "IsNone")}
    found: dict[str, _Read] = {}
    for name in methods:
        if name in helpers:
            continue
        if name in vectors and f"{name}AsNumpy" in methods:
            found[_snake(name)] = _vector_field(name)
        elif name in vectors:
            found[_snake(name)] = _texts_field(name)
        else:
            found[_snake(name)] = _scalar_field(name, _snake(name))
    return found


def _lengths(methods: list[str]) -> set[str]:
    return {n for n in methods if n.endswith("Length") and n.removesuffix("Length") in methods}


def _vector_field(name: str) -> _Read:
    return lambda reader, table: reader.numbers(table, name, 8)


def _texts_field(name: str) -> _Read:
    def read(reader: Reader, table: _Accessors) -> PropertyValue:
        # Texts: no other vector of the options holds anything but numbers.
        return [str(_plain(reader, value)) for value in reader.tables(table, name)]

    return read


def _scalar_field(name: str, label: str) -> _Read:
    def read(reader: Reader, table: _Accessors) -> PropertyValue:
        value = getattr(table, name)()
        names = _enumeration(label)
        return (
            names.get(value, value) if names and isinstance(value, int) else _plain(reader, value)
        )

    return read


def _plain(reader: Reader, value: Any) -> PropertyValue:  # Any: whatever an accessor returns
    if isinstance(value, bytes):
        return reader.text(value)
    return value if isinstance(value, bool | int | float | str) else str(type(value).__name__)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


_ENUMERATIONS = {
    "padding": "Padding",
    "fused_activation_function": "ActivationFunctionType",
    "mode": "MirrorPadMode",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "combiner": "CombinerType",
    "comparison_direction": "StablehloComparisonDirection",
    "reduce_function": "ReduceWindowFunction",
    **dict.fromkeys(
        ("in_data_type", "out_data_type", "out_type", "output_type", "idx_out_type",
         "quantized_bias_type", "accumulator_type"),
        "TensorType",
    ),
}  # fmt: skip
"""Fields that hold a number of an enumeration of the schema."""


def _enumeration(field: str) -> dict[int, str]:
    name = _ENUMERATIONS.get(field)
    return names_of(name) if name else {}


@cache
def names_of(enumeration: str) -> dict[int, str]:
    """The names of an enumeration's numbers."""
    import tflite

    kind = getattr(tflite, enumeration)
    return {v: k for k, v in vars(kind).items() if isinstance(v, int) and not k.startswith("_")}
