"""Schedule of fused attention: scores of some rows at a time, which never leave the cache.

    turned[d, s] = key[s, d]                                    a phase of its own
    parallel b, mt:                                             8 rows of queries
      for mp: greatest = -inf; total = 0
      for st: acc[8][3] = 0; for d: acc += q[m, d] * turned[d, s]; scores = acc
      for mp: scores = exp(scores - greatest); total += scores  whole vectors, row by row
      for ct: acc[8][2] = 0; for s: acc += scores[m, s] * value[s, c]; sums = acc
      for mp: y = sums / total

The scores of a tile of rows are an array of their own for every task, so that a thread needs
rows * keys numbers, whatever the number of queries is. The weights are divided by their sum after
the second product, where a row has fewer numbers. Source: Dao et al., "FlashAttention: Fast and
Memory-Efficient Exact Attention with IO-Awareness", 2022 (arXiv 2205.14135); the rows of scores
are whole here, so that their maximum is known before the first exponential.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine
from xdsl.dialects.builtin import IntegerAttr

from explorer.kernels.cost.tiles import Work, choose, explain
from explorer.kernels.loops.lowering import innermost_operations
from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    bounds_of,
    element_name,
    extent_of,
    is_store,
    name_of,
    perfect_chain,
    shape_of,
    subscripts,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.partition import Piece, column_pieces, row_pieces
from explorer.kernels.schedules.plain import contract_scratch
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.statistics import merge_columns, vectorize_columns
from explorer.kernels.steps.distribute import distribute, localize
from explorer.kernels.steps.forward import forward
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack, is_identity
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, merge, reorder, split
from explorer.kernels.steps.vectorize import can_vectorize, vectorize

TURNED, SCORES, SUMS = "turned", "scores", "sums"
LOCAL = (SCORES, SUMS, "greatest", "total", "factor")
"""Scratch buffers that every task has for itself."""

MAX_LOCAL_BYTES = 1 << 20
"""Of one task's arrays, which lie on its thread's stack."""

TURNED_ROWS = 16
"""Keys that are transposed at once: a cache line of the result."""

PARTS = ("start", "zero_s", "product_s", "softmax", "zero_c", "product_c", "finish")
"""What a tile of rows goes through, one after another."""


def find_attention(nest: LoopNest, packs: Mapping[str, Pack]) -> int:
    """The number of loops around a matrix's rows in a kernel of fused attention; 0 if none fits.

    It must be of f32 in all buffers, and every statement must have a vector form.
    """
    batch = nest.function.attributes.get("kernel.batch")
    if not isinstance(batch, IntegerAttr) or batch.value.data < 1:
        return 0
    if any(not is_identity(layout) for layout in packs.values()):
        return 0
    for top in nest.statements():
        if any(bounds_of(loop) is None for loop in perfect_chain(top)):
            return 0
        accesses = accesses_in(top)
        if any(element_name(a.memref) != "f32" or None in subscripts(a) for a in accesses):
            return 0
        if not all(can_vectorize(op) for op in innermost_operations(top)):
            return 0
    return batch.value.data


def schedule_attention(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Statements as `AttentionOp.define` writes them; see `find_attention`."""
    nest = schedule.nest
    depth = find_attention(nest, packs)
    assert depth
    chains = [[name_of(loop) for loop in perfect_chain(top)] for top in nest.statements()]
    turning = [top for top in nest.statements() if _stores_to(nest, top, TURNED)]
    statements = chains[len(turning) :]
    sizes = _Sizes.of(nest, machine, choices)
    for top in turning:
        _schedule_turning(schedule, [name_of(loop) for loop in perfect_chain(top)])
    for level in range(depth + 1):
        schedule.apply(merge, loops=" ".join(chain[level] for chain in statements))
    *outer, m = statements[0][: depth + 1]
    loops = [chain[depth + 1] for chain in statements if len(chain) > depth + 1]
    reduced = [chain[depth + 2] for chain in statements if len(chain) > depth + 2]
    softmax = merge_columns(schedule, loops[2:-3])
    schedule.apply(reorder, order=" ".join([m, *outer]))
    pieces = row_pieces(sizes.queries, sizes.rows)
    for piece in pieces[1:]:
        schedule.apply(cut, loop=m, at=pieces[0].extent, suffix=piece.suffix)
    unrolled: list[str] = []
    vectorized: list[str] = []
    starts = [loops[0], loops[1], softmax[0], *loops[-3:]]
    for piece in pieces:
        s = piece.suffix
        schedule.apply(reorder, order=" ".join(name + s for name in [*outer, m]))
        schedule.apply(split, loop=m + s, into=f"mt{s} mp{s}", factors=(piece.tile,))
        into = " ".join(part + s for part in PARTS)
        before = " ".join(start + s for start in starts)
        schedule.apply(distribute, loop=f"mp{s}", before=before, into=into)
        for part, columns, along, buffer, parts in (
            ("s", loops[1], reduced[0], SCORES, sizes.key_pieces),
            ("c", loops[-2], reduced[1], SUMS, sizes.value_pieces),
        ):
            names = (columns + s, f"product_{part}{s}", along + s)
            tiles = _tile_product(schedule, names, part, parts, buffer)
            unrolled += tiles[0]
            vectorized += tiles[1]
            schedule.apply(forward, loop=f"zero_{part}{s}")
    homes = " ".join(f"mt{piece.suffix}" for piece in pieces)
    for buffer in LOCAL:
        schedule.apply(localize, buffer=buffer, at=homes)
    contract_scratch(schedule)
    for name in vectorized:
        schedule.apply(vectorize, loop=name)
    lanes = machine.vector_floats
    for piece in pieces:
        for name in softmax:
            extent = extent_of(nest.loop(name + piece.suffix))
            columns = column_pieces(extent, 1, lanes)
            vectorize_columns(schedule, name + piece.suffix, columns)
        columns = column_pieces(sizes.columns, 1, lanes)
        vectorize_columns(schedule, loops[-1] + piece.suffix, columns)
    if unrolled:
        schedule.apply(unroll, loops=" ".join(unrolled))
    for piece in pieces:
        names = [name + piece.suffix for name in [*outer, "mt"]]
        schedule.apply(parallel, loops=" ".join(names))


