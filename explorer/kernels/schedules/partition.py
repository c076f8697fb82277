"""How a dimension is cut into pieces that are tiled differently.

107 columns, tiles of 2 vectors of 16  ->  96 (2 x 16), 8 (1 x 8), 3 (one by one)
"""

from __future__ import annotations

from dataclasses import dataclass

NARROWEST_VECTOR = 4


@dataclass(frozen=True)
class Piece:
    """One nest of a cut dimension: `suffix` of its loops' names, its extent, how it is tiled."""

    suffix: str
    extent: int
    tile: int
    """Rows of a register tile, or vectors per tile of columns."""
    width: int = 1
    """Floats per vector; 1 for columns one by one."""


def row_pieces(rows: int, tile: int) -> list[Piece]:
    """Whole tiles, and the rows that are left."""
    left = rows % tile
    pieces = [Piece("", rows - left, tile)]
    return [*pieces, Piece("_bottom", left, left)] if left else pieces


def column_pieces(columns: int, vectors: int, lanes: int) -> list[Piece]:
    """Whole tiles, whole vectors, halved vectors down to 4, then single columns."""
    pieces: list[Piece] = []
    whole_tiles, left = divmod(columns, vectors * lanes)
    if whole_tiles:
        pieces.append(Piece("", whole_tiles * vectors * lanes, vectors, lanes))
    whole_vectors, left = divmod(left, lanes)
    if whole_vectors:
        pieces.append(Piece("_edge", whole_vectors * lanes, whole_vectors, lanes))
    width = lanes // 2
    while width >= NARROWEST_VECTOR:
        if left >= width:
            pieces.append(Piece(f"_edge{width}", width, 1, width))
            left -= width
        width //= 2
    if left:
        pieces.append(Piece("_edge1", left, left))
    first, *others = pieces
    return [Piece("", first.extent, first.tile, first.width), *others]
