"""Compiling without Python's cyclic garbage collector.

A compilation makes some hundred thousand objects, nearly all of which stay: snapshots, events,
kernels. The collector walks all of them again and again, which takes a quarter of the time, and
finds nothing. Nor are they walked when it is turned on again: they count as old from then on, and
old objects are looked at when there are a quarter more of them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """No cyclic garbage collection inside, unless somebody turned it on again there."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:  # else somebody keeps objects apart for good
                gc.freeze()
                gc.unfreeze()  # into the oldest generation, without looking at one of them
            gc.enable()
