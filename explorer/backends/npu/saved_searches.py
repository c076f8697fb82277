"""Tiles that full searches found, kept next to tuned schedules in the program cache's folder.

    kept = SavedSearches()
    kept.find(key, layer, machine)       what an earlier search found, or None
    kept.keep(key, found)

One file for each layer and machine, `DIGEST.tiles`: a seal over JSON. The name has all that a
search depends on: the layer without its numbers, the machine, and the code that tiles and predicts.
A damaged file is dropped with a warning; tiles out of a file are checked as those of a person.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from explorer.errors import CacheWarning, InputError
from explorer.files import sealed, unsealed, write_whole
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.program.compiling import tile_as
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.search.legal import require_legal
from explorer.npu.search.searching import Found, SearchRecord
from explorer.results.runs.counted import SearchPoint
from explorer.runtime.cache import default_cache
from explorer.runtime.cache.files import read_private
from explorer.runtime.cache.folder import cache_folder
from explorer.runtime.cache.keys import digest_of
from explorer.targets.npu.machine import Machine

MAGIC = b"explorer searched tiles 1\n"
SUFFIX = ".tiles"
MAX_FILE_BYTES = 1 << 18


class SavedSearches:
    """Those of the folder that the environment names; none where there is no folder."""

    def find(self, key: Hashable, layer: Layer, machine: Machine) -> Found | None:
        """What a search of an equal layer found."""
        path = self._path(key, machine)
        if path is None or not path.exists():
            return None
        try:
            body = unsealed(MAGIC, read_private(path, MAX_FILE_BYTES), "file of searched tiles")
            content = json.loads(body)
            record = _record(content["record"])
            choices = require_legal(layer, machine, content["choices"])
            tiled = tile_as(layer, machine, choices)
        except OSError as error:
            return _complain(f"searched tiles {path} cannot be read: {error.strerror}")
        except (ValueError, KeyError, TypeError, RecursionError, LayerError) as error:
            with contextlib.suppress(OSError):
                path.unlink()
            return _complain(f"the searched tiles {path.name} are dropped: {error}")
        return Found(tiled=tiled, record=replace(record, layer=layer.name))

    def keep(self, key: Hashable, machine: Machine, found: Found) -> None:
        """Of a search that ended by itself; others are not kept."""
        record = found.record
        path = self._path(key, machine, makes=True)
        if path is None or record is None or record.stopped == "it was interrupted":
            return
        content = {"choices": tiles_of(found.tiled), "record": asdict(record)}
        try:
            write_whole(path, sealed(MAGIC, json.dumps(content, sort_keys=True).encode() + b"\n"))
        except OSError as error:
            _complain(f"searched tiles cannot be kept in {path.parent}: {error.strerror}")

    def _path(self, key: Hashable, machine: Machine, makes: bool = False) -> Path | None:
        try:
            folder = default_cache().folder if makes else cache_folder()
        except InputError:
            return None
        if folder is None:
            return None
        text = repr((key, machine, generator_digest()))
        return folder / (digest_of(text.encode()) + SUFFIX)


def _record(content: Mapping[str, Any]) -> SearchRecord:
    """ValueError for what no search came to."""
    for name, kind in (("candidates", int), ("runs", int), ("cycles", int), ("bound", int),
                       ("seconds", float), ("layer", str), ("stopped", str)):  # fmt: skip
        if type(content[name]) is not kind:
            raise ValueError(f"{name} is {content[name]!r}")
    if content["effort"] != "full" or not 0 <= content["bound"] <= content["cycles"]:
        raise ValueError("its search is none of all tiles")
    return SearchRecord(**{**content, "points": tuple(map(_point, content["points"]))})


def _point(content: Mapping[str, Any]) -> SearchPoint:
    """ValueError or TypeError for what is none."""
    choices = tuple((str(name), value) for name, value in content["choices"])
    numbers = [content["cycles"], content["bound"], content["bytes"] or 0]
    if {type(number) for number in numbers} != {int} or min(numbers) < 0:
        raise ValueError(f"a point has {numbers}")
    if not {type(value) for _, value in choices} <= {int, str}:
        raise ValueError(f"a point has {choices}")
    return SearchPoint(**{**content, "choices": choices})


def _complain(text: str) -> None:
    warnings.warn(text, CacheWarning, stacklevel=4)


@cache
def generator_digest() -> str:
    """A short name of the code that tiles, writes and predicts."""
    package = Path(__file__).parents[2]
    folders = [package / "npu", package / "targets" / "npu"]
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return digest_of(b"".join(digest_of(path.read_bytes()).encode() for path in paths))[:16]
