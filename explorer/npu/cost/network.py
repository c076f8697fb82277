"""Cycles of a network, predicted from the steps of all its layers.

    predict_network(machine, [LayerSteps(...), ...]).cycles
    whole, layers = predict_layers(machine, [LayerSteps(...), ...])
    layers[0].first_cycle, layers[0].terms

Between two layers everything waits until the first one is stored: an instruction that moves nothing
in the queue that computes, and one in the queue that loads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from explorer.npu.cost.prediction import (
    CycleTerm,
    Prediction,
    StepTime,
    predict_times,
    terms_of,
    times_of,
    waits_of,
)
from explorer.npu.cost.steps import Step, Traffic
from explorer.npu.cost.tile_operands import Parts
from explorer.npu.program.compiling import COMPUTE, LOAD
from explorer.targets.npu.machine import Machine

INPUTS_FREE, OUTPUTS_STORED = 1, 3
"""Tokens backwards: from computing to loading, and from storing to computing."""


@dataclass(frozen=True, kw_only=True)
class LayerSteps:
    """What a layer does, its end included."""

    operation: str
    steps: list[Step]
    traffic: Traffic
    owners: tuple[int, ...]
    """Of every step: its chunk or tile (see `Stream.owners`)."""
    parts: Parts


@dataclass(frozen=True, kw_only=True)
class LayerPrediction:
    """One layer among the others, what it waits for at its beginning included."""

    operation: str
    first_cycle: int
    last_cycle: int
    terms: tuple[CycleTerm, ...]
    waits: dict[str, dict[str, int]]
    """By queue and cause."""
    times: tuple[StepTime, ...]
    """Of its steps, in their order."""
    owners: tuple[int, ...]
    """Of each of these; -1 where it belongs to no tile."""
    parts: Parts


def predict_network(machine: Machine, layers: Sequence[LayerSteps]) -> Prediction:
    """All layers one after the other, as one program."""
    return predict_layers(machine, layers)[0]


def predict_layers(
    machine: Machine, layers: Sequence[LayerSteps]
) -> tuple[Prediction, tuple[LayerPrediction, ...]]:
    """The whole program, and each of its layers."""
    parts: list[list[Step]] = []
    for layer in layers:
        barrier = _barrier(machine) if parts else []
        is_last = len(parts) == len(layers) - 1
        parts.append([*barrier, *(layer.steps if is_last else layer.steps[:-1])])
    traffic = Traffic(
        macs=sum(layer.traffic.macs for layer in layers),
        loaded_bytes=_sum(layer.traffic.loaded_bytes for layer in layers),
        stored_bytes=_sum(layer.traffic.stored_bytes for layer in layers),
    )
    times = times_of(machine, [step for part in parts for step in part])
    found, first = [], 0
    for layer, part in zip(layers, parts, strict=True):
        own = times[first : first + len(part)]
        before = (-1,) * (len(part) - len(layer.steps) + (layer is not layers[-1]))
        first += len(part)
        found.append(
            LayerPrediction(
                operation=layer.operation,
                first_cycle=min(time.start_cycle for time in own),
                last_cycle=max(time.end_cycle for time in own),
                terms=terms_of(machine, part),
                waits=waits_of(machine, own),
                times=own,
                owners=(*before, *layer.owners)[: len(own)],
                parts=layer.parts,
            )
        )
    return predict_times(machine, times, traffic), tuple(found)


def _barrier(machine: Machine) -> list[Step]:
    """What moves nothing, but waits for a channel of its engine."""

    def step(queue: int, content: str, takes: int, gives: tuple[int, ...]) -> Step:
        route = machine.route[machine.regions[0].name, machine.by_content[content].memory, True]
        return Step(queue=queue, what="wait", cycles=1, fixed_cycles=1, dma=route.engine,
                    takes=(takes,), gives=gives)  # fmt: skip

    return [
        step(COMPUTE, "micro_operations", OUTPUTS_STORED, (INPUTS_FREE,)),
        step(LOAD, "activations", INPUTS_FREE, ()),
    ]


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return dict(found)
