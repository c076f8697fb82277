"""Blocks of one tile as few transfers: those that lie at equal distances are rows of one.

    blocks at elements 0, 196, 392 of 49 numbers in a row    ->  one load of 3 rows, 196 apart

A transfer starts once, whatever it moves: its start and the latencies of memories are often longer
than its bytes. A block of several rows is one row where nothing lies between these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Block:
    """Rows of elements, as each block of a tile has them."""

    rows: int
    columns: int
    """Elements of a row that are moved."""
    stride: int
    """Elements between the beginnings of two rows in global memory."""
    step: int = 1
    """Elements between two of a row in global memory."""

    @property
    def size(self) -> int:
        """Elements that are moved."""
        return self.rows * self.columns

    @property
    def is_line(self) -> bool:
        """Whether its rows follow each other without a gap."""
        return self.rows == 1 or self.stride == self.columns * self.step


@dataclass(frozen=True, kw_only=True)
class Moved:
    """One transfer: of which block it begins with, and its shape."""

    index: int
    """Of its first block."""
    y_size: int
    x_size: int
    x_stride: int
    """Between two rows; 0 of one row, of which it means nothing."""


def transfers(
    firsts: Sequence[int], block: Block, limits: Mapping[str, int], is_apart: bool = False
) -> Iterator[Moved]:
    """Blocks that begin at these elements of global memory, in order. `limits`: what the fields of
    a transfer hold at most. `is_apart`: the scratchpad has something between two blocks, as
    padding, so that each is a transfer."""
    if is_apart or not block.is_line or block.size > limits["x_size"]:
        stride = block.stride if block.rows > 1 else 0
        for index in range(len(firsts)):
            yield Moved(index=index, y_size=block.rows, x_size=block.columns, x_stride=stride)
        return
    index = 0
    while index < len(firsts):
        count, stride = _run(firsts, index, limits)
        yield Moved(index=index, y_size=count, x_size=block.size, x_stride=stride)
        index += count


def _run(firsts: Sequence[int], index: int, limits: Mapping[str, int]) -> tuple[int, int]:
    """How many blocks from one on lie at equal distances, and the distance."""
    if index + 1 == len(firsts):
        return 1, 0
    stride = firsts[index + 1] - firsts[index]
    if not 0 < stride <= limits["x_stride"]:
        return 1, 0
    end = index + 2
    while end < len(firsts) and firsts[end] - firsts[end - 1] == stride:
        end += 1
    return min(end - index, limits["y_size"]), stride
