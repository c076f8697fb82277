"""What another choice for one layer changes in the whole program, predicted without compiling it.

    model = MachineModel(results, machine, decisions)
    model.effect("tile-layers/conv3/rows", 7)         Effect(cycles=-812, traffic_bytes=0, ...)
    model.effect("group-layers/keep/conv3", False)    the same tiles, and a tensor less on the chip

Choices that are not given are searched for, as `tile-layers` does. All instructions of the program
are written and timed, with the other layers, and what stays on the chip, as they are. A compilation
may choose these again, so that it may find a better program.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from explorer.backends.npu.grouping import KEEP
from explorer.backends.npu.lowered import LoweredLayers
from explorer.backends.npu.placed_layers import LayerAt, Lying, PlacedLayers
from explorer.backends.npu.planning import tensors_of
from explorer.backends.npu.roofs import energy_of, work_of
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import identity_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.passes import KNOBS, PassResult
from explorer.ir.structure import value_name
from explorer.npu.layers.layer import LayerError
from explorer.npu.program.compiling import CHOICES, Tiled, tile_as
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.program.rooms import end_of, tile_in_room
from explorer.npu.search.legal import require_legal
from explorer.npu.search.searching import search_layer
from explorer.results.decisions import GROUPS, TILE_CHOICES, TILED, Decisions
from explorer.results.runs.counted import Effect
from explorer.targets.npu.machine import Machine

LEVEL = "tiled"
"""Of the program that has layers, and no instructions yet."""


class MachineModel:
    """The program of one compilation, of which layers are changed one at a time."""

    def __init__(
        self, results: Sequence[PassResult], machine: Machine, decisions: Decisions
    ) -> None:
        snapshot = next(one.after for one in reversed(results) if one.after.level == LEVEL)
        self._decisions = decisions
        self._choosers = _choosers(results)
        self._functions = [
            _Function(snapshot, machine, [layers[step] for step in tensors.steps])
            for function in functions_on(snapshot.program, machine.name)
            for tensors in [tensors_of(function, machine)]
            for layers in [
                {identity_of(op): op for op in function.body.block.ops if isinstance(op, LayerOp)}
            ]
        ]

    def has(self, address: str) -> bool:
        """Whether it predicts a decision: of a layer of the final program, by the pass that chose
        its tiles, or of a tensor that stays on the chip."""
        return self._place(address) is not None

    def effect(self, address: str, value: object) -> Effect:
        """What the program takes more. `LayerError` for tiles that the machine does not have, or
        not next to what stays on the chip."""
        place = self._place(address)
        if place is None:
            raise LayerError("no layer of the program has that choice")
        function, step = place
        if address.startswith(f"{GROUPS}/"):
            return function.without(step)
        pass_name, name, choice = address.split("/")
        given = {
            other: decided
            for other in CHOICES[type(function.made[step].tiled)]
            if (decided := self._decisions.get(f"{pass_name}/{name}/{other}")) is not None
        }
        return function.tiled_as(step, {**given, choice: value})

    def _place(self, address: str) -> tuple[_Function, int] | None:
        parts = address.split("/")
        for function in self._functions:
            for step, op in enumerate(function.layers):
                if parts[:2] == [GROUPS, KEEP] and parts[2:] == [identity_of(op)]:
                    return (function, step) if value_name(op.output) in function.lying else None
                is_mine = len(parts) == 3 and parts[1] == identity_of(op)
                is_last = is_mine and self._choosers.get(parts[1]) == parts[0]
                if is_last and parts[2] in CHOICES[type(function.made[step].tiled)]:
                    return function, step
        return None


def _choosers(results: Sequence[PassResult]) -> dict[str, str]:
    """By layer the last pass that chose its tiles."""
    found: dict[str, str] = {}
    for result in results:
        knobs = result.artifacts.get(KNOBS, ())
        assert isinstance(knobs, tuple)
        parts = [knob.address.split("/") for knob in knobs if result.name in TILED]
        found |= {one[1]: one[0] for one in parts if len(one) == 3 and one[2] in TILE_CHOICES}
    return found


@dataclass(frozen=True)
class _Total:
    cycles: int
    traffic_bytes: int
    energy_picojoules: float


class _Function(PlacedLayers):
    """The layers of a function in the tiles that it has."""

    def __init__(self, snapshot: Snapshot, machine: Machine, layers: Sequence[LayerOp]) -> None:
        super().__init__(machine, LoweredLayers(machine), layers, snapshot.weights)
        self.at = [
            LayerAt(tiled=made.tiled, room=None if op.room is None else op.get("room"), cycles=0)
            for op, made in zip(layers, self.made, strict=True)
        ]
        self.lying = {
            value_name(op.output): int(op.get("on_chip")) for op in layers if op.on_chip is not None
        }
        self._work: dict[Hashable, tuple[Tiled, tuple[int, float]]] = {}

    @cached_property
    def now(self) -> _Total:
        return self._total(self.at, self.lying)

    def tiled_as(self, step: int, given: Mapping[str, object]) -> Effect:
        """With some choices of a layer given."""
        made, at = self.made[step], self.at[step]
        fixed = require_legal(made.layer, self.machine, given)
        tiled = search_layer(made.layer, self.machine, "fast", fixed).tiled
        if at.room is not None and end_of(tiled) > at.room:
            tile = partial(tile_as, made.layer, choices=tiles_of(tiled))
            try:
                tiled = tile_in_room(self.machine, at.room, tile)
            except LayerError as error:
                raise LayerError(
                    "too large next to what stays on the chip, which would be chosen anew"
                ) from error
        changed = [*self.at[:step], replace(at, tiled=tiled), *self.at[step + 1 :]]
        return self._effect(self._total(changed, self.lying))

    def without(self, step: int) -> Effect:
        """With the result of a layer in global memory."""
        name = value_name(self.layers[step].output)
        lying = {value: at for value, at in self.lying.items() if value != name}
        return self._effect(self._total(self.at, lying))

    def _effect(self, after: _Total) -> Effect:
        return Effect(
            cycles=after.cycles - self.now.cycles,
            traffic_bytes=after.traffic_bytes - self.now.traffic_bytes,
            energy_picojoules=after.energy_picojoules - self.now.energy_picojoules,
        )

    def _total(self, at: Sequence[LayerAt], lying: Lying) -> _Total:
        cycles, _ = self.programs_with(lying).cost(at)
        traffic, energy = 0, 0.0
        for step, one in enumerate(at):
            mine, picojoules = self._work_of(step, one.tiled, lying)
            traffic, energy = traffic + mine, energy + picojoules
        return _Total(cycles, traffic, energy)

    def _work_of(self, step: int, tiled: Tiled, lying: Lying) -> tuple[int, float]:
        key = step, id(tiled), self.touched(step, lying)
        if key not in self._work:
            stream = self.lowered.streams.of(tiled, self.addresses(step, lying))
            work = work_of(stream.instructions, self.machine)
            energy = sum(picojoules for _, picojoules in energy_of(work, self.machine))
            self._work[key] = tiled, (work.memory_bytes.total(), energy)
        return self._work[key][1]
