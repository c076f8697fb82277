"""The steps of a tiled convolution: what each loads, where that lies, and what it waits for.

    order = "outputs"      for blocks of outputs: for rows: for columns: for blocks of inputs
    order = "positions"    for rows: for columns: for blocks of outputs: for blocks of inputs

Each operand has some buffers, which are filled in turn. What lies in one of them already is not
loaded again: as many buffers of weights as a tile has chunks keep the weights of its outputs from
one rectangle to the next, as many as the layer has keep all.

    loads of chunk n    wait for the chunk that read the buffers last which they fill
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from explorer.npu.tiling.bands import Band, ranges

Order = Literal["outputs", "positions"]
ORDERS: tuple[Order, ...] = ("outputs", "positions")
"""Which loop is the outer one, the first by default."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One step of a tile: what is loaded, multiplied, and where it lies."""

    band: int
    outputs: range
    """Blocks of output channels."""
    inputs: tuple[int, ...]
    """Blocks of input channels."""
    is_whole: bool
    """Whether these are all inputs of the band."""
    first_input: int
    """How many of the band's come before."""
    rows: range
    """Of the output."""
    columns: range
    tile: int
    is_first: bool
    """Of its tile: sums begin at 0."""
    is_last: bool
    input_buffer: int = 0
    weight_buffer: int = 0
    loads_inputs: bool = True
    """Whether they lie in no buffer yet."""
    loads_weights: bool = True
    waits: bool = False
    """Whether its loads wait for a chunk that reads the same buffers."""
    frees: bool = False
    """Whether loads of a later chunk wait for it."""


@dataclass(frozen=True, kw_only=True)
class Loops:
    """What the steps of a layer follow from."""

    bands: tuple[Band, ...]
    height: int
    """Of the output."""
    width: int
    rows: int
    """Of a tile."""
    columns: int
    outputs: int
    inputs: int
    order: Order
    input_buffers: int
    weight_buffers: int
    """0: weights are loaded once, before all."""


def chunks_of(loops: Loops) -> tuple[Chunk, ...]:
    """All steps, in the order in which they run."""
    inputs, weights = _Buffers(loops.input_buffers), _Buffers(loops.weight_buffers)
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    freeing: set[int] = set()
    waited = -1  # the last chunk that a load waited for
    for chunk in _plain_chunks(loops):
        number = len(found)
        positions = (chunk["rows"].start, chunk["columns"].start)
        input_buffer, loads_inputs, before = inputs.take((*positions, chunk["inputs"]), number)
        weight_buffer, loads_weights, others = 0, False, -1
        if loops.weight_buffers:
            key = (chunk["band"], chunk["outputs"].start, chunk["first_input"])
            weight_buffer, loads_weights, others = weights.take(key, number)
        last = max(before if loads_inputs else -1, others if loads_weights else -1)
        if waits := last > waited:
            waited = last
            freeing.add(last)
        held = {
            "input_buffer": input_buffer, "weight_buffer": weight_buffer, "waits": waits,
            "loads_inputs": loads_inputs, "loads_weights": loads_weights,
        }  # fmt: skip
        found.append((chunk, held))
    return tuple(
        Chunk(**chunk, **held, frees=number in freeing)
        for number, (chunk, held) in enumerate(found)
    )


class _Buffers:
    """What lies in the buffers of an operand, the oldest of which is filled next."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.held: dict[Hashable, int] = {}
        self.keys: list[Hashable] = [None] * count
        self.used = [-1] * count
        self.next = 0

    def take(self, key: Hashable, number: int) -> tuple[int, bool, int]:
        """The buffer of what a chunk reads, whether it has to be filled, and the chunk that read
        it last."""
        place = self.held.get(key, -1)
        is_new = place < 0
        if is_new:
            place, self.next = self.next, (self.next + 1) % self.count
            self.held.pop(self.keys[place], None)
            self.keys[place], self.held[key] = key, place
        before, self.used[place] = self.used[place], number
        return place, is_new, before


def _plain_chunks(loops: Loops) -> Iterator[dict[str, Any]]:
    """Fields of chunks in order, without those of buffers."""
    for tile, (index, outputs, rows, columns) in enumerate(_tiles(loops)):
        band = loops.bands[index]
        inputs = band.inputs
        if band.own:
            yield dict(
                band=index, outputs=outputs, inputs=band.inputs_of(outputs), is_whole=True,
                first_input=outputs.start * band.own, rows=rows, columns=columns, tile=tile,
                is_first=True, is_last=True,
            )  # fmt: skip
            continue
        for first in range(0, len(inputs), loops.inputs):
            yield dict(
                band=index, outputs=outputs, inputs=inputs[first : first + loops.inputs],
                is_whole=len(inputs) <= loops.inputs, first_input=first, rows=rows,
                columns=columns, tile=tile, is_first=first == 0,
                is_last=first + loops.inputs >= len(inputs),
            )  # fmt: skip


def _tiles(loops: Loops) -> Iterator[tuple[int, range, range, range]]:
    """Band, blocks of outputs, rows and columns."""
    outputs = [
        (index, mine)
        for index, band in enumerate(loops.bands)
        for mine in ranges(band.outputs, loops.outputs)
    ]
    positions = list(
        itertools.product(
            ranges(range(loops.height), loops.rows), ranges(range(loops.width), loops.columns)
        )
    )
    if loops.order == "positions":
        for rows, columns in positions:
            for index, mine in outputs:
                yield index, mine, rows, columns
        return
    for index, mine in outputs:
        for rows, columns in positions:
            yield index, mine, rows, columns
