"""Files: those of others are read inside one boundary, our own are written whole or not at all.

with reading_file(path, "trace", hint="save it again"):    whatever its bytes raise is an error
    ...                                                    of ours, which names the file

check_output(Path("out/trace.nnx"))         InputError: there is no folder out
write_file(Path("trace.nnx"), content)      a new file takes the old one's place
write_whole(path, content)                  the same; what fails is an OSError
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from explorer.errors import BuildError, ExplorerError, InputError, ModelError

UNFINISHED_PREFIX = "unfinished-"
_WAY_OUT = "check the folder's permissions and the space that is left, or give another place"
_FORESEEN = (
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    OSError,
    MemoryError,
)
"""Exceptions of Python with which readers of formats say what is wrong, as those of libraries do;
what others say is of use only to who knows the code, so they are named with their type."""


@dataclass(frozen=True)
class ModelFiles:
    """A model of two files that have not one name in one folder."""

    path: Path
    """What the model is called after, and its source is."""
    weights: Path

    def __str__(self) -> str:
        return str(self.path)


ModelPath = str | Path | ModelFiles


@contextmanager
def reading_file(
    path: str | Path, what: str, *, hint: str = "", kind: type[ExplorerError] = ModelError
) -> Iterator[None]:
    """Whatever the block raises is the file's fault: one error of that kind, which names the file.

    what: what the file should be, as `trace`. Errors that are ours already pass, and get the
    file's name where they have none. Nobody can foresee all that a parser of zip, JSON, protobuf
    or MLIR raises for damaged bytes; hence any `Exception`. It stays the cause of the error.
    """
    try:
        yield
    except ExplorerError as error:
        error.file = error.file or str(path)
        raise
    except Exception as error:
        is_denied = isinstance(error, OSError) and error.strerror
        told = f"the {what} cannot be read" if is_denied else f"not a readable {what}"
        raise kind(f"{told}: {damage_of(error)}", file=str(path), hint=hint) from error


def damage_of(error: BaseException) -> str:
    """What an exception says of the data that raised it, in one line for people."""
    said = " ".join(str(error).split())
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    if isinstance(error, OSError):
        return error.strerror or said
    if isinstance(error, UnicodeDecodeError):
        return f"it is no UTF-8 text: {error.reason} at byte {error.start:,}"
    if isinstance(error, KeyError) and " " not in said:
        return f"{said} is missing"
    if isinstance(error, EOFError):
        return said or "it is cut off"
    if is_foreseen(error) and said:
        return said
    return f"its parts do not fit each other ({type(error).__name__}: {said})"


def is_foreseen(error: BaseException) -> bool:
    """Is an exception one with which readers of formats say what is wrong with their bytes?"""
    return isinstance(error, _FORESEEN) or type(error).__module__ != "builtins"


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


def check_output_folder(folder: Path) -> None:
    """InputError where files could not be written into a folder of that name, there or not yet."""
    if folder.exists() and not folder.is_dir():
        raise InputError("this is no folder", file=str(folder), hint="give another name")
    if not folder.exists():
        check_output(folder)


def write_file(path: Path, content: bytes | str) -> None:
    """Writes a file that a person asked for. InputError says why it cannot; nothing is left."""
    check_output(path)
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with _reporting(path):
        write_whole(path, data, waits=False, mode=0o666)


def write_whole(
    path: Path, content: bytes | memoryview, waits: bool = True, mode: int = 0o600
) -> None:
    """Writes beside the place, then moves it there; OSError leaves the place as it was.

    No reader ever sees half a file, whoever writes it at the same time. waits: until it lies on
    the disk; without that a crash of the machine may leave parts of it. mode: as of `os.open`.
    """
    unfinished = path.parent / f"{UNFINISHED_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if waits:
                os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException as error:  # a full disk, or Ctrl-C
        with contextlib.suppress(OSError):
            unfinished.unlink()
        if isinstance(error, OSError):  # what the person knows is the place, not what lay beside
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


SEAL_BYTES = 64


def sealed(magic: bytes, body: bytes) -> bytes:
    """A file's content: what it is, the SHA-256 of the rest, and the rest, each in a line."""
    return magic + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unsealed(magic: bytes, content: bytes, what: str) -> bytes:
    """What was sealed. ValueError says how the content differs from what was written.

    The seal finds every damaged byte, yet anybody can compute one: what the body holds is still to
    be checked.
    """
    start = len(magic) + SEAL_BYTES + 1
    if not content.startswith(magic):
        raise ValueError(f"it does not begin as a {what} does")
    if len(content) < start or content[start - 1 : start] != b"\n":
        raise ValueError(f"it is cut off after {len(content)} bytes")
    body = content[start:]
    if hashlib.sha256(body).hexdigest().encode() != content[len(magic) : start - 1]:
        raise ValueError("its content does not fit its seal: bytes are changed or missing")
    return body


def append_line(path: Path, line: str, waits: bool = False) -> None:
    """A line at a file's end, whole or not at all; OSError names the file. waits: see above."""
    try:
        with path.open("ab", buffering=0) as file:
            before = file.tell()
            data = line.encode() + b"\n"
            try:
                # A disk that is nearly full takes the beginning without an error.
                while data:
                    data = data[file.write(data) :]
                if waits:
                    os.fsync(file.fileno())
            except BaseException:
                file.truncate(before)
                raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def folder_written_at_once(folder: Path) -> Iterator[Path]:
    """A temporary folder; its files move to `folder` when the block ends without an error.

    Files of the same names are replaced, others stay. InputError where they cannot be written.
    """
    check_output_folder(folder)
    with (
        _reporting(folder),
        tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as name,
    ):
        partial = Path(name)
        yield partial
        folder.mkdir(exist_ok=True)
        for file in sorted(partial.iterdir()):
            file.replace(folder / file.name)


@contextmanager
def temporary_files() -> Iterator[None]:
    """Around a build: BuildError, which names the folder, where it is full or not to be used."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"the files of a build cannot be written: {error.strerror or error}",
            file=str(error.filename or _temporary_folder()),
            hint="make room there, or name another folder with TMPDIR",
        ) from error


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:  # no folder can be written, which the message says
        return ""


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """A full disk and its like as an InputError that names what could not be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        message = f"it cannot be written: {reason}"
        raise InputError(message, file=str(path), hint=_WAY_OUT) from error
