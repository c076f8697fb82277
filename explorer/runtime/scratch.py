"""Temporary folders that are gone when their process is, also when it was killed.

    tempfile.mkdtemp(prefix="build-", dir=own_folder())
    with locked_folder("explorer-uploads-") as folder: ...

A process that is killed cannot clean up. Its folder holds a lock that dies with it: whoever makes
the next such folder takes it for stale and removes it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO

PREFIX = "explorer-"
"""Of all such folders."""
LOCK = "lock"


def own_folder() -> Path:
    """The folder of this process, made when first asked for; what lies in it may be removed."""
    folder = _of_process(os.getpid(), tempfile.gettempdir())
    if not folder.is_dir():  # somebody tidied up
        _of_process.cache_clear()
        folder = _of_process(os.getpid(), tempfile.gettempdir())
    return folder


@contextmanager
def locked_folder(prefix: str, place: Path | None = None) -> Iterator[Path]:
    """A folder of this process (0700) among the temporary files, for the length of a block."""
    folder, lock = _locked(prefix, Path(tempfile.gettempdir()) if place is None else place)
    try:
        with lock:
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders(place: Path | None = None) -> list[Path]:
    """Removes this user's folders whose process is no more; returns which."""
    removed = []
    place = Path(tempfile.gettempdir()) if place is None else place
    for folder in place.glob(f"{PREFIX}*"):
        try:
            status = folder.lstat()
            if folder.is_symlink() or not folder.is_dir() or status.st_uid != os.getuid():
                continue
            with (folder / LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its process lives, or another one removes it
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(folder)
    return removed


@lru_cache
def _of_process(process_id: int, place: str) -> Path:
    """The folder of a process; a fork makes its own."""
    folder, lock = _locked(f"{PREFIX}scratch-", Path(place))

    def remove() -> None:
        if os.getpid() == process_id:
            lock.close()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _locked(prefix: str, place: Path) -> tuple[Path, IO[str]]:
    """A new folder, and the lock in it; those of processes that are no more are removed first."""
    with contextlib.suppress(OSError):
        remove_stale_folders(place)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    # Held before it has the name by which others find it.
    beginning = folder / f"{LOCK}-begins"
    lock = beginning.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    beginning.rename(folder / LOCK)
    return folder, lock
