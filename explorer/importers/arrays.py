"""Arrays by name in `.npz` files: model inputs, outputs, and the weights of a snapshot.

    read_arrays(Path("inputs.npz"))   -> {"image": float32 array of shape (1, 1, 8, 8)}

NumPy reads what is written here. A file is data from others: nothing in it is executed, and the
sizes that it claims are checked before memory is taken.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote

import numpy as np

from explorer.errors import InputError
from explorer.files import reading_file

MAX_BYTES = 4 * 2**30
"""Most bytes of all arrays of a file together."""
MAX_NAME_BYTES = 65_535
"""Of a member's name: what the format of zip files has two bytes for."""
_SUFFIX = ".npy"
_HINT = "write one with numpy.savez(file, name=array, ...)"
_UNCHANGED = "".join(chr(c) for c in range(32, 127) if chr(c) != "%")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file. InputError says what is wrong with one that cannot be read."""
    if not path.is_file():
        raise InputError("no such file", file=str(path), hint="check the path")
    with (
        reading_file(path, ".npz file", hint=_HINT, kind=InputError),
        zipfile.ZipFile(path) as archive,
    ):
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > MAX_BYTES:
            raise InputError(
                f"its arrays take {total:,} bytes, more than {MAX_BYTES:,}",
                hint="use fewer or smaller arrays",
            )
        arrays = {member_name(member): _read_array(archive, member) for member in members}
        if len(arrays) < len(members):
            names = [member_name(member) for member in members]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two arrays are called {twice!r}")
        return arrays


def member_name(member: zipfile.ZipInfo) -> str:
    """The array's name."""
    return member.filename.removesuffix(_SUFFIX)


def read_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether columns come first, element type and bytes of an array that begins there.

    ValueError where the header claims what no array has.
    """
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"array {name!r} has the unknown version {version}")
    try:
        shape, is_fortran, dtype = read(file)
    except Exception as error:  # it is a text of Python, which NumPy parses as such
        raise ValueError(f"array {name!r} has no header of NumPy's") from error
    if any(size < 0 for size in shape):
        raise ValueError(f"array {name!r} has the shape {shape}")
    if dtype.hasobject:
        raise ValueError(f"array {name!r} holds Python objects")
    return shape, is_fortran, dtype, math.prod(shape) * dtype.itemsize


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One member; ValueError where its header claims more or less than it holds."""
    with archive.open(member) as file:
        shape, is_fortran, dtype, size_bytes = read_header(file, member.filename)
        data = file.read()
    if len(data) != size_bytes:
        raise ValueError(
            f"array {member.filename!r} is cut off: {len(data):,} of {size_bytes:,} bytes"
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def arrays_as_npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of a file with these arrays. Unlike `numpy.savez` it takes any name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # A fixed date: the same arrays give the same bytes.
            member = zipfile.ZipInfo(name + _SUFFIX, (1980, 1, 1, 0, 0, 0))
            if len(member.filename.encode()) > MAX_NAME_BYTES:
                raise InputError(
                    f"an array's name in a .npz file has at most {MAX_NAME_BYTES:,} bytes; this "
                    f"one begins {name[:40]!r}",
                    hint="give the tensor a shorter name",
                )
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array).reshape(array.shape))
    return content.getvalue()


def quote_name(name: str) -> str:
    """A name from a model as a zip file can keep it: control characters and `%` as `%1B`."""
    return "".join(
        quote(c, safe=_UNCHANGED) if not c.isprintable() or c == "%" else c for c in name
    )


def unquote_name(name: str) -> str:
    return unquote(name)
