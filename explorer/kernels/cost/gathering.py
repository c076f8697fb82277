"""Whether it pays to copy the pixels together that a convolution with a stride reads.

1024 to 2048 channels, 14x14 -> 7x7     8.3 Mcycles as it is, tiles of 2 rows of 7 x 1 vector
                                        7.3 Mcycles of 49 pixels, 5 x 2, and 0.03 for the copy
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.cost.rules import FLOAT_BYTES, LINE_BYTES
from explorer.kernels.cost.tiles import Work, choose, tile_cycles

MIN_GAIN = 1.05
"""What the model says less of it cannot tell."""


class Pixels(Protocol):
    """A convolution with windows of one pixel, as whoever asks describes it."""

    @property
    def input_channels(self) -> int: ...
    @property
    def output_channels(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def stride(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def joins_rows(self) -> bool: ...


@dataclass(frozen=True)
class GatheringCosts:
    """A judge of copies, by the cycles of register tiles on a core."""

    machine: CostMachine

    def pays(self, pixels: Pixels) -> tuple[bool, str]:
        """Whether the copy and the convolution of it take clearly fewer cycles, and which."""
        points = pixels.height * pixels.width
        read = FLOAT_BYTES * pixels.input_channels
        # Whole lines are fetched, of which a pixel may be a part.
        fetched = read * min(pixels.stride, max(1, LINE_BYTES // (FLOAT_BYTES * pixels.block)))
        direct = self._cycles(pixels, pixels.height, pixels.width, fetched)
        rows, width = (1, points) if pixels.joins_rows else (pixels.height, pixels.width)
        copied = self._cycles(pixels, rows, width, read)
        copy = points * (fetched + read) / self._far_bytes_per_cycle()
        why = f"{direct:,.0f} cycles as it is; {copied:,.0f} of the copy, {copy:,.0f} to make it"
        return direct >= MIN_GAIN * (copied + copy), why

    def _cycles(self, pixels: Pixels, height: int, width: int, point_bytes: int) -> float:
        work = Work(
            height=height,
            width=width,
            blocks=-(-pixels.output_channels // pixels.block),
            steps=pixels.input_channels,
            point_bytes=point_bytes,
            can_hold=True,
        )
        return tile_cycles(choose(work, self.machine), work, self.machine)

    def _far_bytes_per_cycle(self) -> float:
        """Of the cache behind the second one: other kernels' results have come between."""
        rates = [level.bytes_per_cycle for level in self.machine.caches]
        return rates[min(1, len(rates) - 1)] if rates else LINE_BYTES
