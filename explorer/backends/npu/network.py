"""A function as a program of instructions: what runs it, whole or layer by layer.

network = network_of(function, weights, machine)       of level instructions
network.program, network.image()                       bytes, and global memory before the run
values, simulation = network.run([x])                  every value by name, cycles, counters
values = network.run_by_layers([x], {"conv1": other})  each layer by itself, on what it is fed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import SSAValue

from explorer.errors import InputError
from explorer.ir.dialects.npu import ARGUMENT_OFFSETS, SPACE_BYTES, InstructionsOp
from explorer.ir.operation import LinesAttr, TopOperation, from_attribute, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.structure import value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.npu.layers.value_layout import Stored, stored_form
from explorer.runtime.npu import Simulation, Tap, activation_bytes, simulate
from explorer.targets.npu.assembly import assemble
from explorer.targets.npu.encoding import encode
from explorer.targets.npu.instructions import Finish, Instruction, Load
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class ValueAt:
    """A value in global memory, or in the scratchpad of activations."""

    stored: Stored
    offset_bytes: int
    on_chip: bool = False

    def write(self, image: np.ndarray, array: np.ndarray, machine: Machine) -> None:
        data = self.stored.tensor.pack(self.stored.signed(array), machine)
        image[self.offset_bytes : self.offset_bytes + data.size] = data

    def size_bytes(self, machine: Machine) -> int:
        return self.stored.tensor.size_bytes(machine)

    def read(self, data: np.ndarray, machine: Machine) -> np.ndarray:
        """The program's value out of the bytes that begin where it lies."""
        mine = data[: self.size_bytes(machine)]
        return self.stored.logical(self.stored.tensor.unpack(mine, machine))


def _is_idle(op: Instruction) -> bool:
    """Whether it moves nothing. The first such one of every section but the first waits for the
    layer before; instructions ahead of it do not wait."""
    return isinstance(op, Load) and not op.x_size


@dataclass(frozen=True, kw_only=True)
class Section:
    """The instructions of one layer."""

    operation: str
    sources: tuple[str, ...]
    """Nodes of the source model."""
    title: str
    macs: int
    reads: tuple[str, ...]
    writes: str
    instructions: tuple[Instruction, ...]
    assembly: tuple[str, ...]
    first: int
    """Number of its first instruction in the whole program."""
    constants: np.ndarray
    """u8: weights, factors and micro-operations."""
    constants_offset: int

    @property
    def last(self) -> int:
        return self.first + len(self.instructions) - 1

    @property
    def alone(self) -> tuple[Instruction, ...]:
        """The same as a program of its own, which waits for no layer before."""
        mine = list(self.instructions)
        if self.first:
            first = next((i for i, op in enumerate(mine) if _is_idle(op)), None)
            if first is not None:
                mine[first] = replace(mine[first], pop_after=False)
        is_end = isinstance(mine[-1], Finish)
        return tuple(mine) if is_end else (*mine, Finish(pop_after=True))


