"""Workspaces: what a person opened, forked, named and found, in a file that outlives page and app.

    EXPLORER_WORKSPACES=/some/folder     there
    EXPLORER_WORKSPACES=off              nowhere: a page that is closed is forgotten
    (not set)                            $XDG_STATE_HOME/explorer/workspaces, or ~/.local/state/...

    workspaces = Workspaces(workspace_folder())
    workspace = workspaces.claim(name) or workspaces.newest(fits) or workspaces.new()
    workspace.saved                      SavedWorkspace, or None for a new one
    workspace.write_soon(state)          half a second later, and when it is closed

Files that the page sent lie beside it, in `workspace.files`, a folder that the page makes when
the first one arrives. All of them together stay below `MAX_FILES_BYTES`: those of the workspaces
that were written longest ago go first, and what was open of them is named when they are restored.

A file has one owner at a time, among all pages of all apps: a lock that dies with its process says
so. It is JSON under a seal (explorer/files.py): one that is damaged is set aside, and said.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from explorer.app.state.page_state import PageState
from explorer.app.state.saved import SavedWorkspace, saved_of
from explorer.errors import InputError
from explorer.files import damage_of, sealed, unsealed, write_whole
from explorer.results.encoding import from_json, to_json
from explorer.runtime.cache.files import read_private
from explorer.runtime.cache.folder import make_private

VARIABLE = "EXPLORER_WORKSPACES"
OFF = "off"
MAGIC = b"explorer workspace 1\n"
SUFFIX = ".workspace"
DAMAGED = ".damaged"
FILES = ".files"
"""Of the folder with what a page sent."""
MAX_FILES_BYTES = 2 << 30
"""Of all that pages sent and that is kept."""
MAX_BYTES = 64 << 20
MAX_WORKSPACES = 24
"""Of one person; the oldest goes when there are more."""
WRITE_SECONDS = 0.5
"""How long a change may wait for the next one."""


def workspace_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """The folder's path, made or not; None where nothing is kept. InputError without a home."""
    environment = os.environ if environment is None else environment
    wanted = environment.get(VARIABLE, "")
    if wanted.lower() == OFF:
        return None
    try:
        if wanted:
            return Path(wanted).expanduser().absolute()
        base = environment.get("XDG_STATE_HOME", "")
        root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError as error:  # `~nobody/state`, or a person without a home
        raise InputError(
            f"workspaces have no place: {error}", hint=f"set {VARIABLE} to a folder, or off"
        ) from error
    return root / "explorer" / "workspaces"


