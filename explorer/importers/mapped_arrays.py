"""Arrays of `.npz` files that need not fit into memory: rows are read when they are asked for.

    rows = mapped_arrays(Path("images.npz"))["image"]      len(rows), rows.shape, rows[7]

What is stored as it is (`numpy.savez`) is mapped where it lies in the file. What is compressed is
unpacked into a temporary file first, block by block, and mapped there. Headers are checked as those
of `read_arrays`; nothing is unpickled.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from explorer.errors import InputError
from explorer.files import reading_file
from explorer.importers.arrays import member_name, read_header

LOCAL_HEADER_BYTES = 30
"""Of a member, before its name. Source: APPNOTE.TXT of the zip format, section 4.3.7."""
BLOCK_BYTES = 1 << 20


def mapped_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file, read-only. InputError says what is wrong with one that is none."""
    if not path.is_file():
        raise InputError("no such file", file=str(path), hint="check the path")
    hint = "write one with numpy.savez(file, name=array, ...)"
    with (
        reading_file(path, ".npz file", hint=hint, kind=InputError),
        zipfile.ZipFile(path) as archive,
    ):
        return {member_name(m): _mapped(path, archive, m) for m in archive.infolist()}


def _mapped(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as content:
        shape, is_fortran, dtype, size_bytes = read_header(content, member.filename)
        start = content.tell()
        if member.file_size - start != size_bytes:
            raise ValueError(
                f"array {member.filename!r} is cut off: {member.file_size - start:,} of "
                f"{size_bytes:,} bytes"
            )
        if not size_bytes:
            return np.zeros(shape, dtype)
        order = "F" if is_fortran else "C"
        if member.compress_type == zipfile.ZIP_STORED:
            offset = _start_of(path, member) + start
            return np.memmap(path, dtype, "r", offset, shape, order)
        with tempfile.TemporaryFile() as unpacked:
            shutil.copyfileobj(content, unpacked, BLOCK_BYTES)
            unpacked.flush()
            # The mapping keeps the file, which has no name and is gone with it.
            return np.memmap(unpacked, dtype, "r", 0, shape, order)  # pyright: ignore


def _start_of(path: Path, member: zipfile.ZipInfo) -> int:
    """Where a member's content begins; its local header has lengths of its own."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(LOCAL_HEADER_BYTES)
    name_bytes, extra_bytes = struct.unpack("<HH", header[26:30])
    return member.header_offset + LOCAL_HEADER_BYTES + name_bytes + extra_bytes


class Joined:
    """Arrays one behind the other along the first axis, without a copy."""

    def __init__(self, parts: Sequence[np.ndarray]):
        self.parts = parts
        self.ends = np.cumsum([len(part) for part in parts]).tolist()
        self.shape = (self.ends[-1], *parts[0].shape[1:])
        self.dtype = parts[0].dtype
        self.ndim = parts[0].ndim

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, row: int) -> np.ndarray:
        place = int(np.searchsorted(self.ends, row, side="right"))
        return self.parts[place][row - (self.ends[place - 1] if place else 0)]
