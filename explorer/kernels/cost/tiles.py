"""Which register tile: the cost model for a tile that is not built yet, by its numbers alone.

    for vt: for pt:                        tiles of the vectors and of the points
      for k in steps:                      the reduction
        acc[points][vectors] += broadcast x[k][points] * w[k][vectors]

`choose` tries every tile that its register need allows and takes the one with the fewest cycles:
those of its body (arithmetic, loads, issue, latency, conflicts, spills) and those for what comes
from behind each cache, by the rules (`rules.py`) by which a finished kernel is judged, too. Tiles
that leave something over have a second, smaller one for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.cost.rules import (
    FLOAT_BYTES,
    TILE_ARRAYS,
    broadcast_registers,
    conflict_cycles,
    crowded,
    executed_loads,
    held_vectors,
    kept_vectors,
    load_parts,
    loop_instructions,
    multiply_parts,
    overlapped,
    spill_cycles,
    spilled_chain_cycles,
    waiting_share,
)

MAX_VECTORS = 8
USUAL_VECTORS = 2
"""Of weights, where they are used for several points; of a single row as many as there may be."""
START_CYCLES = 8.0
"""Of a tile: the sums are set before, and stored behind the reduction; per vector of them half."""
NEARLY_AS_GOOD = 1.03
"""Times the fewest cycles: what else is known decides between such."""
CHANNELS_FIRST, ROWS_FIRST = ORDERS = ("channels", "rows")
"""What the outermost loop around tiles goes through."""
PREFETCHES = ("none", "inputs", "weights", "both")
"""What may be asked for before loads need it."""
BLOCK_AHEAD, TILE_AHEAD = DISTANCES = ("block", "tile")
"""How much earlier than they are used inputs are asked for: a block of channels, or a tile."""
KEPT_SHARE = 0.5
"""Of the nearest cache: what was asked for stays there until it is used, beside all the rest."""
MUCH_BETTER, WORTH_IT = 1.5, 0.05
"""Another order than usual fetches so many times less, and fetching is such a part of the time."""
AS_GOOD = 1.015
"""Times the fewest cycles: smaller differences the model cannot tell."""


@dataclass(frozen=True)
class Tile:
    """`rows` x `pixels` outputs (or rows of a matrix) times `vectors` vectors of channels."""

    pixels: int
    vectors: int
    rows: int = 1

    @property
    def points(self) -> int:
        return self.rows * self.pixels

    @property
    def sums(self) -> int:
        return self.points * self.vectors

    def fits(self, machine: CostMachine) -> bool:
        """Whether there is room for the sums, a vector and what it is multiplied with."""
        return self.sums + 1 + broadcast_registers(machine) <= machine.registers


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is tiled: a plane of `height` x `width` points times `blocks` vectors, summed up."""

    height: int
    width: int
    blocks: int
    steps: int
    """Multiply-adds of one sum."""
    divides: bool = True
    """Whether the vectors of a tile divide `blocks`; else what is left over is a tile, too."""
    point_stride_bytes: int = FLOAT_BYTES
    """From one point's input to the next one's."""
    point_bytes: int = FLOAT_BYTES
    """Of all input that a point adds to its neighbours', over the whole reduction."""
    can_hold: bool = False
    """Whether the schedule keeps vectors in registers that compilers would load at each use."""
    vector_stride_bytes: int = 0
    """From one vector's data to the next one's in the same step; 0 where they lie together."""


@lru_cache(maxsize=4096)
def choose(work: Work, machine: CostMachine) -> Tile:
    """The tile with the fewest cycles.

    Of those that are nearly as good: of about two vectors, for in a network the weights come from
    farther than in a kernel alone. Of those that are as good: one that leaves nothing over, the
    larger. Two or more rows are only taken together where they are whole.
    """
    found = [(tile_cycles(tile, work, machine), tile) for tile in tiles(work, machine)]
    least = min(cycles for cycles, _ in found)
    near = [(cycles, tile) for cycles, tile in found if cycles <= NEARLY_AS_GOOD * least]
    wanted = USUAL_VECTORS if work.height * work.width > 1 else MAX_VECTORS
    vectors = min((tile.vectors for _, tile in near), key=lambda vectors: abs(vectors - wanted))
    same = [(cycles, tile) for cycles, tile in near if tile.vectors == vectors]
    least = min(cycles for cycles, _ in same)
    return min(
        (tile for cycles, tile in same if cycles <= AS_GOOD * least),
        key=lambda tile: (_leaves_over(tile, work), -tile.points, -tile.pixels),
    )


