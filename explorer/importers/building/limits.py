"""Bounds of what a file may ask for: ranks that the passes can work with, sizes that fit in memory.

check_size((1 << 20, 1 << 20), 4, "input 'x'")      ModelError: ... this machine has ...
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from explorer.errors import ModelError

MAX_DIMENSIONS = 32
"""NumPy's arrays have 64 at most, and blocks, windows and broadcasts take more than the tensor."""
MAX_ELEMENTS = 2**48
"""Of one tensor: more than any machine holds, and few enough to count with."""


def machine_memory_bytes() -> int:
    """Physical memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_rank(rank: int, what: str, node: str = "") -> None:
    """ModelError for a tensor of more dimensions than the passes can work with."""
    if rank > MAX_DIMENSIONS:
        raise ModelError(
            f"{what} has {rank} dimensions; at most {MAX_DIMENSIONS} can be compiled",
            node=node,
            hint="the file may be damaged",
        )


def check_extent(shape: Sequence[int], item_bytes: int, what: str, node: str = "") -> None:
    """ModelError for a shape like 0 x 2^62, which takes no memory and yet is none of an array.

    NumPy multiplies the sizes that are not 0, and that product has to be a number of 64 bits.
    """
    if 0 in shape and math.prod(size for size in shape if size) * item_bytes >= 2**63:
        raise ModelError(
            f"{what} has shape {'x'.join(map(str, shape))}, which no array can have",
            node=node,
            hint="the file may be damaged",
        )


def check_size(shape: Sequence[int], item_bytes: int, what: str, node: str = "") -> None:
    """ModelError for a tensor that does not fit into this machine's memory."""
    size_bytes = math.prod(shape) * item_bytes
    limit_bytes = machine_memory_bytes()
    if size_bytes > limit_bytes:
        raise ModelError(
            f"{what} has shape {'x'.join(map(str, shape))}, which takes {size_bytes:,} bytes; "
            f"this machine has {limit_bytes:,}",
            node=node,
            hint="the file may be damaged; else use a machine with more memory",
        )
    check_extent(shape, item_bytes, what, node)
