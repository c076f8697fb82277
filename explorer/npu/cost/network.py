"""Cycles of a network, predicted from the steps of all its layers.

    predict_network(machine, [LayerSteps(...), ...]).cycles
    whole, layers = predict_layers(machine, [LayerSteps(...), ...])
    layers[0].first_cycle, layers[0].terms

The steps of a layer are those that it has in the program: what waits until the layer before is
stored is one of them, and so is what does not wait (`explorer/npu/program/joining.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from explorer.npu.cost.bounds import LayerBytes
from explorer.npu.cost.prediction import (
    CycleTerm,
    Prediction,
    StepTime,
    micro_operation_bytes,
    predict_times,
    terms_of,
    times_of,
    waits_of,
)
from explorer.npu.cost.steps import Step, Traffic
from explorer.npu.cost.tile_operands import Parts
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class LayerSteps:
    """What a layer does in a program of several."""

    operation: str
    steps: list[Step]
    traffic: Traffic
    owners: tuple[int, ...]
    """Of every step: its chunk or tile (see `Stream.owners`)."""
    parts: Parts
    least: LayerBytes
    """What it moves at least, whatever its tiles."""

    @property
    def bytes(self) -> int:
        """Between global memory and scratchpads, micro-operations included."""
        return self.traffic.bytes + micro_operation_bytes(self.steps)


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
    parts = [layer.steps for layer in layers]
    traffic = Traffic(
        macs=sum(layer.traffic.macs for layer in layers),
        loaded_bytes=_sum(layer.traffic.loaded_bytes for layer in layers),
        stored_bytes=_sum(layer.traffic.stored_bytes for layer in layers),
    )
    times = times_of(machine, [step for part in parts for step in part])
    found, first = [], 0
    for layer, part in zip(layers, parts, strict=True):
        own = times[first : first + len(part)]
        first += len(part)
        found.append(
            LayerPrediction(
                operation=layer.operation,
                first_cycle=min(time.start_cycle for time in own),
                last_cycle=max(time.end_cycle for time in own),
                terms=terms_of(machine, part),
                waits=waits_of(machine, own),
                times=own,
                owners=layer.owners,
                parts=layer.parts,
            )
        )
    return predict_times(machine, times, traffic), tuple(found)


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return dict(found)
