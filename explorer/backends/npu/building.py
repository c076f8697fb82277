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
from explorer.results.program import ProgramMemory, Tap
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

    The arena are the tensors in global memory, followed by those that stay on the chip; the block
    of weights are the constants. Offsets of both count from the first byte of global memory and of
    the constants.
    """
    start = constants_begin(network)
    size = max((s.constants_offset + s.constants.size for s in network.sections), default=start)
    block = network.image()[start:size]
    form = ArrayForm((block.size,), np.dtype(np.uint8))
    arena, memories = _arena(network)
    program = Program(
        target=target.name,
        source=_listing(network.sections),
        kernels=tuple(_kernel(section, network) for section in network.sections),
        launches=tuple(_launch(section, network, arena, start) for section in network.sections),
        inputs=_ports(inputs, network.arguments, network.values),
        outputs=_ports(outputs, network.results, network.values),
        taps=tuple(_tap(i, s, network, arena) for i, s in enumerate(network.sections)),
        weights=tuple(
            WeightSlot(s.operation, s.constants_offset - start, s.constants.size)
            for s in network.sections
        ),
        arena_bytes=max((m.offset_bytes + m.size_bytes for m in memories), default=arena.end),
        weights_bytes=block.size,
        memories=memories,
    )
    packed = Deferred(form, lambda: block)
    return BuiltNetwork(program, packed, network=network, clock_hz=target.clock_hz)


@dataclass(frozen=True, kw_only=True)
class _Arena:
    """Where values lie in the arena."""

    end: int
    """Of those in global memory."""
    shift: int
    """From the place of one in the scratchpad of activations to its place in the arena."""
    chip: str
    """Name of that scratchpad."""

    def offset(self, place: ValueAt) -> int:
        return place.offset_bytes + (self.shift if place.on_chip else 0)


def _arena(network: Network) -> tuple[_Arena, tuple[ProgramMemory, ...]]:
    """Global memory first, then the part of the scratchpad in which tensors stay."""
    machine = network.machine
    ends = {False: 0, True: 0}
    for place in network.values.values():
        end = place.offset_bytes + place.size_bytes(machine)
        ends[place.on_chip] = max(ends[place.on_chip], end)
    kept = [place.offset_bytes for place in network.values.values() if place.on_chip]
    chip = machine.scratchpads[machine.by_content["activations"].memory].name
    first, end = min(kept, default=0), ends[False]
    memories = (ProgramMemory(machine.regions[0].name, 0, end),
                ProgramMemory(chip, end, ends[True] - first)) if kept else ()  # fmt: skip
    return _Arena(end=end, shift=end - first, chip=chip), memories


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


def _launch(section: Section, network: Network, arena: _Arena, start: int) -> Launch:
    def argument(name: str, role: str) -> Argument:
        place = network.values[name]
        size = place.size_bytes(network.machine)
        space = arena.chip if place.on_chip else "arena"
        return Argument(name, space, arena.offset(place), size, role)

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


def _tap(step: int, section: Section, network: Network, arena: _Arena) -> Tap:
    """The value as the program means it: whoever runs it takes it out of its blocks."""
    place = network.values[section.writes]
    shape, kind = place.stored.logical_shape, place.stored.element_type
    return Tap(
        operation=section.operation,
        result=0,
        step=step,
        offset_bytes=arena.offset(place),
        size_bytes=prod(shape) * np.dtype(kind).itemsize,
        element_type=kind,
        shape=shape,
        logical_shape=shape,
    )
