"""What a calibration that was killed had seen: a file beside the table, which the next one reads.

    state = State(Path("net.table.unfinished"), key)    key: digests of model and data
    first, histograms = state.read(tensors)            0 and empty ones where there is nothing
    state.keep(120, histograms)                        at most every few seconds
    state.remove()

Histograms are added up example by example, in one order: what goes on from a state is equal to what
was never interrupted. A state of other data or of another model, or a damaged one, is begun anew.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np

from explorer.errors import InputError, ModelError
from explorer.files import reading_file, sealed, unsealed, write_whole
from explorer.quantization.histogram import SIDE, Histogram

SUFFIX = ".unfinished"
MAGIC = b"explorer calibration 1\n"
MAX_BYTES = 1 << 30
SECONDS = 5.0
"""Between two writings: a state takes 128 KiB per tensor."""
NUMBERS = tuple(field.name for field in fields(Histogram) if field.name != "counts")
INTEGERS = ("count", "zeros", "not_finite")

Histograms = Mapping[str, Histogram]


class State:
    """What was seen, in a file; a path of None keeps it nowhere."""

    def __init__(self, path: Path | None, key: str, seconds: float = SECONDS):
        self.path, self.key = path, key
        self._seconds, self._written = seconds, time.monotonic()

    def read(self, tensors: Sequence[str]) -> tuple[int, dict[str, Histogram]]:
        """How many examples were seen, and what of each tensor."""
        fresh = 0, {tensor: Histogram() for tensor in tensors}
        if self.path is None or not self.path.is_file():
            return fresh
        with suppress(InputError, ModelError), reading_file(self.path, "state"):
            if self.path.stat().st_size > MAX_BYTES:
                return fresh
            body = unsealed(MAGIC, self.path.read_bytes(), "state of a calibration")
            with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
                if str(arrays["key"]) != self.key or arrays["tensors"].tolist() != list(tensors):
                    return fresh
                rows = zip(tensors, arrays["counts"], arrays["numbers"], strict=True)
                return int(arrays["seen"]), {t: _histogram(c, n) for t, c, n in rows}
        return fresh

    def keep(self, seen: int, histograms: Histograms) -> None:
        """Writes what was seen, unless that was done just now. OSError where it cannot."""
        now = time.monotonic()
        if self.path is None or now - self._written < self._seconds:
            return
        content = io.BytesIO()
        np.savez(
            content,
            key=np.array(self.key),
            seen=np.array(seen),
            tensors=np.array(list(histograms), dtype=str),
            counts=np.stack([h.counts for h in histograms.values()]),
            numbers=np.array(
                [[float(getattr(h, name)) for name in NUMBERS] for h in histograms.values()]
            ),
        )
        write_whole(self.path, sealed(MAGIC, content.getvalue()), waits=False)
        self._written = now

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _histogram(counts: np.ndarray, numbers: np.ndarray) -> Histogram:
    if counts.shape != (2 * SIDE,):
        raise ValueError(f"{counts.size} counts; {2 * SIDE} expected")
    values = dict(zip(NUMBERS, numbers.tolist(), strict=True))
    whole = {name: int(values.pop(name)) for name in INTEGERS}
    return Histogram(counts=counts.astype(np.int64), **values, **whole)