def _leaves_over(tile: Tile, work: Work) -> bool:
    has_tail = work.height % tile.rows or work.width % tile.pixels
    return bool(has_tail or max(work.blocks, 1) % tile.vectors)


def tiles(work: Work, machine: CostMachine) -> Iterator[Tile]:
    """All whose sums and operands fit into the registers, or a single sum.

    Those that leave half of the registers free are worse than others, unless there is no more to
    take, or just so much divides the work.
    """
    most = machine.registers - 1 - broadcast_registers(machine)
    for vectors in range(1, min(max(work.blocks, 1), MAX_VECTORS) + 1):
        if work.divides and work.blocks % vectors:
            continue
        widest = min(work.width, max(most // vectors, 1))
        for pixels in range(1, widest + 1):
            if 2 * pixels * vectors > most or pixels == widest or work.width % pixels == 0:
                yield Tile(pixels, vectors)
        for rows in range(2, min(work.height, most // (vectors * work.width)) + 1):
            yield Tile(work.width, vectors, rows)


def tile_cycles(tile: Tile, work: Work, machine: CostMachine) -> float:
    """Cycles of one thread for the whole work."""
    computing = 0.0
    full, left = divmod(max(work.blocks, 1), tile.vectors)
    for vectors, count in ((tile.vectors, full), (left, 1)):
        if vectors and count:
            computing += count * _plane_cycles(replace(tile, vectors=vectors), work, machine)
    return overlapped(computing, _fetching_cycles(tile, work, machine))


def explain(tile: Tile, work: Work, machine: CostMachine) -> str:
    """Why the tile was chosen: `28 cycles per step for 28 sums, 31 of 32 registers: 2 of 2 vectors
    stay in one`."""
    cycles = body_cycles(tile.points, tile.vectors, work, machine)
    held = held_vectors(tile.vectors, tile.sums, machine, can_hold=work.can_hold)
    used = tile.sums + held + broadcast_registers(machine)
    return (
        f"the fewest cycles of the cost model: {cycles:.3g} per step for {tile.sums} sums, {used} "
        f"of {machine.registers} registers; {held} of {tile.vectors} vectors stay in one"
    )


def body_cycles(points: int, vectors: int, work: Work, machine: CostMachine) -> float:
    """Cycles of one step of the reduction, which updates `points` x `vectors` sums."""
    core = machine.core
    width = FLOAT_BYTES * machine.vector_floats
    sums = points * vectors
    loads = executed_loads(vectors, sums, machine, can_hold=work.can_hold)
    arithmetic = sums * multiply_parts(width, machine) / core.arithmetic_units
    loading = (loads * load_parts(width, machine) + points) / core.load_units
    products = 0 if core.fuses_products else sums
    issued = sums + products + loads + points + loop_instructions(TILE_ARRAYS)
    latency = core.multiply_add_latency_cycles * waiting_share(issued * work.steps, machine)
    stride = work.point_stride_bytes
    conflicts = conflict_cycles(range(0, points * stride, stride), machine)
    if work.vector_stride_bytes:
        ends = range(0, vectors * work.vector_stride_bytes, work.vector_stride_bytes)
        conflicts += conflict_cycles(ends, machine)
    kept = kept_vectors(vectors, sums, machine, can_hold=work.can_hold)
    spills = spill_cycles(sums, machine, max(kept, 1) + broadcast_registers(machine))
    longest = max(
        crowded(arithmetic, loading, latency),
        issued / core.issued_per_cycle,
        spilled_chain_cycles(spills, machine),
    )
    return overlapped(longest, conflicts) + spills


def _plane_cycles(tile: Tile, work: Work, machine: CostMachine) -> float:
    """All points for one tile of vectors."""
    bands, rows_left = divmod(work.height, tile.rows)
    cycles = bands * _row_cycles(tile.rows, tile, work, machine)
    if rows_left:  # odd rows are taken one by one
        cycles += rows_left * _row_cycles(1, tile, work, machine)
    return cycles


def _row_cycles(rows: int, tile: Tile, work: Work, machine: CostMachine) -> float:
    full, left = divmod(work.width, tile.pixels)
    cycles = 0.0
    for pixels, count in ((tile.pixels, full), (left, 1)):
        if pixels and count:
            step = body_cycles(rows * pixels, tile.vectors, work, machine)
            start = START_CYCLES + rows * pixels * tile.vectors / 2
            cycles += count * (work.steps * step + start)
    return cycles


def choose_order(tile: Tile, work: Work, machine: CostMachine) -> tuple[str, str]:
    """(the order of the loops around a tile, why): that for which less has to come from farther.

    By itself a tile of channels goes through all points, so that neighbouring kernels find the rows
    that a thread has written in the cache of that thread.
    """
    cycles = {}
    for order in ORDERS:
        _, *behind = (*_level_cycles(tile, work, machine, order), 0.0)
        cycles[order] = sum(behind)  # the nearest cache is filled fast, and before it is asked
    usual, other = (cycles[order] for order in (CHANNELS_FIRST, ROWS_FIRST))
    found = f"{usual:.3g} cycles for what comes from far, {other:.3g} row by row"
    is_better = usual > MUCH_BETTER * other and usual > WORTH_IT * tile_cycles(tile, work, machine)
    return (ROWS_FIRST if is_better else CHANNELS_FIRST), found


def choose_prefetch(tile: Tile, work: Work, machine: CostMachine, order: str) -> tuple[str, str]:
    """(what is asked for ahead of the loads, why).

    Inputs that the nearest cache does not hold: a tile of channels goes through the whole plane.
    Weights that it does not hold, where there is a next tile of channels; row by row only those
    that the next cache does not hold, either, for all rows after the first find them there.
    """
    nearest, *behind = (*(level.size_bytes for level in machine.caches), 0)
    inputs = work.height * work.width * work.point_bytes
    weights = max(work.blocks, 1) * FLOAT_BYTES * machine.vector_floats * work.steps
    near = behind[0] if order == ROWS_FIRST and work.height > tile.rows else nearest
    has_next = work.blocks > tile.vectors
    found = {"inputs": inputs > nearest > 0, "weights": has_next and weights > near > 0}
    chosen = [name for name, is_far in found.items() if is_far]
    why = f"{inputs:,} bytes of inputs and {weights:,} of weights, {nearest:,} in the nearest cache"
    return "both" if len(chosen) == 2 else (*chosen, "none")[0], why


def choose_distance(tile: Tile, work: Work, machine: CostMachine) -> tuple[str, str]:
    """(how much earlier inputs are asked for, why).

    A block of channels takes some fifty cycles, in which the second cache answers. What comes from
    behind it is asked for a whole tile earlier, unless the nearest cache would lose it meanwhile.
    """
    nearest, *behind = (*(level.size_bytes for level in machine.caches), 0, 0)
    inputs = work.height * work.width * work.point_bytes
    own = tile.points * work.point_bytes
    is_far, is_kept = inputs > behind[0] > 0, own <= KEPT_SHARE * nearest
    why = f"{inputs:,} bytes of inputs, {behind[0]:,} in the second cache; a tile reads {own:,}"
    return (TILE_AHEAD if is_far and is_kept else BLOCK_AHEAD), why


def _fetching_cycles(tile: Tile, work: Work, machine: CostMachine) -> float:
    """For what comes from behind each cache (see `traffic.py`); the slowest level counts."""
    return max(_level_cycles(tile, work, machine, CHANNELS_FIRST), default=0.0)


def _level_cycles(tile: Tile, work: Work, machine: CostMachine, order: str) -> Iterator[float]:
    """Of every cache, the nearest first."""
    runs = _runs(tile, work, machine, order)
    for level in machine.caches:
        too_large = [(count, size) for count, size in runs if size > level.size_bytes]
        count, size = too_large[-1] if too_large else (0, 0)
        yield count * size / level.bytes_per_cycle


def _runs(tile: Tile, work: Work, machine: CostMachine, order: str) -> list[tuple[int, int]]:
    """Of every loop around the tile, the outermost first: how often it runs, and the bytes that a
    run of it touches."""
    vector = FLOAT_BYTES * machine.vector_floats
    blocks = max(work.blocks, 1)
    kept = tile.vectors * vector * work.steps
    stored = tile.vectors * vector
    across = -(-blocks // tile.vectors)
    down = -(-work.height // tile.rows)
    along = -(-work.width // tile.pixels)
    plane = work.height * work.width
    row = tile.rows * work.width * (work.point_bytes + stored)
    whole = blocks * vector * (work.steps + plane) + plane * work.point_bytes
    if order == ROWS_FIRST:
        all_channels = tile.rows * work.width * (work.point_bytes + blocks * vector)
        around = down, blocks * vector * work.steps + all_channels
    else:
        around = across, kept + plane * (work.point_bytes + stored)
    in_tile = kept + tile.points * (work.point_bytes + stored)
    return [(1, whole), around, (across * down, kept + row), (across * down * along, in_tile)]


@dataclass(frozen=True)
class Window:
    """A depthwise filter over a row of `width` pixels, each channel by itself."""

    width: int
    height_taps: int
    width_taps: int
    stride: int
    most_updates: int
    """Multiply-adds that may be written out in one body: then neighbours share what they read."""
    needs_registers: bool = True
    """Whether they are only written out where there is a register for each weight."""

    @property
    def taps(self) -> int:
        return self.height_taps * self.width_taps

    def is_written_out(self, pixels: int, machine: CostMachine) -> bool:
        """Whether a tile of so many pixels has all taps in one body.

        Compilers keep the weights in registers then; where there are not enough, they spill.
        """
        fits = self.taps <= machine.registers or not self.needs_registers
        return fits and pixels * self.taps <= self.most_updates


@lru_cache(maxsize=4096)
def choose_row(window: Window, machine: CostMachine) -> int:
    """Pixels of a depthwise filter's tile; of those that are as good the most."""
    most = min(window.width, machine.registers - 1 - broadcast_registers(machine))
    fitting = [p for p in range(1, most + 1) if not _spilled(p, window, machine)]
    tried = fitting or range(1, most + 1)
    found = [(row_cycles(pixels, window, machine), pixels) for pixels in tried]
    least = min(cycles for cycles, _ in found)
    good = [pixels for cycles, pixels in found if cycles <= AS_GOOD * least]
    return min(good, key=lambda pixels: (window.width % pixels > 0, -pixels))


def row_cycles(pixels: int, window: Window, machine: CostMachine) -> float:
    """Cycles for a row in tiles of so many pixels, and one of what is left."""
    full, left = divmod(window.width, pixels)
    cycles = full * _filter_cycles(pixels, window, machine)
    return cycles + (_filter_cycles(left, window, machine) if left else 0.0)


def _filter_cycles(pixels: int, window: Window, machine: CostMachine) -> float:
    """One tile with all taps."""
    core = machine.core
    parts = multiply_parts(FLOAT_BYTES * machine.vector_floats, machine)
    read_parts = load_parts(FLOAT_BYTES * machine.vector_floats, machine)
    taps = window.taps
    sums = pixels * taps
    read = sums
    if window.is_written_out(pixels, machine) and window.stride < window.width_taps:
        read = ((pixels - 1) * window.stride + window.width_taps) * window.height_taps
    issued = sums + read + taps + loop_instructions(TILE_ARRAYS)
    longest = max(
        sums * parts / core.arithmetic_units,
        (read + taps) * read_parts / core.load_units,
        issued / core.issued_per_cycle,
        core.multiply_add_latency_cycles * taps * waiting_share(issued, machine),
    )
    start = START_CYCLES + pixels / 2
    return longest + _spilled(pixels, window, machine) + start


def _spilled(pixels: int, window: Window, machine: CostMachine) -> float:
    """Cycles of a tile for what has no register: beside the sums the inputs of a row of taps, and
    the weights, which stay from one tile to the next where they are written out."""
    held = 1 + broadcast_registers(machine)
    if window.is_written_out(pixels, machine):
        held = window.taps + 1 + broadcast_registers(machine)
        if window.stride < window.width_taps:
            held = max(held, (pixels - 1) * window.stride + window.width_taps)
    return spill_cycles(pixels, machine, held)
