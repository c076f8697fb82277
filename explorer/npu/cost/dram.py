"""What a transfer takes of a memory with bursts and rows, from the shape of the transfer.

    opened(Pieces(size=40, outer=3, outer_step=96), 64)        1 + 2 + 1

A burst or a row that the piece before has reached is not opened again. Rows are closed when a
transfer ends, so that what it takes does not depend on others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from explorer.targets.npu.instructions import Load, Transfer
from explorer.targets.npu.machine import Region


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Bytes that lie side by side, again and again."""

    start: int = 0
    """In the memory."""
    size: int
    inner: int = 1
    """Pieces of a row."""
    inner_step: int = 0
    outer: int = 1
    """Rows."""
    outer_step: int = 0


def moved_bytes(op: Transfer, element_bytes: int, region: Region) -> int:
    """What crosses to or from the memory: whole bursts."""
    if region.burst_bytes is None:
        return op.y_size * op.x_size * element_bytes
    return opened(_pieces(op, element_bytes, region), region.burst_bytes) * region.burst_bytes


def row_cycles(op: Transfer, element_bytes: int, region: Region) -> int:
    """What is waited for until rows are open."""
    if region.row_bytes is None or not region.row_cycles:
        return 0
    return opened(_pieces(op, element_bytes, region), region.row_bytes) * region.row_cycles


def _pieces(op: Transfer, element_bytes: int, region: Region) -> Pieces:
    start = op.global_address * element_bytes - region.start_bytes
    if isinstance(op, Load) and op.coded_bytes:
        return Pieces(start=start, size=op.coded_bytes)
    stride = op.x_stride * element_bytes
    if op.x_step == 1:
        size = op.x_size * element_bytes
        return Pieces(start=start, size=size, outer=op.y_size, outer_step=stride)
    return Pieces(
        start=start, size=element_bytes, inner=op.x_size, inner_step=op.x_step * element_bytes,
        outer=op.y_size, outer_step=stride,
    )  # fmt: skip


def opened(pieces: Pieces, unit: int) -> int:
    """How many units of so many bytes are opened one after the other."""
    return _opened(replace(pieces, start=pieces.start % unit), unit)


@lru_cache(maxsize=1 << 14)
def _opened(pieces: Pieces, unit: int) -> int:
    count, last = 0, -1
    for row in range(pieces.outer):
        at = pieces.start + row * pieces.outer_step
        for _ in range(pieces.inner):
            first, end = at // unit, (at + pieces.size - 1) // unit
            count += end - first + (first != last)
            at, last = at + pieces.inner_step, end
    return count
