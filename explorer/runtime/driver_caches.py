"""Caches of OpenCL drivers and of pyopencl, where their usual folder cannot be written.

    HOME=/nonexistent      -> POCL_CACHE_DIR=<a folder of this process>, PYOPENCL_NO_CACHE=1
    a full disk            -> the same
    a usual machine        -> nothing changes

PoCL lists no device where it cannot make its cache folder, and pyopencl fails at its first kernel.
Both read these variables once per process, so they are set before pyopencl is imported, and child
processes inherit them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from explorer.runtime.scratch import own_folder

POCL_VARIABLE = "POCL_CACHE_DIR"
PYOPENCL_VARIABLE = "PYOPENCL_NO_CACHE"

TRIAL_BYTES = 1 << 16
"""A file of this size shows a full disk; an empty one may still be made on it."""


def use_writable_caches() -> None:
    """Sets the variables in this process; to be called before pyopencl is imported."""
    os.environ.update(cache_variables(os.environ))


def cache_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that switch caches to a place that works; empty where the usual ones do."""
    variables = {}
    if PYOPENCL_VARIABLE not in environment and write_refusal(_base(environment) / "pytools"):
        variables[PYOPENCL_VARIABLE] = "1"
    if pocl_refusal(environment):
        variables[POCL_VARIABLE] = str(own_folder() / "pocl")
    return variables


def pocl_refusal(environment: Mapping[str, str]) -> str:
    """Why PoCL's cache folder cannot be written, with its name; empty where it can."""
    own = environment.get(POCL_VARIABLE, "")
    folder = Path(own) if own else _base(environment) / "pocl" / "kcache"
    reason = write_refusal(folder)
    return f"the cache folder {folder} cannot be written: {reason}" if reason else ""


def write_refusal(folder: Path) -> str:
    """Why files cannot be written into a folder, or into the place where it would be made."""
    place = folder.absolute()
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            written = file.write(bytes(TRIAL_BYTES))
    except OSError as error:
        return error.strerror or str(error)
    return "" if written == TRIAL_BYTES else "No space left on device"


def _base(environment: Mapping[str, str]) -> Path:
    """The folder of a person's caches, as both libraries look for it."""
    base = environment.get("XDG_CACHE_HOME", "")
    return Path(base) if base else Path(os.path.expanduser("~")) / ".cache"
