"""Model files that a page sends in pieces: counted, bounded, and written under names of ours.

{"name": "../../net.onnx", "part": 0, "parts": 2, "bytes": "CAcS..."}
    ->  <temporary folder>/upload_1.onnx, shown as "net.onnx"
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

UPLOAD_LIMIT_BYTES = 512 * 1024 * 1024
PIECE_LIMIT_BYTES = 512 * 1024
SUFFIXES = (".onnx",)


class UploadRefused(ValueError):
    """A file that cannot be taken, with the reason and what to do instead."""


@dataclass
class Upload:
    """A file on its way."""

    label: str
    path: Path
    parts: int
    received: int = 0
    size_bytes: int = 0


class Uploads:
    """Files of one page; at most one is on its way at a time."""

    def __init__(self, folder: Path, limit_bytes: int = UPLOAD_LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._count = 0
        self._current: Upload | None = None

    def receive(self, message: dict[str, Any]) -> Upload | None:
        """Takes one piece; the upload when it was the last one.

        Raises:
            UploadRefused: for a file too large, of another kind, or with pieces out of order.
        """
        part, parts = message.get("part"), message.get("parts")
        if not isinstance(part, int) or not isinstance(parts, int) or not 0 <= part < parts:
            raise UploadRefused("the upload was cut into pieces that don't fit together: try again")
        if part == 0:
            self._begin(str(message.get("name", "")), parts)
        current = self._current
        if current is None or part != current.received or parts != current.parts:
            self._current = None
            raise UploadRefused("a piece of the upload is missing: try again")
        data = _decode(message.get("bytes"))
        current.size_bytes += len(data)
        if current.size_bytes > self._limit_bytes:
            self._current = None
            current.path.unlink(missing_ok=True)
            raise UploadRefused(too_large(current.label, self._limit_bytes))
        with current.path.open("ab") as file:
            file.write(data)
        current.received += 1
        if current.received < current.parts:
            return None
        self._current = None
        return current

    def _begin(self, name: str, parts: int) -> None:
        file_name = PurePosixPath(name.replace("\\", "/")).name
        label = file_name[:120] or "model"
        suffix = PurePosixPath(file_name).suffix.lower()  # of the whole name, however long
        if suffix not in SUFFIXES:
            raise UploadRefused(
                f"{label!r} is no model file that can be read here: expected {', '.join(SUFFIXES)}"
            )
        self._count += 1
        path = self._folder / f"upload_{self._count}{suffix}"
        path.write_bytes(b"")
        self._current = Upload(label, path, parts)


def too_large(label: str, limit_bytes: int) -> str:
    return (
        f"{label!r} is larger than {limit_bytes // 2**20} MiB, the most that a page may send: "
        "start the explorer with its path instead"
    )


def _decode(text: object) -> bytes:
    if not isinstance(text, str) or len(text) > 2 * PIECE_LIMIT_BYTES:
        raise UploadRefused("a piece of the upload is too large: try again")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise UploadRefused("a piece of the upload is damaged: try again") from None
