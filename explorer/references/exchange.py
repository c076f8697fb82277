"""Arrays between a process and its child, through a nameless file that both hold open.

    one   exchange.put(array)   -> {"type": "float32", "shape": [1, 10], "begin": 64}     JSON
    other exchange.take({...})  -> the array

The file is memory where the system has `memfd_create`. A process writes from its beginning when it
is its turn: requests and answers never overlap. Nothing is unpickled, and what is taken is checked
against the file, since the other side has read a stranger's model.

This file imports nothing of ours: the child runs by its path.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from typing import Any

import numpy as np

ALIGNMENT_BYTES = 64
_STRINGS = "string"

Described = Any  # JSON: a description of a value


class Exchange:
    """One end of it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._end = 0

    @classmethod
    def create(cls) -> Exchange:
        """A new file; its descriptor can be inherited."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("explorer-reference"))
        descriptor, name = tempfile.mkstemp(prefix="explorer-reference-")
        os.unlink(name)
        return cls(descriptor)

    def clear(self) -> None:
        """Gives the memory back; what was put there is gone."""
        os.ftruncate(self.descriptor, 0)
        self._end = 0

    def close(self) -> None:
        os.close(self.descriptor)

    def put(self, value: Any) -> Described:
        """Tensors of numbers or strings, bytes, None, and lists and mappings of these."""
        if isinstance(value, np.generic):  # NumPy's scalars are no arrays to other programs
            value = np.asarray(value)
        if value is None or isinstance(value, bool | int | float | str):
            return {"scalar": value}
        if isinstance(value, bytes):
            return {"bytes": len(value), "begin": self._write(memoryview(value))}
        if isinstance(value, list | tuple):
            return {"list": [self.put(item) for item in value]}
        if isinstance(value, dict):
            return {"mapping": [[self.put(k), self.put(v)] for k, v in value.items()]}
        array = np.asarray(value, order="C")
        described: dict[str, Any] = {"shape": list(array.shape)}
        if array.dtype.kind in "OSU":
            texts = json.dumps([str(item) for item in array.reshape(-1)]).encode()
            return {**described, "type": _STRINGS, "text": self.put(texts)}
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        content = array.reshape(-1).view(np.uint8).data
        return {**described, "type": array.dtype.name, "begin": self._write(content)}

    def take(self, described: Described) -> Any:
        """The value, in memory of its own. ValueError for what does not lie in the file."""
        if "scalar" in described:
            return described["scalar"]
        if "bytes" in described:
            return self._read(described["begin"], described["bytes"]).tobytes()
        if "list" in described:
            return [self.take(item) for item in described["list"]]
        if "mapping" in described:
            return {self.take(k): self.take(v) for k, v in described["mapping"]}
        shape = tuple(described["shape"])
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"no shape: {shape}")
        if described["type"] == _STRINGS:
            texts = json.loads(self.take(described["text"]))
            return np.array([str(text) for text in texts], dtype=object).reshape(shape)
        dtype = _number_type(described["type"])
        size = math.prod(shape) * dtype.itemsize
        return self._read(described["begin"], size).view(dtype).reshape(shape)

    def _write(self, content: memoryview) -> int:
        begin = place = -(-self._end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        while content:
            written = os.pwrite(self.descriptor, content, place)
            content, place = content[written:], place + written
        self._end = place
        return begin

    def _read(self, begin: int, size: int) -> np.ndarray:
        # Nothing may stand after the file's end: its place is aligned and no byte is written.
        end = begin + size if size else 0
        if begin < 0 or size < 0 or end > os.fstat(self.descriptor).st_size:
            raise ValueError(f"{size} bytes at {begin} lie outside of the exchange")
        content = np.empty(size, np.uint8)
        rest = content.data
        while rest:
            count = os.preadv(self.descriptor, [rest], begin)
            rest, begin = rest[count:], begin + count
        return content


def _number_type(name: str) -> np.dtype:
    try:
        dtype = np.dtype(name)
    except TypeError:
        import ml_dtypes  # it makes bfloat16 and its like known by name

        dtype = np.dtype(getattr(ml_dtypes, name))
    if dtype.hasobject:
        raise ValueError(f"no type of numbers: {name}")
    return dtype
