"""The folder in which an app keeps uploads, private to the user, and gone when the app is.

    with upload_folder() as folder:
        page_folder(folder)         one for each page

What an app that was killed left behind goes with the next temporary folder that is made
(explorer/runtime/scratch.py).
"""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from explorer.runtime.scratch import locked_folder

PREFIX = "explorer-uploads-"


def upload_folder(parent: Path | None = None) -> AbstractContextManager[Path]:
    """A folder of this app's own (0700); those of apps that are no more are removed first."""
    return locked_folder(PREFIX, parent)


def page_folder(folder: Path) -> Path:
    """A new folder for the files of one page."""
    return Path(tempfile.mkdtemp(prefix="page-", dir=folder))
