"""Saved measurements of processors, in the user's cache folder: one small JSON file for each.

    ~/.cache/explorer/cores/3f0c9a6e2d5b.json     of an `AMD EPYC 9R14` with vectors of 8 floats

Without one, a core is what its family is known for. A file that does not fit is none.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path

from explorer.errors import InputError
from explorer.files import write_file
from explorer.processor import processor_name, recognized_by
from explorer.results.encoding import from_json, to_json
from explorer.runtime.cache.folder import cache_folder, make_private
from explorer.runtime.core_at_hand import core_at_hand, lanes_at_hand
from explorer.runtime.measuring.figures import Measurement, measured_core
from explorer.targets.core_families import MeasuredCore

VERSION = 1
"""Of what is measured; what another one measured is not believed."""
FOLDER = "cores"
MAX_BYTES = 65536


def kept_file() -> Path | None:
    """Of this processor, there or not; None where nothing is kept."""
    try:
        folder = cache_folder()
    except InputError:
        return None
    if folder is None:
        return None
    emulated = core_at_hand()
    words = [processor_name(), recognized_by(), str(lanes_at_hand()), str(VERSION)]
    words += [] if emulated is None else [emulated.name]
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()
    return folder.parent / FOLDER / f"{digest[:12]}.json"


def keep(measurement: Measurement) -> Path:
    """Writes the measurement of this processor; InputError where there is no place for it."""
    path = kept_file()
    if path is None:
        raise InputError(
            "measurements have no place: the program cache is off", hint="unset EXPLORER_CACHE"
        )
    refusal = make_private(path.parent)
    if refusal:
        raise InputError(f"measurements cannot be kept: {refusal}", file=str(path.parent))
    record = {"processor": processor_name(), "measurement": to_json(measurement)}
    write_file(path, json.dumps(record, indent=1) + "\n")
    return path


def saved_measurement() -> Measurement | None:
    """What was measured of this processor; None where nothing was."""
    path = kept_file()
    try:
        changed_ns = path.stat().st_mtime_ns if path is not None else 0
    except OSError:
        return None
    return None if path is None else _read(path, changed_ns)


def measured_core_at_hand() -> MeasuredCore | None:
    """The same as what goes before the numbers of its family."""
    found = saved_measurement()
    return None if found is None else measured_core(found)


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int) -> Measurement | None:
    """`changed_ns`: when it was written, so that another measurement is read."""
    try:
        if os.stat(path).st_size > MAX_BYTES:
            return None
        data = json.loads(path.read_text(encoding="utf-8"))
        return from_json(Measurement, data["measurement"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
