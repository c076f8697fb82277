"""Files that only their owner has written.

    content = read_private(path, most_bytes)
    descriptor = open_private(path)
    listed(folder, (".program",))       [Listed(used_ns, path, size_bytes), ...]

What lies in a cache is loaded and run. Whoever could write to its folder once may have left
something there, so each file is looked at when it is opened: a regular file of this user that
nobody else may write, and no link to one. What is read is what was looked at.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple


class Listed(NamedTuple):
    """A file of the cache's folder."""

    used_ns: int
    """Nanoseconds since 1970."""
    path: str
    size_bytes: int


class NotPrivate(PermissionError):
    """A file that somebody else may have written, or that is none."""

    def __init__(self, why: str, path: Path) -> None:
        super().__init__(errno.EPERM, why, str(path))


def read_private(path: Path, most_bytes: int) -> bytes:
    """At most `most_bytes` + 1 bytes, so that the caller sees what is longer. `NotPrivate` or
    another OSError where it cannot be read."""
    with os.fdopen(open_private(path), "rb") as file:
        return file.read(most_bytes + 1)


def open_private(path: Path) -> int:
    """A descriptor for reading, which the caller closes. A pipe or a device is not waited for."""
    flags = os.O_RDONLY | _flag("O_CLOEXEC") | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK")
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPrivate("it is a link", path) from None
        raise
    try:
        if why := trouble_with(os.fstat(descriptor)):
            raise NotPrivate(why, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def trouble_with(state: os.stat_result) -> str:
    """Why a file is not this user's alone, or nothing."""
    if not stat.S_ISREG(state.st_mode):
        return "it is no regular file"
    if os.name != "posix":
        return ""
    if state.st_uid != os.geteuid():
        return "it belongs to another user"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    return ""


def listed(folder: Path, suffixes: tuple[str, ...], prefix: str = "") -> list[Listed]:
    """A folder's files by the ends of their names, the last used first; what cannot be read is
    left out. A cache holds thousands, and every compilation looks: it takes 8 µs for each."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(suffixes) or not entry.name.startswith(prefix):
                continue
            try:
                state = entry.stat()
            except OSError:  # gone meanwhile
                continue
            found.append(Listed(state.st_mtime_ns, entry.path, state.st_size))
    found.sort(reverse=True)
    return found


def _flag(name: str) -> int:
    return getattr(os, name, 0)
