"""Memory that the parts of one device have as their arena in turn.

    arena = SharedArena(4096)      main_cpu takes 4,096 bytes, main_cpu_2 takes 1,024 of the same

A device runs one part at a time, and inputs and outputs are copied, so that nothing in the arena
outlives a call. What a part finds there is what another one has left.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from explorer.results.program import HOST, Program
from explorer.runtime.native.isolation import shared_file
from explorer.runtime.native.worker import aligned_memory

if TYPE_CHECKING:
    import mmap

T = TypeVar("T")


class SharedArena:
    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._kept: dict[Hashable, object] = {}

    @cached_property
    def memory(self) -> mmap.mmap:
        """Of programs in this process; zeroed at first."""
        return aligned_memory(self.size_bytes)

    @cached_property
    def descriptor(self) -> int:
        """A file without a name that processes of several parts map."""
        descriptor = shared_file(max(self.size_bytes, 1))
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What a driver made for the first part that needs it, and all others use."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value]


def shared_arenas(parts: Mapping[str, Program]) -> dict[str, SharedArena]:
    """One by device, as large as the largest of its parts needs; `parts`: programs by function."""
    sizes: dict[str, list[int]] = {}
    for program in parts.values():
        if program.target != HOST:
            sizes.setdefault(program.target, []).append(program.arena_bytes)
    return {device: SharedArena(max(own)) for device, own in sizes.items() if len(own) > 1}
