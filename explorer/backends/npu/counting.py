"""Counters of simulated runs as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from explorer.backends.npu.executable import NpuProgram
from explorer.backends.npu.network import Network
from explorer.npu.network_cost import LayerSteps, predict_network
from explorer.results.runs.counted import CountedLayer, CountedRun
from explorer.runtime.npu import Simulation


def counted_run(
    programs: Sequence[NpuProgram], steps: Mapping[str, Sequence[LayerSteps]]
) -> CountedRun | None:
    """Of what was run last; None where one of the programs has not run.

    `steps`: by function, where they are known.
    """
    if not programs or any(program.simulation is None for program in programs):
        return None
    loaded: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    busy: Counter[str] = Counter()
    stalls: Counter[tuple[str, str]] = Counter()
    layers: list[CountedLayer] = []
    cycles = macs = predicted = 0
    is_predicted = True
    energies: list[float | None] = []
    for program in programs:
        found = program.simulation
        assert found is not None
        layers += _layers(program.network, found, cycles)
        cycles += found.cycles
        macs += found.counters.macs
        loaded.update(found.counters.loaded_bytes)
        stored.update(found.counters.stored_bytes)
        busy.update(found.busy_cycles)
        for queue, causes in found.stalls.items():
            stalls.update({(queue, cause): count for cause, count in causes.items()})
        energies.append(found.energy_picojoules)
        known = steps.get(program.network.name)
        is_predicted = is_predicted and known is not None
        if known:
            predicted += predict_network(program.network.machine, known).cycles
    machine = programs[0].network.machine
    return CountedRun(
        cycles=cycles,
        predicted_cycles=predicted if is_predicted else None,
        macs=macs,
        peak_macs_per_cycle=machine.batch * machine.rows * machine.columns,
        loaded_bytes=tuple(sorted(loaded.items())),
        stored_bytes=tuple(sorted(stored.items())),
        busy_cycles=tuple(busy.items()),
        stalls=tuple((queue, cause, count) for (queue, cause), count in stalls.items()),
        layers=tuple(layers),
        energy_picojoules=None if None in energies else sum(e or 0.0 for e in energies),
    )


def _layers(network: Network, simulation: Simulation, before: int) -> list[CountedLayer]:
    """Each layer from when its first instruction began, `before` cycles after the first part."""
    found = []
    for section in network.sections:
        events = simulation.events[section.first : section.last + 1]
        found.append(
            CountedLayer(
                operation=section.operation,
                title=section.title,
                macs=section.macs,
                first_cycle=before + min(event.start_cycle for event in events),
                last_cycle=before + max(event.end_cycle for event in events),
                instructions=len(events),
            )
        )
    return found
