"""A function of level instructions as a program: a launch is a layer, its kernel its listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.backends.npu.network import Network, Section, ValueAt
from explorer.ir.deferred import ArrayForm, Deferred
from explorer.kernels.program.build import BuiltProgram
from explorer.results import (
    Argument,
    KernelRecord,
    Launch,
    PhaseRecord,
    Port,
    Program,
    SourceText,
    WeightSlot,
)
from explorer.results.program import Tap
from explorer.targets import Target

LANGUAGE = "npu"


@dataclass(frozen=True, kw_only=True)
class BuiltNetwork(BuiltProgram):
    """A program, and what runs it."""

    network: Network | None = None
    clock_hz: float | None = None
    """Of the target; None where it does not say one."""


def build_network(
    network: Network, target: Target, inputs: Sequence[str], outputs: Sequence[str]
) -> BuiltNetwork:
    """The program of a device function; `inputs` and `outputs` name its ports in order.

    The arena are the tensors in global memory, the block of weights are the constants; offsets of
    both count from the first byte of global memory and of the constants.
    """
    start = constants_begin(network)
    size = max((s.constants_offset + s.constants.size for s in network.sections), default=start)
    block = network.image()[start:size]
    form = ArrayForm((block.size,), np.dtype(np.uint8))
    tensors = [place.offset_bytes + place.size_bytes(network.machine)
               for place in network.values.values()]  # fmt: skip
    program = Program(
        target=target.name,
        source=_listing(network.sections),
        kernels=tuple(_kernel(section, network) for section in network.sections),
        launches=tuple(_launch(section, network, start) for section in network.sections),
        inputs=_ports(inputs, network.arguments, network.values),
        outputs=_ports(outputs, network.results, network.values),
        taps=tuple(_tap(i, s, network) for i, s in enumerate(network.sections)),
        weights=tuple(
            WeightSlot(s.operation, s.constants_offset - start, s.constants.size)
            for s in network.sections
        ),
        arena_bytes=max(tensors, default=0),
        weights_bytes=block.size,
    )
    packed = Deferred(form, lambda: block)
    return BuiltNetwork(program, packed, network=network, clock_hz=target.clock_hz)


def constants_begin(network: Network) -> int:
    """Where in global memory the constants begin."""
    starts = [section.constants_offset for section in network.sections]
    return min(starts, default=network.space_bytes)


def _listing(sections: Sequence[Section]) -> SourceText:
    """All instructions, a line each, below a line that names the layer."""
    lines: list[str] = []
    owners: list[tuple[str, ...]] = []
    for section in sections:
        text = listing_of(section)
        lines += text.lines
        owners += text.owners
    return SourceText(LANGUAGE, tuple(lines), tuple(owners))


def listing_of(section: Section) -> SourceText:
    """The instructions of a layer, numbered as in the program."""
    count = len(section.instructions)
    head = f"# {section.operation}: {section.title}, {count:,} instructions from {section.first:,}"
    owner = (section.operation,)
    lines = (head, *section.assembly)
    return SourceText(LANGUAGE, lines, (owner,) * len(lines))


def _kernel(section: Section, network: Network) -> KernelRecord:
    size = lambda name: network.values[name].size_bytes(network.machine)  # noqa: E731
    return KernelRecord(
        name=section.operation,
        kind=section.title,
        operations=(section.operation,),
        flops=2 * section.macs,
        bytes_moved=sum(map(size, (*section.reads, section.writes))) + section.constants.size,
        steps=(),
        phases=(PhaseRecord(section.operation, 1),),
        source=listing_of(section),
    )


def _launch(section: Section, network: Network, start: int) -> Launch:
    def argument(name: str, role: str) -> Argument:
        place = network.values[name]
        size = place.size_bytes(network.machine)
        return Argument(name, "arena", place.offset_bytes, size, role)

    constants = Argument(
        f"{section.operation}.constants", "weights", section.constants_offset - start,
        section.constants.size, "weight",
    )  # fmt: skip
    return Launch(
        operation=section.operation,
        kernel=section.operation,
        arguments=(
            *(argument(name, "input") for name in section.reads),
            constants,
            argument(section.writes, "output"),
        ),
        sources=section.sources,
    )


def _ports(
    names: Sequence[str], values: Sequence[str], places: Mapping[str, ValueAt]
) -> tuple[Port, ...]:
    found = []
    for name, value in zip(list(names) or list(values), values, strict=True):
        stored = places[value].stored
        found.append(
            Port(
                name=name,
                element_type=stored.element_type,
                shape=stored.logical_shape,
                offset_bytes=places[value].offset_bytes,
                size_bytes=prod(stored.logical_shape) * np.dtype(stored.element_type).itemsize,
            )
        )
    return tuple(found)


def _tap(step: int, section: Section, network: Network) -> Tap:
    """The value as the program means it: whoever runs it takes it out of its blocks."""
    place = network.values[section.writes]
    shape, kind = place.stored.logical_shape, place.stored.element_type
    return Tap(
        operation=section.operation,
        result=0,
        step=step,
        offset_bytes=place.offset_bytes,
        size_bytes=prod(shape) * np.dtype(kind).itemsize,
        element_type=kind,
        shape=shape,
        logical_shape=shape,
    )
