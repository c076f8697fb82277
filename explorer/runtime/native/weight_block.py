"""One block of weights for several programs of a model, which grows and moves nothing.

    block = WeightBlock()
    block.begin()                a weight of 4,096 bytes at 0, another one at 4,096
    block.begin()                the first weight again: at 0; one in another layout: at 8,192

The code of a program has the offsets of its weights. What an earlier program reads, bit by bit the
same, a later one reads at the same offset. For processes of their own the block is a file without a
name, which all of them map. For programs in this process it is memory in large pages: from a file
products of one row take 1.3 times as long (50 MB, AMD EPYC).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import weakref
from collections.abc import Callable

import numpy as np

from explorer.runtime.cache.weights import MappedWeights
from explorer.runtime.native.isolation import shared_file
from explorer.runtime.native.worker import ALIGNMENT_BYTES

Content = Callable[[], np.ndarray]


ROOM_BYTES = 1 << 26
"""Of memory that is reserved after the first program's weights, and takes no space until used."""


class WeightBlock:
    def __init__(self, is_file: bool = True) -> None:
        """is_file: for programs in processes of their own."""
        self.lock = threading.RLock()
        """Held while a program is built that reads the block."""
        self.shared_bytes = 0
        """Of weights of the last program that earlier ones have."""
        self.new_bytes = 0
        """Of the other weights of the last program."""
        self._end = 0
        self._is_first = True
        self._descriptor = shared_file(ALIGNMENT_BYTES) if is_file else None
        if self._descriptor is not None:
            weakref.finalize(self, os.close, self._descriptor)
        self._memory = mmap.mmap(-1, ALIGNMENT_BYTES)
        self._content = np.zeros(ALIGNMENT_BYTES, np.uint8)
        self._places: dict[int, list[int]] = {}
        """Offsets of the weights that are in the block, by their size."""
        self._waiting: list[tuple[int, int, Content]] = []
        """Offset, size and content of those that have a place and are not written yet."""

    @property
    def size_bytes(self) -> int:
        return max(self._end, ALIGNMENT_BYTES)

    def begin(self) -> None:
        """The weights that follow are those of one more program."""
        self._is_first = self._end == 0
        self.shared_bytes = self.new_bytes = 0

    def place(self, size_bytes: int, content: Content) -> int:
        """The offset of a weight. The content of the first program's is made when it is needed."""
        found = None if self._is_first else self._find(size_bytes, content)
        if found is not None:
            self.shared_bytes += size_bytes
            return found
        self.new_bytes += size_bytes
        offset = self._end
        self._waiting.append((offset, size_bytes, content))
        self._end += -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return offset

    def adopt(self, array: np.ndarray) -> bool:
        """Takes the block of a program that was built in one like this: whether one of the two
        begins with the other, so that both programs can read the longer one."""
        with self.lock:
            self._fill()
            common = min(array.nbytes, self._content.nbytes)
            if not self._end or not np.array_equal(array[:common], self._content[:common]):
                return False
            self.begin()
            if array.nbytes > common:
                rest = array[common:]
                self._waiting.append((common, rest.nbytes, lambda: rest))
                self._end = array.nbytes
                self._fill()
            self.shared_bytes, self.new_bytes = common, array.nbytes - common
            return True

    def first(self, size_bytes: int) -> np.ndarray:
        """The first bytes of the block, constant: they stay as they are when it grows."""
        with self.lock:
            self._fill()
            return self._content[:size_bytes]

    def mapped(self, size_bytes: int) -> MappedWeights | np.ndarray:
        """The same, for a process of its own where it is a file."""
        array = self.first(size_bytes)
        if self._descriptor is None:
            return array
        descriptor = os.dup(self._descriptor)
        weights = MappedWeights(array, descriptor)
        weakref.finalize(weights, os.close, descriptor)
        return weights

    def _find(self, size_bytes: int, content: Content) -> int | None:
        self._fill()
        places = self._places.get(size_bytes, ())
        if not places:
            return None
        wanted = _bytes_of(content())
        held = ((offset, self._content[offset : offset + size_bytes]) for offset in places)
        return next((offset for offset, own in held if np.array_equal(own, wanted)), None)

    def _fill(self) -> None:
        """Writes what has a place and is not written yet."""
        if not self._waiting:
            return
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, self.size_bytes)
            self._memory = mmap.mmap(self._descriptor, self.size_bytes)
        elif self.size_bytes > len(self._memory):
            self._memory = large_pages(2 * self.size_bytes + ROOM_BYTES)
            self._memory[: self._content.nbytes] = self._content.data
        for offset, size, content in self._waiting:
            self._memory[offset : offset + size] = _bytes_of(content()).data
            self._places.setdefault(size, []).append(offset)
        self._waiting.clear()
        self._content = np.frombuffer(self._memory, np.uint8)[: self.size_bytes]
        self._content.flags.writeable = False


def large_pages(size_bytes: int) -> mmap.mmap:
    """Zeros that take space when they are written, in large pages where the system has them."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, size_bytes, flags=flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
