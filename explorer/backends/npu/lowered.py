"""Operations as layers in tiles, each made once: from placement to instructions.

    lowered = LoweredLayers(machine)
    lowered.of(op, weights)              the layers that compute an operation, in tiles
    lowered.keep(layer_op, made)         what the operation in the IR stands for
    lowered.layer_of(layer_op, weights)  the same again: read from the IR only where it is not known

Placement queries layers on trial, also of copies of operations. What was made for it is found again
by what the reading depends on (`reach.py`). The key of an operation of the IR is everything that
defines its layer; one that a person has changed, or that another compilation made, is read from its
properties.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from explorer.backends.npu.reach import Reach, reach_of
from explorer.backends.npu.streams import Streams
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.structure import value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.weights import Weights
from explorer.npu.layers.from_operations import ReadLayer, read_operation
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.compiling import Tiled, tile_as, with_machine
from explorer.npu.program.ir_layers import choices_in, layer_in
from explorer.npu.program.rooms import machine_with_room
from explorer.npu.program.stream import Stream
from explorer.npu.search.equal import SearchedLayers
from explorer.npu.search.searching import Found
from explorer.npu.tiling.coded import without_decoders
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class LoweredLayer:
    """One of the layers that compute an operation, in tiles."""

    read: ReadLayer
    found: Found | None
    """Its tiles. None: `problem` is the reason why the machine does not compute it."""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class TiledOperation:
    """What an operation of the IR stands for."""

    layer: Layer
    tiled: Tiled


@dataclass(frozen=True, kw_only=True)
class WrittenStream:
    """Instructions of a layer, and the addresses of its tensors that they are for."""

    addresses: Addresses
    stream: Stream


@dataclass(eq=False)
class LoweredLayers:
    """What has been made for one machine of the programs of one compilation."""

    machine: Machine
    _weights: Weights | None = None
    """The arrays that all of this is of; others begin anew."""
    _read: dict[Hashable, tuple[LoweredLayer, ...] | str] = field(default_factory=dict)
    _tiled: dict[Hashable, TiledOperation] = field(default_factory=dict)
    _streams: dict[Hashable, WrittenStream] = field(default_factory=dict)
    groups: dict[Hashable, Any] = field(default_factory=dict)
    """What `group-layers` found, by the key of a function (`GroupedProgram`)."""
    streams: Streams = field(default_factory=Streams)
    searched: SearchedLayers = field(init=False)
    searched_uncoded: SearchedLayers = field(init=False)
    """For the same machine without decoders."""

    def __post_init__(self) -> None:
        self.searched = SearchedLayers(self.machine)
        self.searched_uncoded = SearchedLayers(without_decoders(self.machine))

    def of(self, op: TopOperation, weights: Weights) -> tuple[LoweredLayer, ...]:
        """LayerError, with the reason, where no layers compute it."""
        self._begin(weights)
        reach = reach_of(op)
        if reach.key not in self._read:
            self._read[reach.key] = self._lower(op, weights, reach)
        found = self._read[reach.key]
        if isinstance(found, str):
            raise LayerError(found)
        return tuple(replace(one, read=_bound(one.read, reach.values)) for one in found)

    def _lower(
        self, op: TopOperation, weights: Weights, reach: Reach
    ) -> tuple[LoweredLayer, ...] | str:
        try:
            read = read_operation(op, weights, self.machine)
        except LayerError as error:
            return error.message
        return tuple(self._tile(_unbound(one, reach.values)) for one in read)

    def _tile(self, read: ReadLayer) -> LoweredLayer:
        try:
            found = self.searched.of(read.layer)
        except LayerError as error:
            return LoweredLayer(read=read, found=None, problem=error.message)
        return LoweredLayer(read=read, found=found)

    def keep(self, op: LayerOp, weights: Weights, layer: Layer, tiled: Tiled) -> None:
        """What an operation of the IR was made of."""
        self._begin(weights)
        self._tiled[_key(op)] = TiledOperation(layer=layer, tiled=tiled)

    def layer_of(self, op: LayerOp, weights: Weights) -> TiledOperation:
        """InputError for an operation that stands for no layer."""
        self._begin(weights)
        key = _key(op)
        if key not in self._tiled:
            layer = layer_in(op, weights)
            tiled = tile_as(layer, self.room_of(op), choices_in(op))
            tiled = with_machine(tiled, self.machine)
            self._tiled[key] = TiledOperation(layer=layer, tiled=tiled)
        return self._tiled[key]

    def program_key(self, function: FuncOp) -> Hashable:
        """Equal for functions of the same layers in the same tiles, over values of the same
        names."""
        return tuple(
            (
                _key(op) if isinstance(op, LayerOp) else (op.name, identity_of(op)),
                tuple(map(value_name, op.operands)),
                tuple(map(value_name, op.results)),
            )
            for op in function.body.block.ops
        )

    def room_of(self, op: LayerOp) -> Machine:
        """The machine with the room that the tiles of an operation have."""
        room = None if op.room is None else op.get("room")
        return machine_with_room(self.machine, room)

    def keep_stream(self, op: LayerOp, written: WrittenStream) -> None:
        """The instructions of an operation at the addresses that were just assigned."""
        self._streams[_key(op)] = written

    def stream_of(self, op: LayerOp, addresses: Addresses) -> Stream | None:
        """Those that were kept, if its tensors still lie there."""
        kept = self._streams.get(_key(op))
        return None if kept is None or kept.addresses != addresses else kept.stream

    def clear(self) -> None:
        """Once all is instructions: arrays of layers take eight bytes for each weight."""
        self._weights = None
        for kept in (self._read, self._tiled, self._streams, self.groups):
            kept.clear()
        self.streams.clear()

    def _begin(self, weights: Weights) -> None:
        if self._weights is not weights:
            self.clear()
            self._weights = weights


def _unbound(read: ReadLayer, values: tuple[SSAValue, ...]) -> ReadLayer:
    """With numbers in place of values: below 0, for others are those of earlier layers."""
    return replace(read, reads=tuple(
        v if isinstance(v, int) else -1 - values.index(v) for v in read.reads
    ))  # fmt: skip


def _bound(read: ReadLayer, values: tuple[SSAValue, ...]) -> ReadLayer:
    return replace(read, reads=tuple(
        values[-1 - v] if isinstance(v, int) and v < 0 else v for v in read.reads
    ))  # fmt: skip


def _key(op: LayerOp) -> Hashable:
    """All that defines the layer of an operation, and its tiles."""
    constants = tuple(v.owner.weight.data for v in op.operands if isinstance(v.owner, WeightOp))
    count = len(op.get("constants", ()))
    fields = tuple(op.fields.items())
    return identity_of(op), op.name, fields, op.tiles, op.room, constants[:count]
