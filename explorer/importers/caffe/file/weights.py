"""The weights of caffemodel files, by the wire format of protobuf; nothing else of them is read.

    blobs_of(content)["conv1"]      (float32 (20, 1, 5, 5), float32 (20,))

A caffemodel holds layers in the form of its time (V2 `layer`, V1 `layers`, V0 in V1); the layers
themselves are what the prototxt says, weights are found by their names. Arrays are views of the
file's bytes where these are aligned, and float32: data of 16 or 64 bits is converted.
Source: caffe.proto of BVLC/caffe; half precision as in NVIDIA/caffe.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from explorer.importers.building.limits import MAX_DIMENSIONS

Blobs = tuple[np.ndarray, ...]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LAYER, _V1_LAYER = 100, 2
_RAW_TYPES = {0: "<f8", 1: "<f4", 2: "<f2"}


def blobs_of(content: memoryview) -> dict[str, Blobs]:
    """The blobs of all layers that have some. ValueError for bytes that are no caffemodel."""
    found: dict[str, Blobs] = {}
    for number, value in _fields(content):
        if number == _LAYER:
            name, blobs = _layer(value, name_number=1, blobs_number=7)
        elif number == _V1_LAYER:
            inner = next((v for n, v in _fields(_message(value)) if n == 1), None)
            if inner is None:
                name, blobs = _layer(value, name_number=4, blobs_number=6)
            else:
                name, blobs = _layer(inner, name_number=1, blobs_number=50)
        else:
            continue
        if blobs:
            found.setdefault(name, blobs)
    return found


def _layer(value: int | memoryview, name_number: int, blobs_number: int) -> tuple[str, Blobs]:
    name, blobs = "", []
    for number, part in _fields(_message(value)):
        if number == name_number:
            name = bytes(_message(part)).decode()
        elif number == blobs_number:
            blobs.append(part)
    return name, tuple(_blob(part, f"blob {i} of {name!r}") for i, part in enumerate(blobs))


def _blob(value: int | memoryview, what: str) -> np.ndarray:
    """One array. The old form has always four sizes; those in front that are 1 say nothing."""
    legacy = [1, 1, 1, 1]
    shape: list[int] | None = None
    raw_type, chunks = 1, []
    is_legacy = False
    for number, part in _fields(_message(value)):
        if number in (1, 2, 3, 4) and isinstance(part, int):
            legacy[number - 1], is_legacy = part, True
        elif number == 7:
            shape = [d for n, v in _fields(_message(part)) if n == 1 for d in _integers(v)]
        elif number == 10 and isinstance(part, int):
            raw_type = part
        elif number in (5, 8):
            chunks.append(np.frombuffer(_message(part), "<f4" if number == 5 else "<f8"))
        elif number == 12:
            if raw_type not in _RAW_TYPES:
                raise ValueError(f"{what} holds elements of type {raw_type}, no floats")
            chunks.append(np.frombuffer(_message(part), _RAW_TYPES[raw_type]))
    data = chunks[0] if len(chunks) == 1 else np.concatenate(chunks or [np.empty(0, "<f4")])
    sizes = shape if shape is not None else legacy if is_legacy else [data.size]
    if len(sizes) > MAX_DIMENSIONS or any(not 0 <= size < 2**31 for size in sizes):
        raise ValueError(f"{what} has the shape {sizes[:8]}")
    if math.prod(sizes) != data.size:
        shown = "x".join(map(str, sizes))
        raise ValueError(f"{what} of shape {shown} has {data.size:,} elements")
    return np.require(data, np.float32, "A").reshape(sizes)


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number where a message is expected")
    return value


def _integers(value: int | memoryview) -> Iterator[int]:
    """One number, or many packed."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        yield number


def _fields(content: int | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Numbers of fields with their values: whole numbers, or bytes."""
    content = _message(content)
    at, end = 0, len(content)
    while at < end:
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(content, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(content, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"a field of the unknown wire type {kind} at byte {at:,}")
        if size > end - at:
            raise ValueError(f"a field of {size:,} bytes ends behind the file")
        yield number, content[at : at + size]
        at += size


def _varint(content: memoryview, at: int) -> tuple[int, int]:
    """A number, and where the next begins. Of 64 bits at most."""
    result = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise ValueError("a number is cut off at its end")
        byte = content[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
    raise ValueError(f"a number of more than 64 bits at byte {at:,}")
