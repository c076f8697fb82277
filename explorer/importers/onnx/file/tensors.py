"""ONNX tensors as read-only arrays: sizes are checked first, bytes are shared where possible.

A tensor's data stands in the file itself (`raw_data` or a typed list) or in another file of the
model's folder (external data), which is memory-mapped. Reference: onnx.proto, `TensorProto`, and
the ONNX documentation "External Data".
"""

from __future__ import annotations

import math
import os
import stat
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from explorer.errors import ModelError, UnsupportedError
from explorer.importers.building.limits import check_extent, check_rank, check_size
from explorer.ir.types import element_type_from_numpy

_BITS: dict[int, int] = {
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
}
"""Element types of which a file holds several in a byte, the first in the lowest bits."""
_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def dtype_of(data_type: int, what: str) -> np.dtype:
    """NumPy's type for an ONNX element type; UnsupportedError where the IR has none."""
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(data_type))
        element_type_from_numpy(dtype)
    except (KeyError, TypeError):
        known = data_type in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(data_type) if known else f"number {data_type}"
        raise UnsupportedError(f"{what} has elements of type {name}") from None
    return dtype


def read_tensor(tensor: TensorProto, folder: Path | None) -> np.ndarray:
    """The tensor's array, read-only. `folder` is the model's, for external data.

    Strings are an array of NumPy's strings. ModelError where data and shape disagree or external
    data is out of bounds; UnsupportedError for element types without a place in the IR.
    """
    what = f"tensor {tensor.name!r}" if tensor.name else "a constant"
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise ModelError(f"{what} has a negative size: {shape}")
    check_rank(len(shape), what)
    if tensor.HasField("segment"):
        raise UnsupportedError(f"{what} is stored in segments")
    if tensor.data_type == TensorProto.STRING:
        return _strings(tensor, shape, what)
    dtype = dtype_of(tensor.data_type, what)
    check_extent(shape, dtype.itemsize, what)
    bits = _BITS.get(tensor.data_type, 8 * dtype.itemsize)
    needed = (math.prod(shape) * bits + 7) // 8
    if tensor.data_location == TensorProto.EXTERNAL:
        data = _external_array(tensor, folder, what, needed)
        return _unpacked(data, bits, dtype, shape) if bits < 8 else data.view(dtype).reshape(shape)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        if len(raw) != needed:
            raise ModelError(
                f"{what} declares shape {shape} of {dtype}, {needed:,} bytes, "
                f"but holds {len(raw):,} bytes",
                hint="the file is damaged",
            )
        if bits < 8:
            return _unpacked(np.frombuffer(raw, np.uint8), bits, dtype, shape)
        stored = np.frombuffer(raw, dtype.newbyteorder("<"))
        return stored.astype(dtype, copy=False).reshape(shape)
    held = sum(len(getattr(tensor, field)) for field in _TYPED_FIELDS)
    if held != (needed if bits < 8 else math.prod(shape)):
        raise ModelError(
            f"{what} declares shape {shape}, {math.prod(shape):,} elements, but holds {held:,}",
            hint="the file is damaged",
        )
    array = numpy_helper.to_array(tensor)
    array.flags.writeable = False
    return array


def _strings(tensor: TensorProto, shape: tuple[int, ...], what: str) -> np.ndarray:
    """UTF-8 without U+0000; elsewhere the ends of strings could not be told."""
    if len(tensor.string_data) != math.prod(shape):
        raise ModelError(
            f"{what} declares shape {shape}, but holds {len(tensor.string_data):,} strings",
            hint="the file is damaged",
        )
    if any(b"\0" in data for data in tensor.string_data):
        raise UnsupportedError(f"{what} has a string with the character U+0000 in it")
    texts = [data.decode("utf-8", "replace") for data in tensor.string_data]
    longest = max(map(len, texts), default=0)
    check_size(shape, 4 * max(longest, 1), what)
    array = np.array(texts, f"<U{max(longest, 1)}").reshape(shape)
    array.flags.writeable = False
    return array


def _unpacked(data: np.ndarray, bits: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of `bits` bits, one in the lowest bits of each byte, as ml_dtypes has them."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (data[:, np.newaxis] >> shifts & (2**bits - 1)).reshape(-1)[: math.prod(shape)]
    array = np.ascontiguousarray(codes).view(dtype).reshape(shape)
    array.flags.writeable = False
    return array


def _external_array(tensor: TensorProto, folder: Path | None, what: str, needed: int) -> np.ndarray:
    """The bytes of external data, memory-mapped."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    location = fields.get("location", "")
    if folder is None:
        raise ModelError(f"{what} lies in {location!r}, but the model has no folder")
    offset = _number(fields, "offset", 0, what)
    length = _number(fields, "length", needed, what)
    if length != needed:
        raise ModelError(
            f"{what} needs {needed:,} bytes, but its external data declares {length:,}",
            file=location,
            hint="the file is damaged",
        )
    with _opened(folder, location, what) as file:
        available = os.fstat(file.fileno()).st_size
        if offset + length > available:
            raise ModelError(
                f"{what} lies at bytes {offset:,} to {offset + length:,}, "
                f"but the file has {available:,}",
                file=location,
                hint="the file is cut off: download it again",
            )
        if not length:
            return np.zeros(0, np.uint8)
        return np.memmap(file, np.uint8, "r", offset, (length,))


def _number(fields: dict[str, str], key: str, default: int, what: str) -> int:
    text = fields.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ModelError(f"{what}: {key} of its external data is {text!r}, not a number")
    return int(text)


def _opened(folder: Path, location: str, what: str) -> BinaryIO:
    """The file that `location` names, which must be a plain file inside the model's folder.

    It is opened part by part and looked at once it is open: what was looked at by its path could
    be another file by then. One of several names may stand for a file anywhere, as with a symbolic
    link: such a file is refused, as onnx does.
    """
    parts = PurePosixPath(location).parts
    is_absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    if not location or "\0" in location or is_absolute or ".." in parts or "\\" in location:
        raise ModelError(
            f"{what} lies in {location!r}, which is outside of the model's folder",
            hint="keep external data beside the model",
        )
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for depth, part in enumerate(parts, 1):
        # Without waiting for the writer of a FIFO.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        flags |= os.O_DIRECTORY if depth < len(parts) else 0
        try:
            inner = os.open(part, flags, dir_fd=descriptor)
        except OSError as error:
            raise _not_opened(error, location, what, _is_link(part, descriptor)) from error
        finally:
            os.close(descriptor)
        descriptor = inner
    state = os.fstat(descriptor)
    problem = ""
    if not stat.S_ISREG(state.st_mode):
        problem = "which is no plain file"
    elif state.st_nlink > 1:
        problem = "which has another name, too (a hard link), perhaps outside of the folder"
    if problem:
        os.close(descriptor)
        raise ModelError(
            f"{what} lies in {location!r}, {problem}",
            file=location,
            hint="put a copy of the file beside the model",
        )
    return os.fdopen(descriptor, "rb")


def _is_link(name: str, folder: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _not_opened(error: OSError, location: str, what: str, is_link: bool) -> ModelError:
    if is_link:
        return ModelError(
            f"{what} lies in {location!r}, which leads through a symbolic link",
            file=location,
            hint="put the file itself beside the model",
        )
    is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    problem = "which is missing" if is_missing else f"which cannot be read: {error.strerror}"
    return ModelError(
        f"{what} lies in {location!r}, {problem}",
        file=location,
        hint="put the file beside the model" if is_missing else "check its permissions",
    )
