"""Packed weights in files of their own, named by the digest of their bytes.

    digest, sums = write_weights(folder, array)        folder/DIGEST.weights
    weights = map_weights(path, sums, size_bytes)      MappedWeights, every byte of it tested

Programs of one model for other sizes share them. They are memory-mapped: nothing is copied, and
processes that run the same model share the memory.

A wrong weight is a wrong number, so each start reads all bytes. The digest that is their name
would take 0.04 s per 100 MB on two cores; what a start compares are the sums of `digests`, 0.02 s.
They guard against damage and not against people: the folder is its owner's, and what was shipped
is compared by its digest, as `explorer cache verify` does.
"""

from __future__ import annotations

import mmap
import os
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from explorer.files import write_whole
from explorer.runtime.cache.digests import digest_of_array, sums_of_array
from explorer.runtime.cache.files import open_private, trouble_with

SUFFIX = ".weights"


class DamagedWeights(Exception):
    """The file is not what was written; the text says how."""


@dataclass(frozen=True, eq=False)
class MappedWeights:
    """Weights that lie in a file; another process may map the same."""

    array: np.ndarray
    """uint8, read-only, at the beginning of a page."""
    descriptor: int
    """Of the open file; closed with this object."""


def write_weights(folder: Path, array: np.ndarray) -> tuple[str, str]:
    """Keeps the bytes of a dense array; their digest and sums. OSError where that fails."""
    digest = digest_of_array(array)
    path = weights_path(folder, digest)
    if _has_size(path, array.nbytes):
        os.utime(path)
    else:
        # Without waiting for the disk: what a crash leaves behind does not fit its digest.
        write_whole(path, array.reshape(-1).view(np.uint8).data, waits=False)
    return digest, sums_of_array(array)


def _has_size(path: Path, size_bytes: int) -> bool:
    """Whether there is a file of ours of that size."""
    try:
        state = path.lstat()
    except OSError:
        return False
    return state.st_size == size_bytes and not trouble_with(state)


def weights_path(folder: Path, digest: str) -> Path:
    return folder / (digest + SUFFIX)


def map_weights(path: Path, sums: str, size_bytes: int) -> MappedWeights:
    """Raises `DamagedWeights`, or OSError where the file cannot be read."""
    descriptor = open_private(path)
    try:
        found = os.fstat(descriptor).st_size
        if found != size_bytes:
            raise DamagedWeights(f"they have {found} bytes instead of {size_bytes}")
        mapped = mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ)
        array = np.frombuffer(mapped, np.uint8)
        if sums_of_array(array) != sums:
            raise DamagedWeights("their sums are other ones: bytes are changed or moved")
    except BaseException:
        os.close(descriptor)
        raise
    weights = MappedWeights(array, descriptor)
    weakref.finalize(weights, os.close, descriptor)
    return weights
