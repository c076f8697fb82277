"""Shared libraries of generated C, out of the cache or a compiler.

cached_library(source, folder, cache, name="digits_cnn")   -> folder/program-1f0c9a6e2d5b.so
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from explorer.files import temporary_files
from explorer.processor import processor_family, processor_name, read_processor_text
from explorer.runtime.cache.entries import Entry
from explorer.runtime.cache.keys import ProgramKey, digest_of, header_digests
from explorer.runtime.cache.store import FoundEntry, ProgramCache
from explorer.runtime.cache.trial import try_in_child
from explorer.runtime.compilers import (
    Compiler,
    divisible_parts,
    find_compiler,
)
from explorer.runtime.scratch import own_folder
from explorer.runtime.shared_driver import compile_program

ENTRY_POINT = "explorer_run"


def cached_library(
    source: str,
    folder: Path,
    cache: ProgramCache,
    *,
    name: str = "",
    compiler: Compiler | None = None,
    flags: Sequence[str] = (),
) -> Path:
    """A file of its own in `folder`, so that nobody can change what a process has loaded.

    Raises `BuildError` where it must be built and cannot.
    """
    started = time.perf_counter()
    compiler = find_compiler() if compiler is None else compiler
    key = library_key(source, compiler, flags, name)
    found = cache.find(key, try_library)
    if isinstance(found, FoundEntry):
        path = write_library(found.entry, folder)
        cache.note(key, found.tier, time.perf_counter() - started)
        return path
    with temporary_files():
        path, headers = compile_with_headers(source, folder, compiler, flags)
    seconds = time.perf_counter() - started
    cache.store(
        Entry.of(
            key,
            path.read_bytes(),
            headers=header_digests(headers),
            build_seconds=round(seconds, 3),
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
    )
    cache.note(key, "source", seconds, found.reason)
    return path


def library_key(source: str, compiler: Compiler, flags: Sequence[str], name: str) -> ProgramKey:
    """`-march=native` means another thing on every processor: its features belong to the key."""
    options = (*compiler.flags, *flags)
    return ProgramKey(
        language="c",
        source=source,
        options=options,
        compiler=compiler_identity(compiler),
        device=processor_identity(),
        name=name,
    )


def compiler_identity(compiler: Compiler) -> str:
    """`/usr/bin/cc (gcc 12.2.0, 1012 KiB of 2023-01-08)`: a changed file is another compiler."""
    details = f"{compiler.name}, {file_state(compiler.command[0])}"
    return f"{shlex.join(compiler.command)} ({details})"


def file_state(path: str) -> str:
    """`1012 bytes of 2023-01-08T10:00:00+00:00`. OSError where there is no such file."""
    state = os.stat(path)
    changed = datetime.fromtimestamp(state.st_mtime, UTC).isoformat(timespec="seconds")
    return f"{state.st_size} bytes of {changed}"


def processor_identity() -> str:
    """`AMD EPYC 9R14 (znver4, features 1f0c9a6e)`: a name may be that of several families."""
    return f"{processor_name()} ({processor_family() or 'unknown'}, {_features()})"


def compile_with_headers(
    source: str, folder: Path, compiler: Compiler, flags: Sequence[str]
) -> tuple[Path, list[Path]]:
    """The library, and all headers that the compiler read for it."""
    with tempfile.TemporaryDirectory(prefix="headers-", dir=own_folder()) as scratch:
        rules = Path(scratch, "program.d")
        path = compile_program(
            source,
            folder,
            compiler,
            flags,
            parts=divisible_parts(source),
            flags_of_first=("-MD", "-MF", str(rules), "-MT", "program"),
        )
        text = rules.read_text(encoding="utf-8", errors="replace") if rules.exists() else ""
    return path, headers_in(text)


def headers_in(rules: str) -> list[Path]:
    """The absolute paths in a compiler's make rule; the source itself is a relative one."""
    words = re.split(r"(?<!\\)\s+", rules.replace("\\\n", " "))
    paths = [Path(word.replace("\\ ", " ").replace("$$", "$")) for word in words if word]
    return [path for path in paths if path.is_absolute()]


def try_library(entry: Entry) -> str:
    """Loads a foreign library in a child process; why it is of no use, or nothing."""
    with tempfile.TemporaryDirectory(prefix="trial-", dir=own_folder()) as folder:
        path = write_library(entry, Path(folder))
        return try_in_child("c", [str(path), ENTRY_POINT])


def write_library(entry: Entry, folder: Path) -> Path:
    """The library of an entry as a file of its own in `folder`."""
    path = folder / f"program-{entry.digest[:12]}.so"
    with temporary_files():
        path.write_bytes(entry.payload)
    return path


@lru_cache(maxsize=1)
def _features() -> str:
    """A short name of all features of this processor."""
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", read_processor_text(), re.MULTILINE)
    words = sorted(found.group(1).split()) if found else [sys.platform]
    return f"features {digest_of(' '.join(words).encode())[:8]}"
