"""When products of bytes and of bfloat16 are given to matrix instructions, and in which tiles.

AMX multiplies 16 rows of 64 bytes with 64 rows of 16 columns in 16 cycles, as many products as 128
of the widest dot products: two tiles of columns share each tile of rows. Arm's `usmmla` does 2 x 2
sums of 8 products: 8 rows x 2 vectors are 16 registers of sums. Of bfloat16 a product takes two of
these bytes (`tdpbf16ps`, `bfmmla`).
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.kernels.cost.tiles import Tile
from explorer.kernels.schedules.choices import divisors
from explorer.kernels.schedules.machine import Machine


@dataclass(frozen=True)
class Instruction:
    rows: int
    """Of the result that it needs at least."""
    depth: int
    """Products of a sum that it needs at least."""
    why: str


OF_BYTES = {
    "amx": Instruction(16, 64, "tiles of 16 x 16 sums, 64 products of each in 16 cycles (AMX)"),
    "i8mm": Instruction(8, 8, "2 x 2 sums, 8 products of each at a time (i8mm)"),
}
OF_PAIRS = {
    "amx": Instruction(16, 32, "tiles of 16 x 16 sums, 32 products of each in 16 cycles (AMX)"),
    "bfmmla": Instruction(8, 4, "2 x 2 sums, 4 products of each at a time (bfmmla)"),
}
VECTORS = 2
FEWEST_PIXELS, FEWEST_PRODUCTS, FEWEST_BYTES, MAX_VECTORS = 4, 128, 1024, 4
"""Of a tile of a convolution: pixels, products of a sum, and bytes of all pixels. With fewer, sums
that go to tiles and back cost more than the instructions save (`benchmarks/matrix_instructions.py`
on Sapphire Rapids). Four tiles hold sums."""
LONGEST_ROW = 16
"""Vectors of a pixel's sums that are legal."""


def instruction_for(machine: Machine, *, is_paired: bool) -> Instruction | None:
    """What the core has for products of bytes, or of bfloat16."""
    if is_paired:
        return OF_PAIRS.get(machine.pair_tiles)
    return OF_BYTES.get(machine.byte_tiles)


def why_matrix_tiles(found: Instruction | None, rows: int, vectors: int, depth: int) -> str:
    """The reason for matrix instructions; empty where the core has none that the product fills."""
    if found is None or rows < found.rows or depth < found.depth or vectors < VECTORS:
        return ""
    return found.why


def matrix_tile_of(found: Instruction | None, rows: int, vectors: int) -> Tile:
    """A tile of sums: as many rows as one instruction takes, or all there are."""
    wanted = (found or OF_BYTES["amx"]).rows
    return Tile(min(wanted, rows), min(VECTORS, vectors))


def plane_tile_of(width: int, blocks: int) -> Tile | None:
    """The tile of a convolution: pixels of a row, as many as AMX takes at once or a few less so
    that all tiles are alike, and vectors of channels. None where a row is no matrix."""
    legal = [d for d in divisors(blocks) if VECTORS <= d <= LONGEST_ROW]
    if width == 1 or not legal:
        return None
    vectors = max((d for d in legal if d <= MAX_VECTORS), default=legal[0])
    return Tile(-(-width // -(-width // OF_BYTES["amx"].rows)), vectors)


def why_plane_tiles(machine: Machine, tile: Tile, depth: int) -> str:
    """The reason for matrix instructions; empty where the core has none that the tile fills."""
    found = instruction_for(machine, is_paired=False)
    is_filled = tile.pixels >= FEWEST_PIXELS and tile.pixels * depth >= FEWEST_BYTES
    is_filled &= depth >= FEWEST_PRODUCTS and tile.vectors <= MAX_VECTORS
    return found.why if machine.byte_tiles == "amx" and found is not None and is_filled else ""
