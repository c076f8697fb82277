"""Packed weights in files of their own, named by the digest of their bytes.

    digest, sums = write_weights(folder, array)        folder/DIGEST.weights
    weights = map_weights(path, sums, size_bytes)      MappedWeights, every byte of it tested

Programs of one model for other sizes share them. They are memory-mapped: nothing is copied, and
processes that run the same model share the memory.

A wrong weight is a wrong number, so each start reads all bytes. The digest that is their name
would take 0.06 s per 100 MB; what a start compares are sums, 0.01 s: of the 64-bit words of every
block of 32 KiB, modulo 2^64. They differ whenever one word of a block differs, and miss other
random damage once in 2^64 times. They guard against damage and not against people: the folder is
its owner's, and what was shipped is compared by its digest, as `explorer cache verify` does.
"""

from __future__ import annotations

import mmap
import os
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from explorer.files import write_whole
from explorer.runtime.cache.digests import digest_of_array
from explorer.runtime.cache.keys import digest_of

SUFFIX = ".weights"
BLOCK_WORDS = 4096
WORD_BYTES = 8


class DamagedWeights(Exception):
    """The file is not what was written; the text says how."""


@dataclass(frozen=True, eq=False)
class MappedWeights:
    """Weights that lie in a file; another process may map the same."""

    array: np.ndarray
    """uint8, read-only, at the beginning of a page."""
    descriptor: int
    """Of the open file; closed with this object."""


def sums_of(array: np.ndarray) -> str:
    """A digest of the sums of all blocks of a dense array, and of its size."""
    content = array.reshape(-1).view(np.uint8)
    whole = content.size // (BLOCK_WORDS * WORD_BYTES) * BLOCK_WORDS * WORD_BYTES
    blocks = content[:whole].view("<u8").reshape(-1, BLOCK_WORDS)
    sums = np.add.reduce(blocks, axis=1, dtype=np.uint64)
    rest = content[whole:].tobytes()  # less than a block, as it is
    return digest_of(content.size.to_bytes(8, "little") + sums.tobytes() + rest)


def write_weights(folder: Path, array: np.ndarray) -> tuple[str, str]:
    """Keeps the bytes of a dense array; their digest and sums. OSError where that fails."""
    digest = digest_of_array(array)
    path = weights_path(folder, digest)
    try:
        is_there = path.stat().st_size == array.nbytes
    except OSError:
        is_there = False
    if is_there:
        os.utime(path)
    else:
        # Without waiting for the disk: what a crash leaves behind does not fit its digest.
        write_whole(path, array.reshape(-1).view(np.uint8).data, waits=False)
    return digest, sums_of(array)


def weights_path(folder: Path, digest: str) -> Path:
    return folder / (digest + SUFFIX)


def map_weights(path: Path, sums: str, size_bytes: int) -> MappedWeights:
    """Raises `DamagedWeights`, or OSError where the file cannot be read."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        found = os.fstat(descriptor).st_size
        if found != size_bytes:
            raise DamagedWeights(f"they have {found} bytes instead of {size_bytes}")
        mapped = mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ)
        array = np.frombuffer(mapped, np.uint8)
        if sums_of(array) != sums:
            raise DamagedWeights("their sums are other ones: bytes are changed")
    except BaseException:
        os.close(descriptor)
        raise
    weights = MappedWeights(array, descriptor)
    weakref.finalize(weights, os.close, descriptor)
    return weights
