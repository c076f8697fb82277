"""Layers of the vector engine alone, and how they are cut into tiles.

A tile is some blocks of channels on a rectangle of the output. What of each operand it reads is
loaded into accumulators, its results are made beside them and stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from explorer.npu.layers.accesses import Access, VectorLayer
from explorer.npu.layers.elementwise import Elementwise
from explorer.npu.layers.layer import RoomError
from explorer.npu.layers.tensors import blocks, channels_per_block, element_problem, most_padding
from explorer.npu.tiling.bands import ranges
from explorer.npu.tiling.convolution import halves
from explorer.npu.tiling.scratchpads import Buffer, Regions, place_buffers
from explorer.targets.npu.formats import formats_of
from explorer.targets.npu.machine import Machine

RESULTS = 2
"""Buffers: one is computed while the other is stored."""


@dataclass(frozen=True, kw_only=True)
class VectorTile:
    """Some blocks of channels on a rectangle of the output."""

    number: int
    blocks: range
    """Of as many channels as the array has columns."""
    rows: range
    columns: range

    @property
    def pixels(self) -> int:
        return len(self.rows) * len(self.columns)


@dataclass(frozen=True, kw_only=True)
class TiledVectors:
    """A layer with the sizes of its tiles."""

    layer: VectorLayer
    machine: Machine
    rows: int
    """Of an output tile; the last one may have fewer."""
    columns: int
    blocks: int
    buffers: int
    """Of results; operands have one, for the queue that loads them is the one that reads them."""

    regions: Regions = ()
    """Of operands, of results as many as there are buffers, and of factors."""

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """Where each operand begins that has a place of its own."""
        return tuple(region.address for region in dict(self.regions).get("operands", ()))

    def start_of(self, tile: VectorTile, operand: int) -> int:
        """Where an operand of a tile begins, in accumulators."""
        if not self.layer.is_in_place:
            return self._starts[operand]
        return self._starts[operand - 1] if operand else self.results_of(tile)

    def results_of(self, tile: VectorTile) -> int:
        """Where a tile's results begin, in accumulators."""
        return dict(self.regions)["results"][tile.number % self.buffers].address

    @property
    def factors_at(self) -> int:
        """Where multipliers and shifts begin, in accumulators."""
        return dict(self.regions)["factors"][0].address

    @property
    def spare_at(self) -> int:
        """Where room of the size of results begins, in accumulators."""
        return dict(self.regions)["spare"][0].address

    @property
    def wanted(self) -> list[Buffer]:
        """What operands, results and factors take. Results that are stored and those that are
        computed meanwhile should share no bank."""
        sizes = [
            self.blocks * access.window(0, self.rows) * access.window(1, self.columns)
            for access in self.layer.accesses[self.layer.is_in_place :]
        ]
        results = [self.blocks * self.rows * self.columns] * self.buffers
        found = [("operands", size, 0) for size in sizes]
        found += [("results", size, 1 + index) for index, size in enumerate(results)]
        found += [("spare", results[0], 0)] * self.layer.spare_results(self.machine)
        if factors := factor_elements(self.layer, self.machine):
            found.append(("factors", factors, 0))
        return [
            Buffer(name=name, content="accumulators", elements=elements, group=group)
            for name, elements, group in found
        ]

    @property
    def count(self) -> int:
        """Of all tiles."""
        channels, height, width = self.layer.output.shape
        of_blocks = blocks(blocks(channels, self.machine.columns), self.blocks)
        return of_blocks * blocks(height, self.rows) * blocks(width, self.columns)

    def tiles(self) -> Iterator[VectorTile]:
        """In the order in which they run."""
        channels, height, width = self.layer.output.shape
        count = blocks(channels, self.machine.columns)
        parts = itertools.product(
            ranges(range(count), self.blocks),
            ranges(range(height), self.rows),
            ranges(range(width), self.columns),
        )
        for number, (mine, rows, columns) in enumerate(parts):
            yield VectorTile(number=number, blocks=mine, rows=rows, columns=columns)


def factor_elements(layer: VectorLayer, machine: Machine) -> int:
    """Accumulators that multipliers, shifts and the lists behind them take."""
    listed = sum(blocks(len(numbers), machine.columns) for numbers in layer.lists)
    return elements_of_factor(layer, machine) * len(layer.factors) + listed


def elements_of_factor(layer: VectorLayer, machine: Machine) -> int:
    """Accumulators that multiplier and shift take, and what goes with them."""
    return layer.elements_of_factor(machine) if isinstance(layer, Elementwise) else 2


def table_address(machine: Machine) -> int:
    """The table lies at the end of its scratchpad, which micro-operations may share."""
    return machine.depth("tables") - 1


