"""Cycles of a network, predicted from the steps of all its layers.

    predict_network(machine, [LayerSteps(...), ...]).cycles

Between two layers everything waits until the first one is stored: an instruction that moves nothing
in the queue that computes, and one in the queue that loads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from explorer.npu.cost import Prediction, predict_steps
from explorer.npu.program import COMPUTE, LOAD
from explorer.npu.steps import Step, Traffic
from explorer.targets.npu.machine import Machine

INPUTS_FREE, OUTPUTS_STORED = 1, 3
"""Tokens backwards: from computing to loading, and from storing to computing."""


@dataclass(frozen=True, kw_only=True)
class LayerSteps:
    """What a layer does, its end included."""

    operation: str
    steps: list[Step]
    traffic: Traffic


def predict_network(machine: Machine, layers: Sequence[LayerSteps]) -> Prediction:
    """All layers one after the other, as one program."""
    steps: list[Step] = []
    for number, layer in enumerate(layers):
        if number:
            steps += _barrier(machine)
        is_last = layer is layers[-1]
        steps += layer.steps if is_last else layer.steps[:-1]
    traffic = Traffic(
        macs=sum(layer.traffic.macs for layer in layers),
        loaded_bytes=_sum(layer.traffic.loaded_bytes for layer in layers),
        stored_bytes=_sum(layer.traffic.stored_bytes for layer in layers),
    )
    return predict_steps(machine, steps, traffic)


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
