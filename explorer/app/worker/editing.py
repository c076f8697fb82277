"""IR text that a person edited in the page: data, which is parsed and verified, never executed.

read_edit("upload_3.mlir")     the text; InputError where it is too large or no text
"""

from __future__ import annotations

from pathlib import Path

from explorer.errors import InputError
from explorer.files import reading_file

MAX_BYTES = 32 * 2**20


def read_edit(path: str) -> str:
    """The text in a file that the page sent."""
    with reading_file(path, "edited IR"):
        if Path(path).stat().st_size > MAX_BYTES:
            raise InputError(f"the edited text is larger than {MAX_BYTES >> 20} MiB")
        try:
            return Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"the edited text is no UTF-8: {error.reason}") from error
