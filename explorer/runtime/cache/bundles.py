"""Compiled programs in one file, to ship them: a ZIP archive of entries.

    write_bundle(Path("digits.programs"), entries, keeps_source=False)
    ProgramCache(None, shipped=[Path("digits.programs")])

Nothing in it is trusted: the reader tries every binary in a child process first.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import replace

from explorer.runtime.cache.entries import SUFFIX, Entry

EPOCH = (1980, 1, 1, 0, 0, 0)
"""ZIP's first moment: equal programs make equal bundles."""


def bundle_of(entries: Iterable[Entry], keeps_source: bool = True) -> bytes:
    """The archive. Without sources nobody reads the kernels in it, nor the model's name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in sorted(entries, key=lambda entry: entry.digest):
            # Headers are this machine's: whoever gets the bundle has none of them, and needs none.
            shipped = replace(entry, headers={}, is_foreign=True)
            if not keeps_source:
                shipped = replace(shipped, source="", name="")
            archive.writestr(zipfile.ZipInfo(entry.digest + SUFFIX, EPOCH), shipped.to_bytes())
    return buffer.getvalue()
