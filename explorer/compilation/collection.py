"""Compiling without Python's cyclic garbage collector.

A compilation makes some hundred thousand objects, nearly all of which stay: snapshots, events,
kernels. The collector walks all of them again and again, which takes a quarter of the time, and
finds nothing. Nor are they walked when it is turned on again: they count as old from then on.

Nor would the collector ever find out that they are gone. It looks at old objects when a quarter
more of them have grown old under its eyes, and these never did. IR is full of cycles, so that a
process that compiles again and again would keep every program. So the collector is sent once
before a compilation when `GROWTH_BLOCKS` more blocks of memory are in use than after it was sent
the last time.

When the process ends, the interpreter looks for garbage three times more and takes all that is
left apart, object by object: half a second to one after resnet50. The system takes the memory
back at once, so that objects which are still there then are set apart. What they have written is
flushed before; Python promises no more of objects that exist at the end.
"""

from __future__ import annotations

import atexit
import gc
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

GROWTH_BLOCKS = 2_000_000
"""About as many as eight compilations of resnet50, or sixty of a network of ten layers, leave.
Looking at them takes half a second."""


class _Collected:
    """How many blocks were in use when the collector had last looked at all objects."""

    blocks: int | None = None

    def again_if_grown(self) -> None:
        blocks = sys.getallocatedblocks()
        if self.blocks is None:
            self.blocks = blocks
        elif blocks > self.blocks + GROWTH_BLOCKS:
            gc.collect()
            self.blocks = sys.getallocatedblocks()


_collected = _Collected()


@contextmanager
def paused_collection() -> Iterator[None]:
    """No cyclic garbage collection inside, unless somebody turned it on again there."""
    _set_apart_at_exit()
    was_enabled = gc.isenabled()
    if was_enabled:
        _collected.again_if_grown()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:  # else somebody keeps objects apart for good
                gc.freeze()
                gc.unfreeze()  # into the oldest generation, without looking at one of them
            gc.enable()


@cache
def _set_apart_at_exit() -> None:
    atexit.register(set_apart)


def set_apart() -> None:
    """Keeps everything from the collector, after open files were flushed."""
    files = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for found in gc.get_objects():
        if issubclass(type(found), files):  # isinstance would ask what a dead weak proxy stood for
            with suppress(OSError, ValueError):  # closed, or read only
                found.flush()
    gc.freeze()
