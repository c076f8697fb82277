"""The folder in which an app keeps uploads, private to the user, and gone when the app is.

    with upload_folder() as folder:
        page_folder(folder)         one for each page

An app that was killed cannot clean up. Its folder holds a lock that died with it: whoever starts
next takes such folders for stale and removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "explorer-uploads-"
LOCK = "lock"


@contextmanager
def upload_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder of this app's own (0700); those of apps that are no more are removed first."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    remove_stale_folders(place)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def page_folder(folder: Path) -> Path:
    """A new folder for the files of one page."""
    return Path(tempfile.mkdtemp(prefix="page-", dir=folder))


def remove_stale_folders(place: Path) -> list[Path]:
    """Removes this user's folders whose app is no more; returns which."""
    removed = []
    for folder in place.glob(f"{PREFIX}*"):
        try:
            status = folder.lstat()
            if folder.is_symlink() or not folder.is_dir() or status.st_uid != os.getuid():
                continue
            with (folder / LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its app lives, or is just beginning, or another one removes it
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(folder)
    return removed
