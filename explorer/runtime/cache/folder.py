"""Where compiled programs are kept: a folder that belongs to one person.

    EXPLORER_CACHE=/some/folder      there
    EXPLORER_CACHE=off               nowhere: every process compiles
    (not set)                        $XDG_CACHE_HOME/explorer/programs, or ~/.cache/...

A shared library from the cache is loaded and run. So a folder that others may write is refused,
and each file in it is looked at, too (files.py): the folder may have been open to others before.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path

from explorer.errors import InputError
from explorer.runtime.cache.store import LIMIT_BYTES, ProgramCache

VARIABLE = "EXPLORER_CACHE"
OFF = "off"

_caches: dict[str, ProgramCache] = {}
_lock = threading.Lock()


def cache_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """The folder's path, made or not; None when the cache is off. InputError where it has none."""
    environment = os.environ if environment is None else environment
    wanted = environment.get(VARIABLE, "")
    if wanted.lower() == OFF:
        return None
    try:
        if wanted:
            return Path(wanted).expanduser().absolute()
        base = environment.get("XDG_CACHE_HOME", "")
        root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
        return root / "explorer" / "programs"
    except RuntimeError as error:  # `~nobody/cache`, or a person without a home
        raise InputError(
            f"the program cache has no place: {error}", hint=f"set {VARIABLE} to a folder, or off"
        ) from error


def default_cache() -> ProgramCache:
    """The cache that the environment asks for; one object per folder and process.

    A folder that cannot be used is told once, and the process remembers its own programs only.
    """
    try:
        folder, problem = cache_folder(), ""
    except InputError as error:
        folder, problem = None, error.message
    name = problem or str(folder)
    with _lock:
        if name not in _caches:
            _caches[name] = open_cache(folder)
            if problem:
                _caches[name].complain(problem)
        return _caches[name]


def open_cache(folder: Path | None, limit_bytes: int = LIMIT_BYTES) -> ProgramCache:
    """A cache in a folder, which is made; of this process only, and told, where it cannot be."""
    if folder is None:
        return ProgramCache(None, limit_bytes)
    try:
        refusal = make_private(folder)
    except OSError as error:
        refusal = f"{error.strerror}"
    if not refusal:
        return ProgramCache(folder, limit_bytes)
    cache = ProgramCache(None, limit_bytes)
    cache.complain(f"the program cache {folder} is not used: {refusal}")
    return cache


def make_private(folder: Path) -> str:
    """Makes a folder for its owner alone; why it is not safe to use, or nothing."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name != "posix":
        return ""
    state = folder.stat()
    if state.st_uid != os.geteuid():
        return "it belongs to another user"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it; remove it, and a new one is made for you alone"
    for parent in folder.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"others may replace it: they may write to {parent}"
    return ""


def required_folder(path: Path | None) -> ProgramCache:
    """The cache in a folder that was named, or the default one. InputError where it is off."""
    folder = path if path is not None else cache_folder()
    if folder is None:
        raise InputError(
            f"the program cache is off: {VARIABLE}={OFF}", hint=f"unset {VARIABLE}, or use --folder"
        )
    if not folder.is_dir():
        return ProgramCache(None)
    if refusal := make_private(folder):
        raise InputError(f"the program cache cannot be used: {refusal}", file=str(folder))
    return ProgramCache(folder)
