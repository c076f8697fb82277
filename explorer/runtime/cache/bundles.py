"""Compiled programs in one file, to ship them: a ZIP archive of entries.

    DIGEST.program           an entry
    MODEL-ASKED-REST.kept    a finished program, which starts without a compiler and its passes
    DIGEST.weights           its weights, as they lie in memory

    Path("digits.programs").write_bytes(bundle_of(entries, keeps_source=False))
    ProgramCache(None, shipped=[Path("digits.programs")])

Nothing in it is trusted: the reader tries every binary in a child process first.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from explorer.results.runs.saved_program import SavedProgram
from explorer.runtime.cache.entries import SUFFIX, Entry
from explorer.runtime.cache.saved_program_files import name_of, to_bytes
from explorer.runtime.cache.weights import SUFFIX as WEIGHTS_SUFFIX

EPOCH = (1980, 1, 1, 0, 0, 0)
"""ZIP's first moment: equal programs make equal bundles."""


@dataclass(frozen=True, eq=False)
class ShippedProgram:
    """A finished program with its weights."""

    kept: SavedProgram
    weights: np.ndarray


def bundle_of(
    entries: Iterable[Entry],
    keeps_source: bool = True,
    finished: Iterable[ShippedProgram] = (),
) -> bytes:
    """The archive. Without sources nobody reads the kernels in it, nor the model's name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in sorted(entries, key=lambda entry: entry.digest):
            # Headers are this machine's: whoever gets the bundle has none of them, and needs none.
            shipped = replace(entry, headers={}, is_foreign=True)
            if not keeps_source:
                shipped = replace(shipped, source="", name="")
            archive.writestr(zipfile.ZipInfo(entry.digest + SUFFIX, EPOCH), shipped.to_bytes())
        for program in finished:
            kept = shipped_form(program.kept, keeps_source)
            place = zipfile.ZipInfo(name_of(kept), EPOCH)
            archive.writestr(place, to_bytes(kept), zipfile.ZIP_DEFLATED)
            if kept.weights:
                place = zipfile.ZipInfo(kept.weights + WEIGHTS_SUFFIX, EPOCH)
                content = program.weights.reshape(-1).view(np.uint8).data
                # Numbers hardly get smaller, and unpacking them would take longer than reading.
                archive.writestr(place, content, zipfile.ZIP_STORED)
    return buffer.getvalue()


def shipped_form(kept: SavedProgram, keeps_source: bool) -> SavedProgram:
    """Without what is this machine's; without sources also without the model's own names."""
    kept = replace(kept, path="", made_at="", compile_seconds=0.0)
    if keeps_source:
        return kept
    launches = tuple(replace(launch, sources=()) for launch in kept.program.launches)
    program = replace(kept.program, launches=launches)
    return replace(kept, model=replace(kept.model, name=""), program=program)