class Workspace:
    """One page's, until it is closed; nothing is written where it has no file."""

    def __init__(
        self,
        name: str,
        path: Path | None = None,
        lock: IO[str] | None = None,
        saved: SavedWorkspace | None = None,
        problem: str = "",
    ) -> None:
        self.name = name
        self.saved = saved
        self.problem = problem
        """What could not be restored, for the person."""
        self._path = path
        self._lock = lock
        self._latest: PageState | None = None
        self._timer: threading.Timer | None = None
        self._guard = threading.Lock()
        self._written = b""

    @property
    def files(self) -> Path | None:
        """The folder for what the page sends, made or not; None where nothing is kept."""
        return None if self._path is None else self._path.with_suffix(FILES)

    def write_soon(self, state: PageState) -> None:
        """The latest state of several in a row is written."""
        if self._path is None:
            return
        with self._guard:
            self._latest = state
            if self._timer is None:
                self._timer = threading.Timer(WRITE_SECONDS, self._write)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Writes what waits, and lets go of the file."""
        if self._timer is not None:
            self._timer.cancel()
        self._write()
        lock, self._lock, self._path = self._lock, None, None
        if lock is not None:
            lock.close()

    def _write(self) -> None:
        with self._guard:
            self._timer, state, self._latest = None, self._latest, None
            if state is None or self._path is None:
                return
            content = to_bytes(saved_of(state))
            if content == self._written:
                return
            # A disk that is full costs what was found since, and nothing that is on the screen.
            with contextlib.suppress(OSError):
                write_whole(self._path, content, waits=False)
                self._written = content


class Workspaces:
    """All of one person, in a folder that is theirs alone."""

    def __init__(self, folder: Path | None) -> None:
        self.problem = ""
        self._folder = folder
        if folder is None:
            return
        try:
            refusal = make_private(folder)
        except OSError as error:
            refusal = error.strerror or str(error)
        if refusal:
            self.problem = f"Nothing is kept beyond this page: {folder} is not used: {refusal}."
            self._folder = None

    def new(self) -> Workspace:
        """An empty one."""
        name = secrets.token_hex(8)
        if self._folder is None:
            return Workspace(name)
        self._remove_oldest()
        self.tidy()
        return Workspace(name, self._folder / f"{name}{SUFFIX}", self._locked(name))

    def claim(self, name: object) -> Workspace | None:
        """The one of that name; None where there is none, or where somebody has it."""
        if self._folder is None or not isinstance(name, str) or not name.isalnum():
            return None
        path = self._folder / f"{name}{SUFFIX}"
        if not path.is_file():
            return None
        lock = self._locked(name)
        if lock is None:
            return None
        try:
            return Workspace(name, path, lock, read_workspace(path))
        except (OSError, ValueError, RecursionError) as error:
            return Workspace(name, path, lock, problem=_set_aside(path, error))

    def newest(self, fits: Callable[[SavedWorkspace], bool]) -> Workspace | None:
        """The one that was written last, of those that fit and that nobody has."""
        for path in self._paths():
            found = self.claim(path.stem)
            if found is None:
                continue
            if found.problem or (found.saved is not None and fits(found.saved)):
                return found
            found.close()
        return None

    def tidy(self) -> None:
        """Files of pages that have ended stay within their bound, and only beside a workspace."""
        if self._folder is None:
            return
        total = 0
        for path in self._paths():
            files = path.with_suffix(FILES)
            total += _size_of(files)
            if total > MAX_FILES_BYTES and (lock := self._locked(path.stem)) is not None:
                with lock:
                    total -= _size_of(files)
                    shutil.rmtree(files, ignore_errors=True)
        for files in self._folder.glob(f"*{FILES}"):
            if not files.with_suffix(SUFFIX).exists():
                self._remove(files.stem)

    def clear(self) -> tuple[int, int]:
        """Removes all that no page has open: (how many workspaces, bytes of files with them)."""
        paths = self._paths()
        sizes = [_size_of(path.with_suffix(FILES)) for path in paths]
        gone = [size for path, size in zip(paths, sizes, strict=True) if self._remove(path.stem)]
        self.tidy()
        return len(gone), sum(gone)

    def _remove(self, name: str) -> bool:
        """A workspace with its files; False where somebody has it."""
        assert self._folder is not None
        lock = self._locked(name)
        if lock is None:
            return False
        with lock:
            (self._folder / f"{name}{SUFFIX}").unlink(missing_ok=True)
            shutil.rmtree(self._folder / f"{name}{FILES}", ignore_errors=True)
            (self._folder / f"{name}.lock").unlink(missing_ok=True)
        return True

    def _paths(self) -> list[Path]:
        """Of all files, the one that was written last first."""
        if self._folder is None:
            return []
        times: list[tuple[float, Path]] = []
        for path in self._folder.glob(f"*{SUFFIX}"):
            with contextlib.suppress(OSError):
                times.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(times, reverse=True)]

    def _locked(self, name: str) -> IO[str] | None:
        """The lock of that name, held; None where somebody else holds it."""
        assert self._folder is not None
        try:
            lock = (self._folder / f"{name}.lock").open("w")
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
        return lock

    def _remove_oldest(self) -> None:
        """Room for one more; those that somebody has stay."""
        for path in self._paths()[MAX_WORKSPACES - 1 :]:
            self._remove(path.stem)


def _size_of(folder: Path) -> int:
    """Bytes of the files in a folder; 0 where there is none."""
    size_bytes = 0
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            size_bytes += path.lstat().st_size
    return size_bytes


def to_bytes(saved: SavedWorkspace) -> bytes:
    body = json.dumps(to_json(saved), sort_keys=True, separators=(",", ":")).encode()
    return sealed(MAGIC, body)


def read_workspace(path: Path) -> SavedWorkspace:
    """What lies in a file; ValueError, OSError or RecursionError where that is damaged."""
    content = read_private(path, MAX_BYTES)
    if len(content) > MAX_BYTES:
        raise ValueError("it is larger than any workspace")
    return from_json(SavedWorkspace, json.loads(unsealed(MAGIC, content, "workspace")))


def _set_aside(path: Path, error: Exception) -> str:
    """Damage is moved out of the way, where a person may look at it; what to tell them."""
    aside = path.with_suffix(f"{SUFFIX}{DAMAGED}")
    told = f"What was open before could not be restored: {damage_of(error)}."
    try:
        path.replace(aside)
    except OSError:
        return told
    return f"{told} The file was set aside as {aside}."
