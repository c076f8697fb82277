"""Measured transfers between the host and a device, kept in the user's cache folder.

keep_link(device, MeasuredLink(latency_seconds=9e-6, bytes_per_second=8e9, launch_seconds=4e-6))
saved_link(device)       None where this device was not measured with this driver
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

from explorer.errors import InputError
from explorer.files import write_file
from explorer.processor import processor_name
from explorer.results.encoding import from_json, to_json
from explorer.runtime.cache.folder import cache_folder, make_private
from explorer.runtime.devices import DeviceRecord

VERSION = 1
FOLDER = "links"
MAX_BYTES = 65536


@dataclass(frozen=True, kw_only=True)
class MeasuredLink:
    """Of a call with its arrays: half of what comes on top of the launches for each direction."""

    latency_seconds: float
    bytes_per_second: float
    launch_seconds: float
    """Of a program of one small kernel."""

    @property
    def is_sound(self) -> bool:
        numbers = (self.latency_seconds, self.bytes_per_second, self.launch_seconds)
        return all(math.isfinite(n) and n >= 0 for n in numbers) and self.bytes_per_second > 0


def link_file(device: DeviceRecord) -> Path | None:
    """Of a device with its driver, there or not; None where nothing is kept."""
    try:
        folder = cache_folder()
    except InputError:
        return None
    if folder is None:
        return None
    words = (device.kind, device.name, device.driver, device.version, processor_name(), VERSION)
    digest = hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()
    return folder.parent / FOLDER / f"{digest[:12]}.json"


def keep_link(device: DeviceRecord, link: MeasuredLink) -> Path:
    """Writes the measurement; InputError where there is no place for it."""
    path = link_file(device)
    if path is None:
        raise InputError(
            "measurements have no place: the program cache is off", hint="unset EXPLORER_CACHE"
        )
    refusal = make_private(path.parent)
    if refusal:
        raise InputError(f"measurements cannot be kept: {refusal}", file=str(path.parent))
    record = {"device": device.name, "driver": device.driver, "link": to_json(link)}
    write_file(path, json.dumps(record, indent=1) + "\n")
    return path


def saved_link(device: DeviceRecord | None) -> MeasuredLink | None:
    """What was measured; a file that does not fit is none."""
    path = None if device is None else link_file(device)
    if path is None:
        return None
    try:
        if os.stat(path).st_size > MAX_BYTES:
            return None
        data = json.loads(path.read_text(encoding="utf-8"))
        found = from_json(MeasuredLink, data["link"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.is_sound else None