def has_table(layer: VectorLayer, machine: Machine) -> bool:
    """Whether the layer's function is looked up; else it has none, or the machine computes it."""
    return layer.table is not None and "tables" in machine.by_content


def micro_depth(layer: VectorLayer, machine: Machine) -> int:
    """How many micro-operations there is room for beside the layer's table."""
    depth = machine.depth("micro_operations")
    if not has_table(layer, machine):
        return depth
    micro, tables = machine.by_content["micro_operations"], machine.by_content["tables"]
    if micro.memory != tables.memory:
        return depth
    return min(depth, table_address(machine) * tables.element_bytes // micro.element_bytes)


def vector_problem(layer: VectorLayer, machine: Machine) -> str:
    """What the machine lacks for the layer; empty where nothing."""
    if problem := element_problem(machine):
        return problem
    if (layer.factors or layer.output.is_wide) and machine.accumulator_bits != 32:
        return f"it computes with 32 bits, its accumulators have {machine.accumulator_bits}"
    return layer.problem(machine)


def tile_vectors(
    layer: VectorLayer, machine: Machine, buffers: int = RESULTS,
    sizes: Sequence[int] | None = None,
) -> TiledVectors:  # fmt: skip
    """In the tiles that load the fewest bytes, of these in the fewest; or in those of `sizes`.

    `sizes`: rows, columns, blocks of channels. Raises `RoomError` with the shortfall.
    """
    channels, height, width = layer.output.shape
    count = blocks(channels, machine.columns)
    counts = [count] if layer.mixes_channels else halves(count)
    candidates = itertools.product(halves(height), halves(width), counts)
    problem = ""
    possible: list[tuple[tuple[int, int], TiledVectors]] = []
    for rows, columns, mine in candidates if sizes is None else [sizes]:
        tiled = TiledVectors(layer=layer, machine=machine, rows=rows, columns=columns, blocks=mine,
                             buffers=buffers)  # fmt: skip
        if found := _refusal(tiled):
            problem = found
            continue
        possible.append(((_loaded(tiled) * count, tiled.count), tiled))
    for _, tiled in sorted(possible, key=lambda entry: entry[0]):
        regions = place_buffers(tiled.wanted, machine)
        if regions is not None:
            return replace(tiled, regions=regions)
        problem = "its buffers do not lie side by side in the scratchpads"
    raise RoomError(f"{layer.name} does not fit {machine.name}: its smallest tile: {problem}")


def _loaded(tiled: TiledVectors) -> int:
    """Elements of all operands that one block of channels loads."""
    _, height, width = tiled.layer.output.shape
    return sum(
        _windows(access, 0, height, tiled.rows) * _windows(access, 1, width, tiled.columns)
        for access in tiled.layer.accesses
    )


def _windows(access: Access, axis: int, size: int, piece: int) -> int:
    """What all pieces of an axis read along it: whole ones, and the rest."""
    whole, rest = divmod(size, piece)
    return whole * access.window(axis, piece) + (access.window(axis, rest) if rest else 0)


def _refusal(tiled: TiledVectors) -> str:
    """What of a tile is too large for the machine; empty where nothing is."""
    layer, machine = tiled.layer, tiled.machine
    count = blocks(layer.output.shape[0], machine.columns)
    if layer.mixes_channels and tiled.blocks < count:
        return f"{tiled.blocks} blocks of channels, and it needs all {count}"
    elements = sum(buffer.elements for buffer in tiled.wanted)
    if elements > machine.depth("accumulators"):
        return f"{elements} accumulators, and there are {machine.depth('accumulators')}"
    depth = micro_depth(layer, machine)
    if (micro := tiled.blocks * layer.micro_per_block) > depth:
        return f"{micro} micro-operations, and there is room for {depth}"
    limits = {(one.kind, f.name): f.most for one in formats_of(machine).kinds for f in one.fields}
    operands = sum(buffer.elements for buffer in tiled.wanted if buffer.name == "operands")
    apart = channels_per_block(machine) // machine.columns
    wanted = [
        ("vector", "outer", tiled.rows),
        ("vector", "inner", tiled.columns),
        ("vector", "inner", max(operands, tiled.blocks * tiled.rows * tiled.columns)),
        ("store", "x_stride", layer.output.shape[2] * apart),
    ]
    for access in layer.accesses:
        tall, wide = access.window(0, tiled.rows), access.window(1, tiled.columns)
        if max(access.pads) > most_padding(machine):
            return f"pads of {max(access.pads)}, expected at most {most_padding(machine)}"
        wanted += [("load", "x_stride", access.tensor.shape[2] * apart),
                   ("load", "x_size", wide), ("load", "y_size", tall)]  # fmt: skip
    for kind, name, value in wanted:
        if value > limits[kind, name]:
            return f"{name} of a {kind} is {value}, expected at most {limits[kind, name]}"
    return ""
