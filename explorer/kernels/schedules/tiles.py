"""Which register tile: a small cost model of the innermost loop.

A tile of `pixels` x `vectors` keeps pixels * vectors sums in registers. One step of the reduction
then multiplies `pixels` broadcast inputs with `vectors` weight vectors:

    arithmetic   pixels * vectors / 2     two multiply-adds per cycle
    loads        (pixels + 2 vectors) / 2 two loads per cycle, weights come from a farther cache
    latency      4                        a sum can be added to every fourth cycle

Cycles per step are the largest of the three. The tile with the fewest cycles for a whole row wins;
what is left over at the end of the row (the tail) costs as much as a tile of its size.
"""

from __future__ import annotations

from dataclasses import dataclass

FMA_PER_CYCLE = 2
LOADS_PER_CYCLE = 2
FMA_LATENCY_CYCLES = 4
WEIGHT_STREAM_CYCLES = 0.5
"""Extra cycles per weight vector: it comes from the second-level cache."""
TAIL_PENALTY = 1.05
"""A tail is a second loop nest; without one is better when nothing else differs."""


@dataclass(frozen=True)
class Tile:
    """`rows` x `pixels` outputs (or rows of a matrix) times `vectors` vectors of channels."""

    pixels: int
    vectors: int
    rows: int = 1

    @property
    def registers(self) -> int:
        """Sums, one vector of weights each, and one broadcast input."""
        return self.rows * self.pixels * self.vectors + self.vectors + 1


def cycles_per_step(points: int, vectors: int) -> float:
    """Cycles in which one step of the reduction updates `points` x `vectors` sums."""
    if points == 0 or vectors == 0:
        return 0.0
    arithmetic = points * vectors / FMA_PER_CYCLE
    loads = (points + 2 * vectors) / LOADS_PER_CYCLE
    return max(arithmetic, loads, FMA_LATENCY_CYCLES) + WEIGHT_STREAM_CYCLES * vectors


def explain_tile(tile: Tile, registers: int) -> str:
    """Why the tile was chosen: `29 of 32 registers, 12.0 cycles per step for 24 sums`."""
    sums = tile.rows * tile.pixels * tile.vectors
    cycles = cycles_per_step(tile.rows * tile.pixels, tile.vectors)
    return (
        f"the fewest cycles of the cost model: {cycles:g} per step for {sums} sums, "
        f"{tile.registers} of {registers} registers"
    )


def convolution_tile(height: int, width: int, blocks: int, registers: int) -> Tile:
    """The tile for an output of height x width pixels and `blocks` vectors of channels.

    `vectors` divides `blocks`; two or more rows are only taken together where they are short.
    """
    best: tuple[float, int, int] | None = None
    chosen = Tile(1, 1)
    for vectors in _divisors(blocks, 8):
        for rows in range(1, min(height, registers) + 1):
            for pixels in range(1, width + 1):
                tile = Tile(pixels, vectors, rows)
                if tile.registers > registers:
                    break
                if (rows > 1 and pixels < width) or (vectors > 4 and rows * pixels > 3):
                    continue
                cost = _plane_cycles(height, width, tile) / vectors
                key = (round(cost, 6), -rows * pixels * vectors, abs(vectors - 2))
                if best is None or key < best:
                    best, chosen = key, tile
    return chosen


def matrix_tile(rows: int, blocks: int, registers: int) -> Tile:
    """The tile for a matrix of `rows` x `blocks` vectors; both may leave a tail."""
    best: tuple[float, int, int] | None = None
    chosen = Tile(1, 1)
    for vectors in range(1, min(max(blocks, 1), 8) + 1):
        for pixels in range(1, rows + 1):
            tile = Tile(pixels, vectors)
            if tile.registers > registers:
                break
            if vectors > 4 and pixels > 3:
                continue
            full, left = divmod(max(blocks, 1), vectors)
            cost = full * _line_cycles(rows, pixels, vectors)
            if left:
                cost = (cost + _line_cycles(rows, pixels, left)) * TAIL_PENALTY
            key = (round(cost, 6), -pixels * vectors, abs(vectors - 2))
            if best is None or key < best:
                best, chosen = key, tile
    return chosen


def _line_cycles(length: int, pixels: int, vectors: int) -> float:
    full, left = divmod(length, pixels)
    cost = full * cycles_per_step(pixels, vectors)
    return cost if not left else (cost + cycles_per_step(left, vectors)) * TAIL_PENALTY


def _plane_cycles(height: int, width: int, tile: Tile) -> float:
    if tile.rows == 1:
        return height * _line_cycles(width, tile.pixels, tile.vectors)
    full, left = divmod(height, tile.rows)
    cost = full * cycles_per_step(tile.rows * tile.pixels, tile.vectors)
    if left:
        cost = (cost + left * _line_cycles(width, tile.pixels, tile.vectors)) * TAIL_PENALTY
    return cost


def _divisors(number: int, limit: int) -> list[int]:
    return [d for d in range(1, min(number, limit) + 1) if number % d == 0]
