"""Tiles in a part of the scratchpad of activations, next to tensors that stay in the rest of it.

    small = machine_with_room(machine, 262144)     the same with a smaller scratchpad
    tiled = tile_in_room(layer, machine, 262144, lambda small: tile_as(layer, small, choices))

Tiles lie at the beginning, tensors at the end. Banks stay whole, so that a buffer that has banks
of its own in the smaller scratchpad has them in the larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from explorer.npu.layers.layer import RoomError
from explorer.npu.program.compiling import Tiled, with_machine
from explorer.npu.program.partition import TiledPieces
from explorer.targets.npu.machine import Machine


def room_bytes(machine: Machine) -> int:
    """Of the whole scratchpad."""
    return machine.scratchpads[machine.by_content["activations"].memory].size_bytes or 0


def room_before(machine: Machine, offset: int) -> int:
    """Bytes of whole banks before a tensor."""
    pad = machine.scratchpads[machine.by_content["activations"].memory]
    bank = (pad.size_bytes or 0) // pad.banks if pad.banks > 1 else 1
    return offset // bank * bank


@lru_cache(maxsize=256)
def machine_with_room(machine: Machine, room: int | None) -> Machine:
    """With so many bytes of that scratchpad, which are whole banks; None: with all of them.
    `RoomError` where a content has no element left."""
    at = machine.by_content["activations"].memory
    pad = machine.scratchpads[at]
    if room is None or room >= (pad.size_bytes or 0):
        return machine
    size = room_before(machine, room)
    banks = size * pad.banks // (pad.size_bytes or 1) if pad.banks > 1 else 1
    spaces = tuple(
        replace(space, depth=size // space.element_bytes) if space.memory == at else space
        for space in machine.spaces
    )
    if not banks or not all(space.depth for space in spaces):
        raise RoomError(f"{size} bytes of {pad.name} hold no tile")
    pads = list(machine.scratchpads)
    pads[at] = replace(pad, size_bytes=size, banks=banks)
    return replace(machine, scratchpads=tuple(pads), spaces=spaces)


def tile_in_room(machine: Machine, room: int | None, tile: Callable[[Machine], Tiled]) -> Tiled:
    """What `tile` makes for a machine with that room, for the whole machine."""
    return with_machine(tile(machine_with_room(machine, room)), machine)


def end_of(tiled: Tiled) -> int:
    """Where in the scratchpad of activations the tiles end, in bytes."""
    parts = tiled.tiled if isinstance(tiled, TiledPieces) else (tiled,)
    machine = parts[0].machine
    memory = machine.by_content["activations"].memory
    return max(
        (
            (region.address + region.elements) * space.element_bytes
            for part in parts
            for _, regions in part.regions
            for region in regions
            if (space := machine.by_content[region.content]).memory == memory
        ),
        default=0,
    )
