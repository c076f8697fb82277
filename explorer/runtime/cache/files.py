"""Files that are there whole or not at all, whoever writes them at the same time."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

UNFINISHED_PREFIX = "unfinished-"


def write_whole(path: Path, content: bytes | memoryview, waits: bool = True) -> None:
    """Writes beside the place, then moves it there; OSError leaves the place as it was.

    waits: until it lies on the disk; without that a crash of the machine may leave parts of it.
    """
    unfinished = path.parent / f"{UNFINISHED_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if waits:
                os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
