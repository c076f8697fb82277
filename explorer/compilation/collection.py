"""Compiling without Python's cyclic garbage collector.

A compilation makes some hundred thousand objects, nearly all of which stay: snapshots, events,
kernels. The collector walks all of them again and again, which takes a quarter of the time, and
finds nothing.
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
            gc.enable()
