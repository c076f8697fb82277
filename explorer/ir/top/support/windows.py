"""Axes and sizes of windows that move over images."""

from __future__ import annotations

from explorer.ir.sizes.dimensions import window
from explorer.ir.types import Dim

SPATIAL = {1: ("j",), 2: ("i", "j"), 3: ("h", "i", "j")}
WINDOW = {1: ("q",), 2: ("p", "q"), 3: ("r", "p", "q")}


class WindowError(ValueError):
    """A window that is larger than what it moves over: which lacks `missing` numbers."""

    def __init__(self, reach: int, size: Dim, before: int, after: int) -> None:
        super().__init__(f"a window of {reach} does not fit into {size} + {before} + {after}")
        self.missing = reach - size - before - after if isinstance(size, int) else 0


def window_output(size: Dim, width: int, stride: int, before: int, after: int, step: int) -> Dim:
    """Positions of a window along one axis; a symbolic size gives a symbolic expression."""
    reach = (width - 1) * step + 1
    positions = window(size, reach, stride, before + after)
    if isinstance(positions, int) and positions < 1:
        raise WindowError(reach, size, before, after)
    return positions
