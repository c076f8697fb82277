"""The instructions of one layer, written where memory is planned: sizes, places, bytes, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explorer.backends.npu.lowered import LoweredLayers, WrittenStream
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.operation import from_attribute, identity_of
from explorer.ir.structure import value_name
from explorer.ir.weights import Weights
from explorer.npu.cost.network import LayerSteps
from explorer.npu.cost.steps import steps_in
from explorer.npu.cost.tile_operands import parts_of
from explorer.npu.layers.layer import Layer
from explorer.npu.program.addresses import Addresses
from explorer.npu.program.compiling import Tiled, write_layer
from explorer.npu.program.ir_layers import laid_out_in
from explorer.npu.program.partition import TiledPieces
from explorer.npu.program.stream import Stream
from explorer.targets.npu.encoding import encode_micro

MICRO = "micro_operations"


@dataclass(frozen=True)
class Written:
    """A layer whose instructions are written."""

    operation: str
    layer: Layer
    tiled: Tiled
    stream: Stream
    laid_out: Mapping[str, np.ndarray]
    """Bytes of constants, as they were laid out."""

    @cached_property
    def steps(self) -> LayerSteps:
        """How long each instruction takes."""
        steps, traffic = steps_in(self.stream)
        return LayerSteps(
            operation=self.operation,
            steps=steps,
            traffic=traffic,
            owners=tuple(self.stream.owners),
            parts=parts_of(self.stream),
        )

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


def written(
    op: LayerOp,
    weights: Weights,
    lowered: LoweredLayers,
    offsets: Mapping[str, int],
    constants_bytes: int,
) -> Written:
    """The layer's instructions, its tensors at `offsets`, by the name of the value."""
    made = lowered.layer_of(op, weights)
    layer, tiled = made.layer, made.tiled
    tensors = {
        tensor.name: offsets[value_name(value)]
        for tensor, value in zip(layer.inputs, op.data, strict=False)
    }
    tensors[layer.output.name] = offsets[value_name(op.output)]
    laid_out = laid_out_in(op, weights)
    if (stream := lowered.stream_of(op, tensors)) is not None:
        found = Written(identity_of(op), layer, tiled, stream, laid_out)
        if op.places is not None and found.constants == from_attribute(op.places):
            return found
    stream = write_layer(tiled, Addresses(tensors=tensors, constants_bytes=constants_bytes))
    stream.complete()
    lowered.keep_stream(op, WrittenStream(tensors=tensors, stream=stream))
    return Written(identity_of(op), layer, tiled, stream, laid_out)


def scratchpad_addresses(tiled: Tiled) -> dict[str, tuple[int, ...]]:
    """Of each buffer of a tile where it begins, in elements of its content."""
    if isinstance(tiled, TiledPieces):
        return {
            f"{name}{index}": addresses
            for index, one in enumerate(tiled.tiled)
            for name, addresses in scratchpad_addresses(one).items()
        }
    return {name: tuple(r.address for r in regions) for name, regions in tiled.regions}
