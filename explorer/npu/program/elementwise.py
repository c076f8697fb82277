"""Elementwise layers as instructions: operands where they lie, then results.

Where no operand lies in the place of the results, these are zeros and the first operand before.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.npu.layers.elementwise import OPERATIONS, Elementwise
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.arithmetic import Arithmetic
from explorer.npu.program.vector import VectorWriter
from explorer.npu.tiling.vector import TiledVectors, VectorTile
from explorer.targets.npu.instructions import Instruction, Vector


class ElementwiseWriter(VectorWriter):
    """Instructions while they are written."""

    def __init__(self, tiled: TiledVectors, made: Elementwise, addresses: Addresses) -> None:
        super().__init__(tiled, addresses)
        self.made = made

    def compute(self, tile: VectorTile) -> Iterator[Instruction]:
        """Operands where they lie, then results."""
        layer, (results, size) = self.made, self.results(tile)
        at = self.tiled.factors_at if layer.factors else 0
        arithmetic = Arithmetic(self, layer, at)
        for index, operand in enumerate(layer.operands):
            if operand.constant is None:
                yield from arithmetic.operand(index, *self._extent_of(tile, index))
            elif index and layer.kind == "sub":
                yield from self.immediate(*self._extent_of(tile, index), "multiply", -1)
        if not layer.is_in_place:
            yield from self.reset(results, size)
            yield from self.gathered(tile, 0, Vector, [(0, 0)], operation="add")
        if len(layer.operands) > 1:
            operation, _ = OPERATIONS[layer.kind]
            yield from self.gathered(tile, 1, Vector, [(0, 0)], operation=operation)
        yield from arithmetic.result(results, size)

    @property
    def factors(self) -> tuple[tuple[int, ...], ...]:
        """As the machine takes them."""
        return self.made.machine_factors(self.machine)

    def _extent_of(self, tile: VectorTile, operand: int) -> tuple[int, int]:
        """Where it begins, and how many accumulators it is."""
        tall, wide = self.extent(tile, self.layer.accesses[operand])
        return self.tiled.start_of(tile, operand), len(tile.blocks) * tall * wide
