"""Where tensors and constants of a layer lie in global memory.

Tensors lie in the target's first memory, what never changes in its last one, each at an offset of
the caller's or one behind the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.tensors import Tensor, alignment_bytes, blocks
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A tensor, or constants, in global memory; or a tensor in the scratchpad of activations."""

    offset_bytes: int
    size_bytes: int
    on_chip: bool = False


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """What a caller says of where things lie."""

    tensors: Mapping[str, int] | None = None
    """Offsets in bytes of all inputs and of the output, by name: multiples of
    `alignment_bytes`."""
    on_chip: frozenset[str] = frozenset()
    """Those of them that lie in the scratchpad of activations, to which their offsets are."""
    base_bytes: int = 0
    """Where tensors begin if `tensors` does not say so."""
    constants_bytes: int | None = None
    """Where constants and micro-operations begin; None: behind the tensors."""


ANYWHERE = Addresses()


def place(
    name: str,
    machine: Machine,
    tensors: Sequence[Tensor],
    constants: Mapping[str, tuple[str, int]],
    addresses: Addresses,
) -> dict[str, Placed]:
    """`constants`: content and size in bytes by name. `name` is the layer's.

    The last place, of micro-operations, has no size before they are written. Raises `LayerError`
    where tensors go beyond the first memory.
    """
    places: dict[str, Placed] = {}
    each, end = alignment_bytes(machine), addresses.base_bytes
    for tensor in tensors:
        size = tensor.size_bytes(machine)
        start = blocks(end, each) * each
        if addresses.tensors is not None:
            start = addresses.tensors[tensor.name]
            assert start % each == 0, f"{tensor.name} lies at {start}, no multiple of {each}"
        is_inside = tensor.name in addresses.on_chip
        places[tensor.name] = Placed(offset_bytes=start, size_bytes=size, on_chip=is_inside)
        end = end if is_inside else max(end, start + size)
    first = machine.regions[0]
    if first.size_bytes is not None and end > first.size_bytes:
        raise LayerError(
            f"{name} does not fit {machine.name}: inputs and output take {end} bytes of "
            f"{first.name}, which has {first.size_bytes}"
        )
    end = max(end, machine.regions[-1].start_bytes)
    if addresses.constants_bytes is not None:
        end = addresses.constants_bytes
    for constant, (content, size) in (
        *constants.items(), ("micro_operations", ("micro_operations", 0)),
    ):  # fmt: skip
        width = machine.by_content[content].global_bytes
        start = blocks(end, width) * width
        places[constant] = Placed(offset_bytes=start, size_bytes=size)
        end = start + size
    return places
