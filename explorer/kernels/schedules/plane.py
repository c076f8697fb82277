"""Register tiles over the plane of a blocked output: what convolutions of floats and bytes share.

for o: for i: for j: for c: ..
->
for ot: for i: for jt: for c: ..  for jp: for ov: for oi:      14 pixels x 2 vectors of 16 channels

What the tile doesn't divide is a second nest, whose loops have names that end in `_tail`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects import affine

from explorer.ir.structure import walk_inside
from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.cost.tiles import (
    BLOCK_AHEAD,
    CHANNELS_FIRST,
    DISTANCES,
    ORDERS,
    PREFETCHES,
    ROWS_FIRST,
    Tile,
    Window,
    Work,
    choose,
    choose_distance,
    choose_order,
    choose_prefetch,
    choose_row,
    explain,
    row_cycles,
)
from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    extent_of,
    item_bytes,
    name_of,
    perfect_chain,
    shape_of,
)
from explorer.kernels.printing.languages import language_named
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MAX_UPDATES, split_or_keep
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.vectorize import vectorize

_OVER_TILES = ("n", "g", "ot", "i", "it")
_IN_TILE = ("ip", "jp", "j", "ov", "cu")

Narrowing = Callable[[Work, CostMachine], tuple[Work, CostMachine]]


def choose_plane_tile(
    nest: LoopNest,
    machine: Machine,
    choices: Choices,
    blocks: int,
    products: int = 1,
    can_hold: bool = False,
    narrow: Narrowing | None = None,
) -> Tile:
    """The register tile for `blocks` vectors of output channels.

    `products`: what one instruction multiplies and adds up for a lane (4 of dot products);
    `can_hold`: whether vectors of weights are kept in registers by force; `narrow`: what tiles are
    chosen for instead, where an update takes registers of its own.

    The program grows with the updates that a tile writes out: that is what limits it. A tile
    that needs more registers than there are is legal, and slow.
    """
    height, width = extent_of(nest.loop("i")), extent_of(nest.loop("j"))
    work, costs = replace(plane_work(nest, blocks, products), can_hold=can_hold), machine.costs
    if narrow is not None:
        work, costs = narrow(work, costs)
    best = choose(work, costs)
    why = explain(best, work, costs)
    most = MAX_UPDATES
    legal = [d for d in divisors(blocks) if d <= most]
    vectors = choices.number("vectors", best.vectors, legal, why)
    most //= vectors
    pixels = choices.number("pixels", min(best.pixels, most), range(1, min(width, most) + 1), why)
    most //= pixels
    legal_rows = range(1, min(height, most) + 1) if pixels == width else range(1, 2)
    own = min(best.rows, most) if pixels == best.pixels == width else 1
    why_rows = why if pixels == width else "only whole rows are taken together"
    return Tile(pixels, vectors, choices.number("rows", own, legal_rows, why_rows))


def choose_depthwise_tile(
    nest: LoopNest, machine: Machine, choices: Choices, window: Window, most: int = 1 << 20
) -> Tile:
    """Pixels of a tile of a depthwise filter, by itself at most `most`; rows of a single column."""
    best = choose_row(window, machine.costs)
    why = f"the fewest cycles of the cost model: {row_cycles(best, window, machine.costs):g} a row"
    legal = range(1, min(window.width, MAX_UPDATES) + 1)
    name = "rows" if is_column(nest) else "pixels"
    number = choices.number(name, min(best, most), legal, why)
    return Tile(1, 1, number) if is_column(nest) else Tile(number, 1)


def is_column(nest: LoopNest) -> bool:
    """Whether the plane is one pixel wide: what is neighbours in a row elsewhere is below here."""
    return extent_of(nest.loop("j")) == 1 < extent_of(nest.loop("i"))


def window_of(nest: LoopNest, updates: int, needs_registers: bool = True) -> Window:
    """The filter of a depthwise nest; `updates`: multiply-adds up to which taps are written out.

    A single column is a row of so many pixels, and its filter lies down with it.
    """
    along, across = ("i", "j") if is_column(nest) else ("j", "i")
    taps = {"i": extent_of(nest.loop("p")), "j": extent_of(nest.loop("q"))}
    width = extent_of(nest.loop(along))
    (main,) = nest.statements("main")
    axis = -2 if along == "i" else -1
    columns = max(shape_of(a.memref)[axis] for a in accesses_in(main))
    stride = max(1, (columns - 1) // width)
    return Window(
        width=width,
        height_taps=taps[across],
        width_taps=taps[along],
        stride=stride,
        most_updates=updates,
        needs_registers=needs_registers,
    )


def plane_work(nest: LoopNest, blocks: int, products: int) -> Work:
    """What a convolution's tile is chosen for: one picture, one group."""
    height, width = extent_of(nest.loop("i")), extent_of(nest.loop("j"))
    (main,) = nest.statements("main")
    read = [a.memref for a in accesses_in(main)]
    sources = {b: prod(shape_of(b)) for b in read if nest.roles[nest.name_of_buffer(b)] == "input"}
    source = max(sources, key=lambda buffer: sources[buffer])
    rows = shape_of(source)[-2]
    # A stride that is longer than the window leaves rows out; of columns only parts of lines.
    part = min(1.0, height * extent_of(nest.loop("p")) / rows)
    bytes_read = int(sources[source] * item_bytes(source) * part)
    pictures = prod(extent_of(nest.loop(name)) for name in ("n", "g") if nest.has(name))
    return Work(
        height=height,
        width=width,
        blocks=blocks,
        steps=max(1, prod(extent_of(nest.loop(name)) for name in "cpq") // products),
        point_bytes=max(1, bytes_read // (pictures * height * width)),
    )


def split_channels(schedule: Schedule, vectors: int, block: int) -> str:
    """Splits o; returns the loops of one tile of channels."""
    if vectors == 1:
        schedule.apply(split, loop="o", into="ot oi", factors=(block,))
        return "oi"
    schedule.apply(split, loop="o", into="ot ov oi", factors=(vectors, block))
    return "ov oi"


def choose_plane_order(
    nest: LoopNest, machine: Machine, choices: Choices, tile: Tile, blocks: int
) -> str:
    """Which loop is around which: that over tiles of channels, or that over rows.

    Where several rows are taken together there is only the first.
    """
    work = plane_work(nest, blocks, 1)
    best, why = choose_order(tile, work, machine.costs)
    legal = ORDERS if tile.rows == 1 else (CHANNELS_FIRST,)
    return choices.word("order", best if best in legal else CHANNELS_FIRST, legal, why)


def choose_plane_prefetch(
    nest: LoopNest, machine: Machine, choices: Choices, tile: Tile, blocks: int, order: str
) -> Sequence[str]:
    """What is asked for ahead of its loads: none, one or both of `inputs` and `weights`.

    Nothing where a language cannot.
    """
    if not language_named(machine.language).has_prefetch:
        return ()
    best, why = choose_prefetch(tile, plane_work(nest, blocks, 1), machine.costs, order)
    chosen = choices.word("prefetch", best, PREFETCHES, why)
    return ("inputs", "weights") if chosen == "both" else (chosen,)


def choose_plane_distance(
    nest: LoopNest, machine: Machine, choices: Choices, tile: Tile, blocks: int
) -> str:
    """How much earlier than they are used inputs are asked for, one of `DISTANCES`."""
    if tile.rows > 1 or extent_of(nest.loop("j")) < 2 * tile.pixels:
        return BLOCK_AHEAD  # there is no next tile
    best, why = choose_distance(tile, plane_work(nest, blocks, 1), machine.costs)
    return choices.word("distance", best, DISTANCES, why)


def tile_plane(
    schedule: Schedule, reduction: str, lanes: str, tile: Tile, order: str = CHANNELS_FIRST
) -> list[str]:
    """Cuts and splits i and j, and puts the tile inside the reduction.

    `order`: one of `ORDERS`. Returns the suffixes of the nests' loop names: [""] or ["", "_tail"].
    """
    nest = schedule.nest
    pixels, rows = tile.pixels, tile.rows
    outer, row_loops = "n g ot" if nest.has("g") else "n ot", ["i"]
    if order == ROWS_FIRST:
        outer, row_loops = outer.replace("ot", "i ot"), []
    height, width = extent_of(nest.loop("i")), extent_of(nest.loop("j"))
    row_tail, pixel_tail = height % rows, width % pixels
    tail_reduction = " ".join(f"{name}_tail" for name in reduction.split())
    tail_lanes = " ".join(f"{name}_tail" for name in lanes.split())
    if row_tail or pixel_tail:
        around = " ".join([outer, *row_loops])
        schedule.apply(reorder, order=f"{around} j {reduction} {lanes}")
        if row_tail:
            schedule.apply(cut, loop="i", at=height - row_tail)
        else:
            schedule.apply(cut, loop="j", at=width - pixel_tail)
    row_tile: list[str] = []
    if rows > 1:
        row_loops, row_tile = split_or_keep(schedule, "i", height - row_tail, rows, "it", "ip")
    pixel_loops, pixel_tile = split_or_keep(schedule, "j", width - pixel_tail, pixels, "jt", "jp")
    inside = f"{reduction} {' '.join([*row_tile, *pixel_tile])} {lanes}"
    if row_tail:
        schedule.apply(reorder, order=" ".join(row_loops) + f" {inside}")
        schedule.apply(reorder, order=f"i_tail {tail_reduction} j_tail {tail_lanes}")
    elif pixel_tail:
        schedule.apply(reorder, order=" ".join([*pixel_loops, inside]))
        schedule.apply(reorder, order=f"{tail_reduction} j_tail {tail_lanes}")
    else:
        schedule.apply(reorder, order=" ".join([outer, *row_loops, *pixel_loops, inside]))
    return ["", "_tail"] if row_tail or pixel_tail else [""]


def points_of(tile: Tile, width: int) -> tuple[int, int]:
    """Points of a tile, and of what it leaves over in a row of so many pixels, or as odd rows."""
    return tile.points, width if tile.rows > 1 else width % tile.pixels


def vectorize_lanes(schedule: Schedule, tails: Sequence[str]) -> None:
    """Whole vectors of output channels."""
    for suffix in tails:
        schedule.apply(vectorize, loop="oi" + suffix)


def mark_plane(
    schedule: Schedule, tails: Sequence[str], unrolled: str, always: Sequence[str] = ()
) -> None:
    """The tile written out, and what is around it in parallel.

    `unrolled`: loops that are written out where they lie inside one tile; `always` wherever.
    """
    nest = schedule.nest
    inside = [name + suffix for suffix in tails for name in unrolled.split()]
    marked = [name for name in inside if nest.has(name) and _is_in_tile(nest, name)]
    marked += [name + suffix for suffix in tails for name in always]
    if marked:
        schedule.apply(unroll, loops=" ".join(marked))
    leading = [name_of(loop) for loop in perfect_chain(nest.statements("main")[0])]
    schedule.apply(parallel, loops=" ".join(n for n in leading if n in _OVER_TILES))


def _is_in_tile(nest: LoopNest, name: str) -> bool:
    """A loop over the pixels of one tile, not one over tiles (which holds a reduction).

    Rows are one, too, where the tile has all of them.
    """
    loop = nest.loop(name)
    inside = [op for op in walk_inside(loop) if isinstance(op, affine.ForOp) and op is not loop]
    return all(name_of(op).removesuffix("_tail") in _IN_TILE for op in inside)
