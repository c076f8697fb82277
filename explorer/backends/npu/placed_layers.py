"""Layers of a function in their tiles, next to tensors that lie in the scratchpad of activations.

layers = PlacedLayers(machine, lowered, ops, weights)
layers.programs_with({"%conv1": 442368}).cost(at)     cycles and bytes of the whole program
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from explorer.backends.npu.lowered import LoweredLayers
from explorer.backends.npu.refining import Programs
from explorer.backends.npu.writing import LeftBehind, Written, mirrored_if_freer
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.operation import identity_of
from explorer.ir.structure import value_name
from explorer.ir.weights import Weights
from explorer.npu.layers.tensors import alignment_bytes
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.compiling import Tiled
from explorer.npu.program.rooms import machine_with_room
from explorer.targets.npu.machine import Machine

Lying = Mapping[str, int]
"""Bytes in the scratchpad of activations by the name of a value."""


@dataclass(frozen=True, kw_only=True)
class LayerAt:
    """A layer in tiles that have a room, and what that takes."""

    tiled: Tiled
    room: int | None
    cycles: int


class PlacedLayers:
    """The layers of a function; what was written of them is kept."""

    def __init__(
        self, machine: Machine, lowered: LoweredLayers, layers: Sequence[LayerOp], weights: Weights
    ) -> None:
        self.machine, self.lowered, self.layers = machine, lowered, layers
        self.made = [lowered.layer_of(op, weights) for op in layers]
        self.mirrored: dict[Hashable, tuple[Tiled, Tiled]] = {}
        """Tiles, and these from the other end of the scratchpads."""
        self.programs: tuple[Lying, Programs[LayerAt]] | None = None

    def programs_with(self, places: Lying) -> Programs[LayerAt]:
        """Those in which tensors stay there; others are asked for no more."""
        if self.programs is None or self.programs[0] != places:
            write = partial(self._written, dict(places))
            self.programs = dict(places), Programs(self.machine, len(self.layers), write)
        return self.programs[1]

    def _written(self, places: Lying, step: int, at: LayerAt, before: LeftBehind | None) -> Written:
        """A layer after the one before."""
        tiled = at.tiled
        if before is not None:
            tiled = self._mirrored_if_freer(tiled, before, at.room)
        stream = self.lowered.streams.of(tiled, self.addresses(step, places))
        return Written(identity_of(self.layers[step]), self.made[step].layer, tiled, stream, {})

    def _mirrored_if_freer(self, tiled: Tiled, before: LeftBehind, room: int | None) -> Tiled:
        """The same object for the same tiles."""
        found = mirrored_if_freer(tiled, before, machine_with_room(self.machine, room))
        if found is tiled:
            return tiled
        return self.mirrored.setdefault((id(tiled), room), (tiled, found))[1]

    def touched(self, step: int, places: Lying) -> frozenset[str]:
        """Tensors of a layer that stay, by the names that the layer has for them."""
        return frozenset(name for name, value in self.tensors(step) if value in places)

    def tensors(self, step: int) -> Iterator[tuple[str, str]]:
        op, layer = self.layers[step], self.made[step].layer
        for tensor, value in zip(layer.inputs, op.data, strict=False):
            yield tensor.name, value_name(value)
        yield layer.output.name, value_name(op.output)

    def addresses(self, step: int, places: Lying) -> Addresses:
        """Tensors that do not stay lie somewhere in global memory."""
        each, end, found = alignment_bytes(self.machine), 0, dict[str, int]()
        layer = self.made[step].layer
        sizes = {t.name: t.size_bytes(self.machine) for t in (*layer.inputs, layer.output)}
        for name, value in self.tensors(step):
            found[name] = places.get(value, end)
            end += 0 if value in places else -(-sizes[name] // each) * each
        return Addresses(tensors=found, on_chip=self.touched(step, places))
