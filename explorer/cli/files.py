"""Writing files: complete or not at all, and refused before long work where it cannot succeed.

check_output(Path("out/trace.nnx"))          InputError: there is no folder out
write_file(Path("trace.nnx"), content)       a new file takes the old one's place at once
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from explorer.errors import InputError


def check_output(path: Path) -> None:
    """InputError where a file of that name could not be written."""
    if path.is_dir():
        raise InputError("this is a folder", file=str(path), hint="give the name of a file")
    if path.exists() and not path.is_file():
        raise InputError(
            "this is a device and no file", file=str(path), hint="give the name of a file"
        )
    if not path.parent.is_dir():
        raise InputError(
            "its folder does not exist", file=str(path), hint=f"mkdir -p {path.parent}"
        )


def write_file(path: Path, content: bytes | str) -> None:
    """Writes beside the path first and renames: no reader ever sees half a file."""
    check_output(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def folder_written_at_once(folder: Path) -> Iterator[Path]:
    """A temporary folder; its files move to `folder` when the block ends without an error.

    Files of the same names are replaced, others stay.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError("this is no folder", file=str(folder), hint="give another name")
    if not folder.exists():
        check_output(folder)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as name:
        partial = Path(name)
        yield partial
        folder.mkdir(exist_ok=True)
        for file in sorted(partial.iterdir()):
            file.replace(folder / file.name)
