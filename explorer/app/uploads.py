"""Files that a page sends in pieces: counted, bounded, and written under names of ours.

{"name": "../../net.onnx", "part": 0, "parts": 2, "bytes": "CAcS..."}
    ->  <folder of the page>/upload_1.onnx, shown as "net.onnx"

The folder goes with its page, but for what a workspace keeps (`workspaces.py`); see
`upload_folder.py` for what an app that died left behind.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import shutil
import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from explorer.app.catalog import offered_suffixes

UPLOAD_LIMIT_BYTES = 512 * 2**20
"""Of one file."""
PAGE_LIMIT_BYTES = 2**30
"""Of all files that one page holds."""
TOTAL_LIMIT_BYTES = 4 * 2**30
"""Of all files of all pages."""
FREE_BYTES = 256 * 2**20
"""What must be left on the disk."""
PIECE_LIMIT_BYTES = 512 * 1024
MAX_LABEL = 120
ASKED, VALUES, EDIT, SWEEP = "asked", "values", "edit", "sweep"
"""What a file is for."""
PURPOSES = (ASKED, VALUES, EDIT, SWEEP)
EDIT_SUFFIX = ".mlir"
"""Of edited IR, which is named after the pass that made it."""
SWEEP_SUFFIX = ".json"
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")
TEXT_SUFFIXES = (".txt", ".csv")
DATA_SUFFIXES = (".npz", ".npy", *TEXT_SUFFIXES, *IMAGE_SUFFIXES)
"""Of values for inputs, and of labels."""
MIB = 2**20
NAME = re.compile(r"upload_([1-9][0-9]{0,8})\.[a-z0-9]+")
"""Of a file that arrived whole; one on its way is called otherwise."""
ON_ITS_WAY = ".part"


class UploadRefused(ValueError):
    """A file that cannot be taken, with the reason and what to do instead."""


class Quota:
    """Bytes that are taken, by all pages together; safe to use from several threads."""

    def __init__(self, limit_bytes: int = TOTAL_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> bool:
        """Whether there was room."""
        with self._lock:
            if self._taken + size_bytes > self.limit_bytes:
                return False
            self._taken += size_bytes
            return True

    def restore(self, size_bytes: int) -> None:
        """Counts what is on the disk already, whether or not there is room."""
        with self._lock:
            self._taken += size_bytes

    def give_back(self, size_bytes: int) -> None:
        with self._lock:
            self._taken -= size_bytes


@dataclass
class Upload:
    """A file on its way."""

    label: str
    path: Path
    parts: int
    received: int = 0
    size_bytes: int = 0
    purpose: str = ""
    """Empty for what is opened at once, `ASKED` for a model that is asked about first, `VALUES`
    for values or labels, `EDIT` for edited IR, `SWEEP` for a sweep of machines."""
    more: bool = False
    """Of values: whether the page sends further files of the same data."""
    partner: str = ""
    """The label of the other file of the same model, where the page sends that next."""


class Uploads:
    """Files of one page; at most one is on its way at a time."""

    def __init__(
        self,
        folder: Path,
        quota: Quota | None = None,
        limit_bytes: int = UPLOAD_LIMIT_BYTES,
        page_limit_bytes: int = PAGE_LIMIT_BYTES,
    ) -> None:
        self._folder = folder
        self._quota = quota or Quota()
        self._limit_bytes = limit_bytes
        self._page_limit_bytes = page_limit_bytes
        self._count = 0
        self._current: Upload | None = None
        self._kept: dict[Path, int] = {}
        """Bytes of what arrived whole."""

    def take_over(self, names: Collection[str]) -> dict[str, Path]:
        """Files of these names that an earlier page left in this folder, by name, with the other
        files of the same models; it loses all others. Called before the first piece arrives."""
        found: dict[str, Path] = {}
        stems = {PurePosixPath(name).stem for name in names}
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            match = NAME.fullmatch(path.name)
            if match is None or path.stem not in stems or path.is_symlink():
                path.unlink(missing_ok=True)
                continue
            self._count = max(self._count, int(match.group(1)))
            self._kept[path] = path.stat().st_size
            self._quota.restore(self._kept[path])
            found[path.name] = path
        return found

    @property
    def current(self) -> Upload | None:
        """The file on its way, as far as it has arrived."""
        return None if self._current is None else replace(self._current)

    def receive(self, message: dict[str, Any]) -> Upload | None:
        """Takes one piece; the upload when it was the last one.

        Raises:
            UploadRefused: for a file too large, of another kind, or with pieces out of order.
        """
        part, parts = message.get("part"), message.get("parts")
        if not isinstance(part, int) or not isinstance(parts, int) or not 0 <= part < parts:
            self._give_up()
            raise UploadRefused("the upload was cut into pieces that don't fit together: try again")
        if part == 0:
            self._begin(str(message.get("name", "")), parts, str(message.get("purpose", "")))
            if self._current is not None:
                self._current.partner = _label(str(message.get("partner", "")))
                self._current.more = message.get("more") is True
        current = self._current
        if current is None or part != current.received or parts != current.parts:
            self._give_up()
            raise UploadRefused("a piece of the upload is missing: try again")
        try:
            self._append(current, _decode(message.get("bytes")))
        except UploadRefused:
            self._give_up()
            raise
        current.received += 1
        if current.received < current.parts:
            return None
        self._current = None
        try:
            self._arriving(current.path).rename(current.path)
        except OSError as error:
            self._quota.give_back(current.size_bytes)
            raise UploadRefused(
                f"{current.label!r} could not be written: {error.strerror}"
            ) from error
        self._kept[current.path] = current.size_bytes
        return current

    def pair(self, layers: Path, weights: Path) -> None:
        """Puts a copy of a model's layers beside their weights, under the name of these.

        Raises:
            UploadRefused: where there is no room for it.
        """
        try:
            content = layers.read_bytes()
        except OSError as error:
            raise UploadRefused(f"{layers.name!r} cannot be read: {error.strerror}") from error
        beside = weights.with_suffix(layers.suffix)
        copy = Upload(layers.name, beside, parts=1)
        try:
            self._arriving(beside).write_bytes(b"")
            self._append(copy, content)
            self._arriving(beside).rename(beside)
        except UploadRefused:
            self._arriving(beside).unlink(missing_ok=True)
            raise
        except OSError as error:
            raise UploadRefused(
                f"{layers.name!r} could not be written: {error.strerror}"
            ) from error
        self._kept[beside] = copy.size_bytes

    def remove(self, path: Path) -> None:
        """Deletes a file that arrived whole, with the other file of the same model; what is none
        of them stays."""
        if path not in self._kept:
            return
        for file in [file for file in self._kept if file.with_suffix("") == path.with_suffix("")]:
            self._quota.give_back(self._kept.pop(file))
            file.unlink(missing_ok=True)

    def close(self, keep: Collection[Path] = ()) -> None:
        """The page is gone: deletes all files but those to keep, with the other files of the same
        models, and a folder that is empty."""
        self._give_up()
        models = {path.with_suffix("") for path in keep}
        for path in list(self._kept):
            if path.with_suffix("") in models:
                self._quota.give_back(self._kept.pop(path))
            else:
                self.remove(path)
        with contextlib.suppress(OSError):  # something is kept in it, or it was never made
            self._folder.rmdir()

    def _arriving(self, path: Path) -> Path:
        return path.with_name(path.name + ON_ITS_WAY)

    def _append(self, current: Upload, data: bytes) -> None:
        label = current.label
        if current.size_bytes + len(data) > self._limit_bytes:
            raise UploadRefused(too_large(label, self._limit_bytes))
        if sum(self._kept.values()) + current.size_bytes + len(data) > self._page_limit_bytes:
            raise UploadRefused(
                f"{label!r} does not fit: the files of one page may take "
                f"{self._page_limit_bytes // MIB} MiB; close one that you opened before"
            )
        if not self._quota.take(len(data)):
            raise UploadRefused(
                f"{label!r} does not fit: the files of all pages may take "
                f"{self._quota.limit_bytes // MIB} MiB; close some, or start the explorer with "
                "the file's path"
            )
        current.size_bytes += len(data)
        try:
            if shutil.disk_usage(self._folder).free < FREE_BYTES + len(data):
                raise UploadRefused(f"{label!r} does not fit: the disk is nearly full")
            with self._arriving(current.path).open("ab") as file:
                file.write(data)
        except OSError as error:
            raise UploadRefused(f"{label!r} could not be written: {error.strerror}") from error

    def _begin(self, name: str, parts: int, purpose: str) -> None:
        self._give_up()
        file_name = PurePosixPath(name.replace("\\", "/")).name
        label = _label(name) or "model"
        suffix = PurePosixPath(file_name).suffix.lower()  # of the whole name, however long
        what, suffixes = {
            VALUES: ("values or labels", DATA_SUFFIXES),
            EDIT: ("edited IR", (EDIT_SUFFIX,)),
            SWEEP: ("a sweep of machines", (SWEEP_SUFFIX,)),
        }.get(purpose, ("a model or a saved trace", offered_suffixes()))
        if suffix not in suffixes:
            raise UploadRefused(
                f"{label!r} is nothing that can be read here: expected {what}, "
                f"{' or '.join(suffixes)}"
            )
        self._count += 1
        path = self._folder / f"upload_{self._count}{suffix}"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._arriving(path).write_bytes(b"")
        except OSError as error:
            raise UploadRefused(f"{label!r} could not be written: {error.strerror}") from error
        self._current = Upload(label, path, parts, purpose=purpose if purpose in PURPOSES else "")

    def _give_up(self) -> None:
        """What is on its way does not arrive."""
        current, self._current = self._current, None
        if current is not None:
            self._quota.give_back(current.size_bytes)
            self._arriving(current.path).unlink(missing_ok=True)


def _label(name: str) -> str:
    """A file's name, without a path and not endless."""
    return PurePosixPath(name.replace("\\", "/")).name[:MAX_LABEL]


def too_large(label: str, limit_bytes: int) -> str:
    return (
        f"{label[:MAX_LABEL]!r} is larger than {limit_bytes // MIB} MiB, the most that a page may "
        "send: start the explorer with its path instead"
    )


def _decode(text: object) -> bytes:
    if not isinstance(text, str) or len(text) > 2 * PIECE_LIMIT_BYTES:
        raise UploadRefused("a piece of the upload is too large: try again")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UploadRefused("a piece of the upload is damaged: try again") from None
