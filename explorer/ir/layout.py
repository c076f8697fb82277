"""From a logical NCHW tensor to its physical form in a buffer, and back.

(1, 24, 8, 8), block 16, halo (1, 1, 1, 1)   ->   (1, 2, 10, 10, 16), zeros around and behind
(1, 24, 2, 8), block 16, pitch 8             ->   (1, 2, 8, 8, 16), of which rows 2 to 8 of each
                                                  plane are another band's
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.ir.types import Layout

ROWS = 2
"""The axis of a tensor (N, C, rows, columns) along which bands are cut."""


def rounded_channels(channels: int, layout: Layout) -> int:
    """Channels rounded up to whole blocks."""
    if not layout.block:
        return channels
    return -(-channels // layout.block) * layout.block


def haloed_shape(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Logical order, channels rounded up, halo included: the memref before packing."""
    if layout.is_plain:
        return shape
    batch, channels, *spatial = shape
    halo_sizes = _halo_pairs(layout, len(spatial))
    padded = [s + lo + hi for s, (lo, hi) in zip(spatial, halo_sizes, strict=True)]
    if layout.pitch:
        padded[0] = layout.pitch
    return (batch, rounded_channels(channels, layout), *padded)


def physical_shape(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Shape of the dense array in the buffer."""
    haloed = haloed_shape(shape, layout)
    if not layout.block:
        return haloed
    batch, channels, *spatial = haloed
    return (batch, channels // layout.block, *spatial, layout.block)


@dataclass(frozen=True)
class Runs:
    """Bytes of a band of rows in a buffer: `count` runs, `pitch_bytes` from one to the next."""

    count: int
    run_bytes: int
    pitch_bytes: int

    @property
    def span_bytes(self) -> int:
        """From the first byte of the first run to the last one of the last."""
        return (self.count - 1) * self.pitch_bytes + self.run_bytes


def runs_of(shape: tuple[int, ...], layout: Layout, itemsize: int) -> Runs | None:
    """The runs of a tensor's bytes; None where it is one run."""
    if not layout.pitch:
        return None
    batch, planes, _, *row = physical_shape(shape, layout)
    top, _, bottom, _ = layout.halo
    row_bytes = prod(row) * itemsize
    own = shape[ROWS] + top + bottom
    return Runs(batch * planes, own * row_bytes, layout.pitch * row_bytes)


def pack(array: np.ndarray, layout: Layout) -> np.ndarray:
    """Logical (N, C, spatial...) -> physical array; new elements hold the layout's fill."""
    if layout.is_plain:
        return np.asarray(array, order="C")
    haloed = np.full(haloed_shape(array.shape, layout), layout.fill, array.dtype)
    haloed[_interior(array.shape, layout)] = array
    return pack_channels(haloed, layout)


def pack_channels(haloed: np.ndarray, layout: Layout) -> np.ndarray:
    """Splits channels into blocks and moves the block innermost."""
    if not layout.block:
        return np.asarray(haloed, order="C")
    batch, channels, *spatial = haloed.shape
    split = haloed.reshape(batch, channels // layout.block, layout.block, *spatial)
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


def unpack(physical: np.ndarray, shape: tuple[int, ...], layout: Layout) -> np.ndarray:
    """The logical tensor of `shape` out of its physical array, or any as long."""
    physical = physical.reshape(physical_shape(shape, layout))
    if layout.block:
        moved = np.moveaxis(physical, -1, 2)
        batch, blocks, block, *spatial = moved.shape
        physical = moved.reshape(batch, blocks * block, *spatial)
    if layout.is_plain:
        return physical
    return np.ascontiguousarray(physical[_interior(shape, layout)])


def unpack_tap(
    physical: np.ndarray,
    shape: tuple[int, ...],
    block: int,
    halo: tuple[int, int, int, int],
) -> np.ndarray:
    """The logical tensor of `shape` out of what was read from a buffer (`results.Tap`).

    `physical` has the buffer's own shape: with the channels split into blocks (block > 0) or only
    rounded up (block 0), halo included. A value of the host has neither; sizes of it that only a
    run tells are -1 in `shape`.
    """
    if -1 in shape:
        return physical
    if block:
        moved = np.moveaxis(physical, -1, 2)
        physical = moved.reshape(moved.shape[0], moved.shape[1] * moved.shape[2], *moved.shape[3:])
    if physical.shape == shape:
        return physical
    return np.ascontiguousarray(physical[_interior(shape, Layout(block, halo))])


def _halo_pairs(layout: Layout, spatial_rank: int) -> list[tuple[int, int]]:
    top, left, bottom, right = layout.halo
    if spatial_rank == 2:
        return [(top, bottom), (left, right)]
    if layout.halo == (0, 0, 0, 0):
        return [(0, 0)] * spatial_rank
    if spatial_rank == 1 and (top, bottom) == (0, 0):
        return [(left, right)]
    raise ValueError(f"a halo of {layout.halo} needs two spatial dimensions, not {spatial_rank}")


def _interior(shape: tuple[int, ...], layout: Layout) -> tuple[slice, ...]:
    batch, channels, *spatial = shape
    pairs = _halo_pairs(layout, len(spatial))
    inner = [slice(lo, lo + s) for s, (lo, _) in zip(spatial, pairs, strict=True)]
    return (slice(0, batch), slice(0, channels), *inner)