@dataclass(frozen=True, kw_only=True)
class Network:
    name: str
    machine: Machine
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    values: Mapping[str, ValueAt]
    """Arguments, and what sections write and views show."""
    views: Mapping[str, str]
    """By the value that shows it, the value whose bytes they are."""
    sections: tuple[Section, ...]
    space_bytes: int

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        return tuple(i for section in self.sections for i in section.instructions)

    @cached_property
    def program(self) -> bytes:
        return b"".join(self._encoded(section) for section in self.sections)

    def _encoded(self, section: Section) -> bytes:
        try:
            return encode(section.instructions, self.machine)
        except InputError as error:
            raise InputError(
                f"{section.operation} cannot be encoded for {self.machine.name}: {error.message}"
            ) from error

    def image(self, sections: Sequence[Section] | None = None) -> np.ndarray:
        """u8: global memory with all constants, or with those of some sections."""
        image = np.zeros(self.space_bytes, np.uint8)
        for section in self.sections if sections is None else sections:
            start = section.constants_offset
            image[start : start + section.constants.size] = section.constants
        return image

    def image_with(self, given: Sequence[np.ndarray]) -> np.ndarray:
        """Global memory before a run."""
        image = self.image()
        for name, array in zip(self.arguments, given, strict=True):
            self.values[name].write(image, array, self.machine)
        return image

    @cached_property
    def taps(self) -> tuple[Tap, ...]:
        """What every section writes, as soon as it has ended."""
        return tuple(
            Tap(
                name=section.writes,
                instruction=section.last,
                offset_bytes=self.values[section.writes].offset_bytes,
                size_bytes=self.values[section.writes].size_bytes(self.machine),
                on_chip=self.values[section.writes].on_chip,
            )
            for section in self.sections
        )

    def run(
        self,
        given: Sequence[np.ndarray],
        has_taps: bool = True,
        time_limit_seconds: float = 600.0,
    ) -> tuple[dict[str, np.ndarray], Simulation]:
        """All values by name (without taps arguments and results only), and the run."""
        taps = self.taps if has_taps else ()
        image = self.image_with(given)
        found = simulate(
            self.program, image, self.machine, taps=taps, time_limit_seconds=time_limit_seconds
        )
        values = dict(zip(self.arguments, given, strict=True))
        for name, data in found.taps.items():
            values[name] = self.values[name].read(np.frombuffer(data, np.uint8), self.machine)
        after = np.frombuffer(found.image, np.uint8)
        for name in self.results:
            if name not in values:
                place = self.values[name]
                values[name] = place.read(after[place.offset_bytes :], self.machine)
        if has_taps:
            self._show_views(values)
        return values, found

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Layers by operation, in order: those that tensors on the chip connect are a group."""
        found: dict[str, list[str]] = {}
        for section in self.sections:
            mine = [section.operation]
            for name in map(self._shown, section.reads):
                if self.values[name].on_chip and (other := found[name]) is not mine:
                    other += mine
                    found |= {value: other for value, group in found.items() if group is mine}
                    mine = other
            found[section.writes] = mine
        groups = {id(group): tuple(group) for group in found.values()}
        return tuple(groups.values())

    def _shown(self, name: str) -> str:
        """What a view shows, through all views."""
        while name in self.views:
            name = self.views[name]
        return name

    def run_by_layers(
        self,
        given: Sequence[np.ndarray],
        replaced: Mapping[str, np.ndarray],
        time_limit_seconds: float = 600.0,
    ) -> dict[str, np.ndarray]:
        """All values, each section a program of its own that reads what is fed to it.

        `replaced`: what a value is taken for by whoever reads it.
        """
        values = dict(zip(self.arguments, given, strict=True))
        fed = dict(values)

        def feed(name: str, array: np.ndarray) -> None:
            values[name], fed[name] = array, replaced.get(name, array)
            for view in (v for v, shown in self.views.items() if shown == name):
                feed(view, self._viewed(view, fed[name]))

        for name, array in list(values.items()):
            feed(name, array)
        for section in self.sections:
            image = self.image([section])
            chip = np.zeros(activation_bytes(self.machine), np.uint8)
            for name in section.reads:
                memory = chip if self.values[name].on_chip else image
                self.values[name].write(memory, fed[name], self.machine)
            place, alone = self.values[section.writes], section.alone
            made = Tap(
                name=section.writes, instruction=len(alone) - 1, offset_bytes=place.offset_bytes,
                size_bytes=place.size_bytes(self.machine), on_chip=place.on_chip,
            )  # fmt: skip
            found = simulate(
                encode(alone, self.machine), image, self.machine, taps=[made], on_chip=chip,
                time_limit_seconds=time_limit_seconds,
            )  # fmt: skip
            data = np.frombuffer(found.taps[section.writes], np.uint8)
            feed(section.writes, place.read(data, self.machine))
        return values

    def _show_views(self, values: dict[str, np.ndarray]) -> None:
        for view, shown in self.views.items():
            if shown in values:
                values[view] = self._viewed(view, values[shown])

    def _viewed(self, view: str, array: np.ndarray) -> np.ndarray:
        """What a view means where that is the value that it shows."""
        own, shown = (self.values[name].stored for name in (view, self.views[view]))
        if shown.unfolding is not None and own.unfolding is None:
            return own.logical(shown.signed(array))
        return own.restored(shown.viewed(array))


def network_of(
    function: func.FuncOp, weights: Mapping[str, np.ndarray], machine: Machine
) -> Network:
    """What a function of level `instructions` says. InputError where it says no program."""
    block = function.body.block
    offsets = argument_offsets(function)
    values = {
        value_name(argument): ValueAt(stored=_stored(argument), offset_bytes=offset)
        for argument, offset in zip(block.args, offsets, strict=True)
    }
    views: dict[str, str] = {}
    sections: list[Section] = []
    results: tuple[str, ...] = ()
    for op in block.ops:
        if isinstance(op, InstructionsOp):
            name = value_name(op.output)
            is_inside = op.on_chip is not None
            values[name] = ValueAt(
                stored=_stored(op.output), on_chip=is_inside,
                offset_bytes=op.get("on_chip" if is_inside else "offset"),
            )  # fmt: skip
            sections.append(_section(op, weights, sections))
        elif isinstance(op, ReturnOp):
            results = tuple(value_name(value) for value in op.operands)
        elif isinstance(op, TopOperation) and op.is_view:
            shown = value_name(op.operands[0])
            views[value_name(op.results[0])] = shown
            values[value_name(op.results[0])] = ValueAt(
                stored=_stored(op.results[0]), offset_bytes=values[shown].offset_bytes,
                on_chip=values[shown].on_chip,
            )  # fmt: skip
        elif not isinstance(op, WeightOp):
            raise InputError(f"{identity_of(op)}: {op.name} is no instruction of {machine.name}")
    return Network(
        name=function.sym_name.data,
        machine=machine,
        arguments=tuple(value_name(argument) for argument in block.args),
        results=results,
        values=values,
        views=views,
        sections=tuple(sections),
        space_bytes=space_bytes(function),
    )


def _section(
    op: InstructionsOp, weights: Mapping[str, np.ndarray], before: Sequence[Section]
) -> Section:
    constant = op.operands[-1].owner
    assert isinstance(constant, WeightOp)
    return Section(
        operation=identity_of(op),
        sources=sources_of(op),
        title=op.label(),
        macs=op.macs(),
        reads=tuple(value_name(value) for value in op.data),
        writes=value_name(op.output),
        instructions=_instructions(op),
        assembly=op.texts,
        first=before[-1].last + 1 if before else 0,
        constants=np.asarray(weights[constant.weight.data]),
        constants_offset=op.get("constants_offset"),
    )


def _instructions(op: InstructionsOp) -> tuple[Instruction, ...]:
    """Those that the compiler wrote the text of; else those that the text says."""
    if isinstance(op.lines, LinesAttr):
        return op.lines.data.meant
    try:
        return assemble("\n".join(op.texts)).instructions
    except InputError as error:
        raise InputError(f"{identity_of(op)}: {error.message}", hint=error.hint) from error


def _stored(value: SSAValue) -> Stored:
    return stored_form(value, value_name(value))


def argument_offsets(function: func.FuncOp) -> tuple[int, ...]:
    """Where the arguments lie; none before memory is planned."""
    attribute = function.attributes.get(ARGUMENT_OFFSETS)
    return from_attribute(attribute) if isinstance(attribute, DenseArrayBase) else ()


def space_bytes(function: func.FuncOp) -> int:
    """Size of global memory as far as the function uses it."""
    attribute = function.attributes.get(SPACE_BYTES)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else 0