@dataclass(frozen=True)
class _Sizes:
    """Extents of a kernel of attention, and its register tiles."""

    queries: int
    columns: int
    rows: int
    key_pieces: tuple[Piece, ...]
    value_pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, nest: LoopNest, machine: Machine, choices: Choices) -> _Sizes:
        *_, queries, padded = shape_of(nest.buffer(SCORES))
        *_, columns = shape_of(nest.buffer(SUMS))
        lanes, registers = machine.vector_floats, machine.registers
        depth = max(columns, 1)
        work = Work(
            height=1,
            width=queries,
            blocks=padded // lanes,
            steps=depth,
            divides=False,
            point_stride_bytes=4 * depth,
            point_bytes=4 * depth,
        )
        best = choose(work, machine.costs)
        most = max(1, min(queries, MAX_LOCAL_BYTES // (4 * padded), registers - 2))
        why = explain(best, work, machine.costs)
        rows = choices.number("rows", min(best.pixels, most), range(1, most + 1), why)
        fitting = (registers - 1) // (rows + 1)
        legal = range(1, max(fitting, 1) + 1)
        keys_at_once = min(_vectors(padded // lanes, fitting), legal[-1])
        values_at_once = min(_vectors(columns // lanes, fitting), legal[-1])
        vectors = choices.number("key_vectors", keys_at_once, legal, "what the registers hold")
        others = choices.number("value_vectors", values_at_once, legal, "what the registers hold")
        return cls(
            queries,
            columns,
            rows,
            tuple(column_pieces(padded, vectors, lanes)),
            tuple(column_pieces(columns, others, lanes)),
        )


def _vectors(blocks: int, most: int) -> int:
    """Vectors of a register tile: as many as fit, better such that whole tiles cover all."""
    dividing = [v for v in range(1, most + 1) if blocks and blocks % v == 0]
    largest = max(1, min(most, blocks))
    return dividing[-1] if dividing and 2 * dividing[-1] > largest else largest


def _schedule_turning(schedule: Schedule, chain: list[str]) -> None:
    """Keys are read in blocks of rows that stay in the cache, and stored in whole lines."""
    *outer, first, second = chain
    extent = extent_of(schedule.nest.loop(first))
    if extent > TURNED_ROWS:
        if extent % TURNED_ROWS:
            at = extent - extent % TURNED_ROWS
            schedule.apply(cut, loop=first, at=at, suffix="_last")
            schedule.apply(reorder, order=f"{second}_last {first}_last")
        into = f"{first}_block {first}_row"
        schedule.apply(split, loop=first, into=into, factors=(TURNED_ROWS,))
        schedule.apply(reorder, order=f"{first}_block {second} {first}_row")
    schedule.apply(parallel, loops=" ".join(outer))


def _tile_product(
    schedule: Schedule,
    loops: tuple[str, str, str],
    name: str,
    pieces: Sequence[Piece],
    buffer: str,
) -> tuple[list[str], list[str]]:
    """Register tiles of a product whose loops are (columns, rows, along); all rows are one tile.

    Returns the loops to unroll and those to vectorize.
    """
    columns, rows, along = loops
    unrolled: list[str] = []
    vectorized: list[str] = []
    schedule.apply(reorder, order=f"{columns} {rows} {along}")
    end = sum(piece.extent for piece in pieces)
    for piece in pieces[:0:-1]:
        end -= piece.extent
        schedule.apply(cut, loop=columns, at=end, suffix=piece.suffix)
    for piece in pieces:
        s = piece.suffix
        extents = [piece.extent // (piece.tile * piece.width), piece.tile, piece.width]
        names = [f"{columns}{s}_{part}" for part in ("tile", "block", "lane")]
        # A single tile has its loop, too: the product is one nest, as `forward` wants it.
        kept = [(n, e) for n, e in zip(names, extents, strict=True) if e > 1 or n == names[0]]
        found = {n: n for n, _ in kept}
        if len(kept) > 1:
            factors = tuple(extent for _, extent in kept[1:])
            into = " ".join(found)
            schedule.apply(split, loop=columns + s, into=into, factors=factors)
        else:
            found = {names[0]: columns + s}
        tile, block, lane = ([found[n]] if n in found else [] for n in names)
        order = [*tile, along + s, rows + s, *block, *lane]
        schedule.apply(reorder, order=" ".join(order))
        schedule.apply(accumulate, at=along + s, buffer=buffer, name=f"{name}_acc")
        unrolled += [rows + s, *block]
        vectorized += lane if piece.width > 1 else []
        unrolled += lane if piece.width == 1 else []
    return unrolled, vectorized


def _stores_to(nest: LoopNest, top: affine.ForOp, buffer: str) -> bool:
    return any(is_store(a) and a.memref is nest.buffer(buffer) for a in accesses_in(top))
