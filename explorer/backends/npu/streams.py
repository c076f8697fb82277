"""Tiles, instructions and cycles of layers, each found once for several programs.

    streams = Streams()
    streams.tiles(key, layer, make)      what `make` made for the key and layer before
    streams.of(tiled, addresses)         the stream, written
    streams.cycles(tiled, addresses)     of the layer by itself

Programs that are compared have most layers in common, in the same tiles and with the same tensors
on the chip. Instructions take much memory: of streams those are kept that were asked for last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from explorer.npu.cost.prediction import end_cycle
from explorer.npu.cost.steps import steps_in
from explorer.npu.layers.layer import LayerError
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.compiling import Tiled, write_layer
from explorer.npu.program.stream import Stream

Made = TypeVar("Made")
MAX_INSTRUCTIONS = 100_000
"""Of all streams that are kept."""


class Streams:
    """What was asked for so far; tiles are known by their identity."""

    def __init__(self) -> None:
        self._streams: OrderedDict[Hashable, tuple[Tiled, Stream]] = OrderedDict()
        self._cycles: dict[Hashable, tuple[Tiled, int]] = {}
        self._instructions = 0
        self._tiles: dict[Hashable, tuple[object, object]] = {}

    def tiles(self, key: Hashable, owner: object, make: Callable[[], Made]) -> Made:
        """The same object for the same key and owner, a layer or tiles; or the same error."""
        key = key, id(owner)
        if key not in self._tiles:
            try:
                self._tiles[key] = owner, make()
            except LayerError as error:
                self._tiles[key] = owner, error
        found = self._tiles[key][1]
        if isinstance(found, LayerError):
            raise found
        return cast("Made", found)

    def of(self, tiled: Tiled, addresses: Addresses) -> Stream:
        """All instructions are written."""
        key = _key(tiled, addresses)
        if key in self._streams:
            self._streams.move_to_end(key)
            return self._streams[key][1]
        stream = write_layer(tiled, addresses)
        stream.complete()
        self._streams[key] = tiled, stream
        self._instructions += len(stream.instructions)
        while self._instructions > MAX_INSTRUCTIONS:
            _, (_, oldest) = self._streams.popitem(last=False)
            self._instructions -= len(oldest.instructions)
        return stream

    def cycles(self, tiled: Tiled, addresses: Addresses) -> int:
        """Of the layer by itself."""
        key = _key(tiled, addresses)
        if key not in self._cycles:
            stream = self.of(tiled, addresses)
            (steps,), _ = steps_in(stream, [stream.instructions])
            self._cycles[key] = tiled, end_cycle(tiled.machine, steps)
        return self._cycles[key][1]

    def clear(self) -> None:
        self._streams.clear()
        self._cycles.clear()
        self._tiles.clear()
        self._instructions = 0


def _key(tiled: Tiled, addresses: Addresses) -> Hashable:
    tensors = None if addresses.tensors is None else tuple(sorted(addresses.tensors.items()))
    rest = addresses.on_chip, addresses.base_bytes, addresses.constants_bytes
    return id(tiled), tensors, rest
