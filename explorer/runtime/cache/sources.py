"""Which compiler this is: a digest of the project's own sources, and versions of what it uses.

    sources_of(package, memo)      Sources(digest, newest_ns): every file that decides a program
    packages()                     "python 3.11, ml_dtypes 0.5.1, numpy 2.2.0, onnx 1.17.0, ..."

Computing the digest takes 30 ms. A memo beside the programs holds it by the files' sizes, times
and inode numbers, which takes 5 ms to look at. Nothing is imported for the versions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from explorer.files import write_whole
from explorer.runtime.cache.files import read_private

MEMO = "sources.json"
MAX_MEMOS = 16
MAX_MEMO_BYTES = 1 << 16
IGNORED = frozenset({"__pycache__", "app", "cli", "views"})
"""Folders that decide no program: what shows results and what asks for them."""
PACKAGES = ("ml_dtypes", "numpy", "onnx", "xdsl", "ziglang")
"""Whose versions may change what a model is compiled to; a C compiler is one of them."""
EXTRAS = ("../explorer_extras", "../extras/explorer_extras")
"""Operators that are a package of their own: where the wheel puts them, and where a clone does."""


@dataclass(frozen=True)
class Sources:
    digest: str
    newest_ns: int
    """When the last of the files was written."""


def sources_of(package: Path, memo_folder: Path | None = None) -> Sources:
    """The sources below a package's folder and those of the extras, where they are installed.

    They come from the memo where nothing about them changed.
    """
    folders = ("", *(f"{path}/" for path in EXTRAS if (package / path).is_dir()))
    files = sorted(file for path in folders for file in _files(package / path, path))
    stamp = hashlib.sha256(json.dumps([str(package), files]).encode()).hexdigest()
    newest_ns = max((changed for _, _, changed, _ in files), default=0)
    memo = None if memo_folder is None else memo_folder / MEMO
    known = _read_memo(memo) if memo is not None else {}
    if stamp in known:
        return Sources(known[stamp], newest_ns)
    digest = _digest(package, stamp, tuple(path for path, *_ in files))
    if memo is not None:
        kept = [*((s, d) for s, d in known.items()), (stamp, digest)][-MAX_MEMOS:]
        with contextlib.suppress(OSError):  # the next process computes it again
            write_whole(memo, json.dumps(dict(kept)).encode(), waits=False)
    return Sources(digest, newest_ns)


def packages(path: tuple[str, ...] | None = None) -> str:
    """Versions as the installed packages' folders say them, of those that are found.

    `path`: folders to look in, the interpreter's by default.
    """
    found = _versions(tuple(sys.path) if path is None else path)
    versions = (f"{name} {found[name]}" for name in PACKAGES if name in found)
    return ", ".join([f"python {sys.version_info[0]}.{sys.version_info[1]}", *versions])


def process_start_ns() -> int:
    """When this process began, in nanoseconds since 1970, to 10 ms; 0 where that is not known."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[19])  # proc(5): starttime is field 22, and the third follows the name
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        begin = time.time() - since_boot + ticks / os.sysconf("SC_CLK_TCK")
        return int(begin * 1e9)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def _files(folder: Path, prefix: str) -> Iterator[tuple[str, int, int, int]]:
    """(path, bytes, time of the last change, inode) of every file below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name not in IGNORED:
                    yield from _files(Path(entry.path), f"{prefix}{entry.name}/")
            else:
                state = entry.stat()
                yield (prefix + entry.name, state.st_size, state.st_mtime_ns, state.st_ino)


@lru_cache(maxsize=4)
def _digest(package: Path, stamp: str, paths: tuple[str, ...]) -> str:
    """`stamp`: what the files' states were; other states are other files."""
    del stamp
    digest = hashlib.sha256()
    for path in paths:
        content = (package / path).read_bytes()
        digest.update(f"{path} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _read_memo(path: Path) -> dict[str, str]:
    """Digests by stamp, the oldest first; none where the file is not as it was written."""
    try:
        data = json.loads(read_private(path, MAX_MEMO_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    digests = re.compile("[0-9a-f]{64}")
    return {k: d for k, d in data.items() if isinstance(d, str) and digests.fullmatch(d)}


@lru_cache(maxsize=4)
def _versions(path: tuple[str, ...]) -> dict[str, str]:
    """By package; the first folder of the path that has one counts, as for an import."""
    found: dict[str, str] = {}
    pattern = re.compile(rf"({'|'.join(PACKAGES)})-([^-]+)\.(?:dist-info|egg-info)", re.IGNORECASE)
    for folder in path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in sorted(names):
            if match := pattern.match(name):
                found.setdefault(match.group(1).lower(), match.group(2))
    return found
