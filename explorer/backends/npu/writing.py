"""The instructions of one layer, written where memory is planned: sizes, places, bytes, steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.backends.npu.lowered import LoweredLayers, WrittenStream
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.operation import from_attribute, identity_of
from explorer.ir.structure import value_name
from explorer.ir.weights import Weights
from explorer.npu.cost.bounds import least_of_layer
from explorer.npu.cost.network import LayerSteps
from explorer.npu.cost.prediction import Timeline, micro_operation_bytes
from explorer.npu.cost.steps import ON_CHIP, Step, Traffic, steps_in
from explorer.npu.cost.tile_operands import parts_of
from explorer.npu.layers.layer import Layer
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.compiling import COMPUTE, LOAD, Tiled, write_layer
from explorer.npu.program.ir_layers import laid_out_in
from explorer.npu.program.joining import Before, joined, meets, used_by
from explorer.npu.program.micro_operations import MICRO
from explorer.npu.program.partition import TiledPieces
from explorer.npu.program.stream import Stream
from explorer.npu.tiling.scratchpads import mirrored, moved_to
from explorer.targets.npu.encoding import encode_micro
from explorer.targets.npu.formats import prefetches
from explorer.targets.npu.instructions import Instruction
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class TensorPlaces:
    """Where values lie, by name: in global memory, or in the scratchpad of activations."""

    offsets: Mapping[str, int]
    on_chip: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class LeftBehind(Before):
    """What the next layer finds, and how it came to that."""

    timeline: Timeline | None = None
    """Of the layer as if it ran by itself, as far as another one after it changes nothing; None
    where its steps are not known."""

    def end_cycle(self, steps: Sequence[Step]) -> int:
        """When the next layer ends after this one."""
        assert self.timeline is not None
        return self.timeline.copy().run(steps)


STORED_CONTENTS = ("outputs", "accumulators")
CONSTANTS = ("constants", "factors", "bias")
"""Regions of what the queue that computes loads."""


@dataclass
class Joined:
    """A layer in a program of several."""

    instructions: Sequence[Instruction]
    owners: Sequence[int]
    steps: list[Step]
    traffic: Traffic
    end_cycle: int | None = None
    """In a program of it and the layer before, where that was found."""

    @property
    def bytes(self) -> int:
        """See `LayerSteps`."""
        return self.traffic.bytes + micro_operation_bytes(self.steps)


@dataclass(frozen=True)
class Written:
    """A layer whose instructions are written."""

    operation: str
    layer: Layer
    tiled: Tiled
    stream: Stream
    laid_out: Mapping[str, np.ndarray]
    """Bytes of constants, as they were laid out."""

    def in_program(
        self, before: LeftBehind | None, is_last: bool
    ) -> tuple[tuple[Instruction, ...], LayerSteps]:
        """Its instructions in a program of several layers, and how long each takes."""
        one = self.joined(before, is_last)
        found = LayerSteps(
            operation=self.operation,
            steps=one.steps,
            traffic=one.traffic,
            owners=tuple(one.owners),
            parts=parts_of(self.stream),
            least=least_of_layer(
                self.layer,
                self.stream.machine,
                frozenset(name for name, place in self.stream.places.items() if place.on_chip),
            ),
        )
        return tuple(one.instructions), found

    def joined(self, before: LeftBehind | None, is_last: bool) -> Joined:
        """Where transfers of several queues run at once, constants are prefetched if this layer
        ends sooner after the one before."""
        machine, is_known = self.stream.machine, before is not None and before.timeline is not None
        is_shared = any(engine.channels > 1 for engine in machine.dma_engines)
        has_plain = is_known and is_shared and prefetches(machine)
        made = joined(self.stream, before, is_last, has_plain)
        steps, traffic = steps_in(self.stream, [instructions for instructions, _ in made])
        found = [
            Joined(*one, steps=mine, traffic=traffic) for one, mine in zip(made, steps, strict=True)
        ]
        if before is None or len(found) == 1:
            return found[0]
        ends = [before.end_cycle(one.steps) for one in found]
        best = ends.index(min(ends))
        found[best].end_cycle = ends[best]
        return found[best]

    def left_behind(self, steps: Sequence[Step] = ()) -> LeftBehind:
        """What the next layer finds in use; `steps`: of its instructions, where they are known."""
        tail = 0
        for step in reversed(steps):
            if step.what.removesuffix(ON_CHIP) not in ("finish", *STORED_CONTENTS):
                break
            tail += step.cycles
        machine = self.stream.machine
        memory = machine.by_content["activations"].memory
        used = [
            (memory, place.offset_bytes, place.offset_bytes + place.size_bytes)
            for place in self.stream.places.values()
            if place.on_chip
        ]
        extents = dict.fromkeys(extent for step in steps for extent in step.extents)
        for content, first, last in extents:
            if content in (MICRO, "tables"):  # they are in no buffer of tiles
                space = machine.by_content[content]
                each = space.element_bytes
                used.append((space.memory, first * each, (last + 1) * each))
        found = used_by(self.tiled, used)
        busy: Counter[int] = Counter()
        for step in steps:
            busy[step.queue] += step.cycles
        timeline, idle = None, 0
        if steps:
            timeline = Timeline(machine)
            timeline.run(from_here(steps), is_last=False)
            whole = timeline.copy()
            idle = whole.run(()) - whole.end_of(LOAD)
        return LeftBehind(
            touched=found.touched, stored=found.stored, tail_cycles=tail, timeline=timeline,
            idle_cycles=idle,
            spare_cycles=max(busy.values(), default=0) - busy[LOAD],
        )  # fmt: skip

    @property
    def constants(self) -> dict[str, tuple[int, int]]:
        """Offset and size in bytes of what never changes, by its kind."""
        stream = self.stream
        size = stream.machine.by_content[MICRO].global_bytes * len(stream.micro.operations)
        tensors = {tensor.name for tensor in (*self.layer.inputs, self.layer.output)}
        return {
            name: (place.offset_bytes, size if name == MICRO else place.size_bytes)
            for name, place in stream.places.items()
            if name not in tensors
        }

    def image(self, start: int, end: int) -> np.ndarray:
        """u8: the constants as they lie in global memory between two addresses."""
        micro = encode_micro(self.stream.micro.operations, self.stream.machine)
        image = np.zeros(end - start, np.uint8)
        arrays = {**self.laid_out, MICRO: np.frombuffer(micro, np.uint8)}
        for name, (offset, size) in self.constants.items():
            image[offset - start : offset - start + size] = arrays[name]
        return image


def from_here(steps: Sequence[Step]) -> list[Step]:
    """Those of a layer in a program of several, which wait for no layer before."""
    stores = 2 * COMPUTE + 1  # tokens of the layer before
    first = next((i for i, step in enumerate(steps) if stores in step.takes), None)
    alone = list(steps)
    if first is not None and alone[first].what == "wait":
        takes = tuple(token for token in alone[first].takes if token != stores)
        alone[first] = alone[first]._replace(takes=takes)
    return alone


def written(
    op: LayerOp,
    weights: Weights,
    lowered: LoweredLayers,
    values: TensorPlaces,
    constants_bytes: int,
    before: Before | None = None,
) -> Written:
    """The layer's instructions, its tensors where `values` says. Buffers lie where the operation
    says; else next to those of the layer before, as far as there is room."""
    made = lowered.layer_of(op, weights)
    layer, tiled = made.layer, made.tiled
    if op.scratchpads is not None:
        tiled = moved(tiled, from_attribute(op.scratchpads))
    elif before is not None:
        tiled = mirrored_if_freer(tiled, before, lowered.room_of(op))
    names = {
        tensor.name: value_name(value) for tensor, value in zip(layer.inputs, op.data, strict=False)
    }
    names[layer.output.name] = value_name(op.output)
    addresses = Addresses(
        tensors={tensor: values.offsets[name] for tensor, name in names.items()},
        on_chip=frozenset(tensor for tensor, name in names.items() if name in values.on_chip),
    )
    laid_out = laid_out_in(op, weights)
    if (stream := lowered.stream_of(op, addresses)) is not None:
        found = Written(identity_of(op), layer, tiled, stream, laid_out)
        if op.places is not None and found.constants == from_attribute(op.places):
            return found
    stream = write_layer(tiled, replace(addresses, constants_bytes=constants_bytes))
    stream.complete()
    lowered.keep_stream(op, WrittenStream(addresses=addresses, stream=stream))
    return Written(identity_of(op), layer, tiled, stream, laid_out)


def moved(tiled: Tiled, addresses: Mapping[str, Sequence[int]]) -> Tiled:
    """With buffers at other places, as `scratchpad_addresses` names them."""
    if isinstance(tiled, TiledPieces):
        parts = [
            {name: addresses[f"{name}{index}"] for name, _ in one.regions}
            for index, one in enumerate(tiled.tiled)
        ]
        return replace(
            tiled,
            tiled=tuple(
                replace(one, regions=moved_to(one.regions, mine))
                for one, mine in zip(tiled.tiled, parts, strict=True)
            ),
        )
    return replace(tiled, regions=moved_to(tiled.regions, addresses))


def mirrored_if_freer(tiled: Tiled, before: Before, room: Machine) -> Tiled:
    """From the other end of the scratchpads, if more of its constants can be loaded then while
    the layer before ends. `room`: the machine with the room that its tiles have."""
    if isinstance(tiled, TiledPieces):
        return tiled
    other = mirrored(tiled.regions, room)
    if other is None:
        return tiled
    found = replace(tiled, regions=other)
    return found if _free(found, before) > _free(tiled, before) else tiled


def _free(tiled: Tiled, before: Before) -> tuple[int, int, int]:
    """How many buffers of weights, and of other constants, the layer before does not use, and how
    many of these it does not store from."""
    mine = used_by(tiled)
    assert not isinstance(tiled, TiledPieces)
    names = [name for name, regions in tiled.regions for _ in regions]
    pairs = list(zip(names, mine.touched, strict=True))
    weights = sum(not meets(one, before.touched) for name, one in pairs if name == "weights")
    others = [one for name, one in pairs if name in CONSTANTS]
    prefetched = sum(not meets(one, before.touched) for one in others)
    return weights, prefetched, sum(not meets(one, before.stored) for one in others)


def scratchpad_addresses(tiled: Tiled) -> dict[str, tuple[int, ...]]:
    """Of each buffer of a tile where it begins, in elements of its content."""
    if isinstance(tiled, TiledPieces):
        return {
            f"{name}{index}": addresses
            for index, one in enumerate(tiled.tiled)
            for name, addresses in scratchpad_addresses(one).items()
        }
    return {name: tuple(r.address for r in regions) for name, regions in tiled.regions}
