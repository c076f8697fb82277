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


def column_pieces(columns: int, vectors: int, lanes: int, packed: int = 0) -> list[Piece]:
    """Whole tiles, whole vectors, halved vectors down to 4, then single columns.

    `packed`: vectors that lie together where these are not those of a tile; one of the two numbers
    divides the other. A piece begins where such a group does, or lies in one.
    """
    packed = packed or vectors
    pieces: list[Piece] = []
    unit, step = max(vectors, packed) * lanes, min(vectors, packed)
    whole_tiles, left = divmod(columns, unit)
    if whole_tiles:
        pieces.append(Piece("", whole_tiles * unit, vectors, lanes))
    whole_vectors, left = divmod(left, lanes)
    rest = whole_vectors % step if packed != vectors else 0
    if whole_vectors > rest:
        grouped = whole_vectors - rest
        tile = vectors if packed > vectors else grouped
        pieces.append(Piece("_edge", grouped * lanes, tile, lanes))
    if rest:
        pieces.append(Piece("_rest", rest * lanes, rest, lanes))
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
