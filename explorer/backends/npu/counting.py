"""Counters of simulated runs as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from explorer.backends.npu.executable import NpuProgram
from explorer.backends.npu.network import Network
from explorer.backends.npu.occupancy import scratchpads_of, uses_of
from explorer.backends.npu.roofs import (
    energy_of,
    layer_bound_cycles,
    least_cycles,
    memory_rates,
    network_bound,
    peak_macs_per_cycle,
    work_of,
)
from explorer.backends.npu.walks import tiles_of
from explorer.npu.cost.bounds import LayerBytes
from explorer.npu.cost.network import LayerPrediction, LayerSteps, predict_layers
from explorer.npu.search.searching import SearchRecord
from explorer.results.runs.counted import (
    CountedLayer,
    CountedRun,
    CycleTerm,
    PredictedLayer,
    SearchedLayer,
)
from explorer.runtime.npu import Simulation
from explorer.targets.npu.energy import figures
from explorer.targets.npu.machine import Machine


def counted_run(
    programs: Sequence[NpuProgram],
    steps: Mapping[str, Sequence[LayerSteps]],
    searches: Sequence[SearchRecord] = (),
) -> CountedRun | None:
    """Of what was run last; None where one of the programs has not run.

    `steps`: by function, where they are known. `searches`: for the tiles of its layers.
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
    bound_cycles, bound_bytes = 0.0, 0
    for program in programs:
        found = program.simulation
        assert found is not None
        known = steps.get(program.network.name)
        is_predicted = is_predicted and known is not None
        by_layer: dict[str, LayerPrediction] = {}
        if known:
            whole, parts = predict_layers(program.network.machine, known)
            predicted += whole.cycles
            by_layer = {part.operation: part for part in parts}
        least = {one.operation: one.least for one in known or ()}
        if known:
            cycles_of_part, bytes_of_part = network_bound(program.network, least)
            bound_cycles, bound_bytes = bound_cycles + cycles_of_part, bound_bytes + bytes_of_part
        layers += _layers(program.network, found, by_layer, least, cycles)
        cycles += found.cycles
        macs += found.counters.macs
        loaded.update(found.counters.loaded_bytes)
        stored.update(found.counters.stored_bytes)
        busy.update(found.busy_cycles)
        for queue, causes in found.stalls.items():
            stalls.update({(queue, cause): count for cause, count in causes.items()})
    machine = programs[0].network.machine
    return CountedRun(
        cycles=cycles,
        predicted_cycles=predicted if is_predicted else None,
        macs=macs,
        peak_macs_per_cycle=peak_macs_per_cycle(machine),
        loaded_bytes=tuple(sorted(loaded.items())),
        stored_bytes=tuple(sorted(stored.items())),
        busy_cycles=tuple(busy.items()),
        stalls=tuple((queue, cause, count) for (queue, cause), count in stalls.items()),
        layers=tuple(layers),
        energy_picojoules=sum(layer.energy_picojoules for layer in layers),
        energy_sources=tuple((f.part, f.source) for f in figures(machine)),
        scratchpads=scratchpads_of(machine),
        memories=memory_rates(machine),
        bound_cycles=bound_cycles if is_predicted else None,
        bound_bytes=bound_bytes if is_predicted else None,
        groups=tuple(group for program in programs for group in program.network.groups),
        searches=tuple(
            SearchedLayer(
                layer=one.layer, candidates=one.candidates, seconds=one.seconds,
                cycles=one.cycles, bound=one.bound, gap=one.gap, points=one.points,
            )
            for one in searches
        ),
    )  # fmt: skip


def predicted_layers(steps: Mapping[str, Sequence[LayerSteps]], machine: Machine) -> dict[str, int]:
    """Cycles of every layer by its operation."""
    found: dict[str, int] = {}
    for layers in steps.values():
        begin = 0
        for part in predict_layers(machine, layers)[1] if layers else ():
            cycles = max(0, part.last_cycle - begin)  # what overlaps belongs to the earlier one
            begin = max(begin, part.last_cycle)
            found[part.operation] = found.get(part.operation, 0) + cycles
    return found


def _layers(
    network: Network,
    simulation: Simulation,
    predicted: Mapping[str, LayerPrediction],
    least_bytes: Mapping[str, LayerBytes],
    before: int,
) -> list[CountedLayer]:
    """Each layer from when its first instruction began, `before` cycles after the first part."""
    found = []
    for section in network.sections:
        events = simulation.events[section.first : section.last + 1]
        made = network.values[section.writes]
        known = predicted.get(section.operation)
        uses, left_out = uses_of(known.times if known else (), network.machine, before)
        tiles = tiles_of(known, network.machine, before) if known else ()
        work = work_of(section.instructions, network.machine)
        least, bound = least_cycles(section.macs, work, network.machine)
        mine = least_bytes.get(section.operation)
        layer_bound = (
            None if mine is None else layer_bound_cycles(section.macs, mine, network.machine)
        )
        busy: Counter[str] = Counter()
        waits: Counter[tuple[str, str]] = Counter()
        for event in events:
            busy[event.queue] += event.end_cycle - event.start_cycle
            waits.update({(event.queue, cause): count for cause, count in event.waits})
        found.append(
            CountedLayer(
                operation=section.operation,
                title=section.title,
                macs=section.macs,
                first_cycle=before + min(event.start_cycle for event in events),
                last_cycle=before + max(event.end_cycle for event in events),
                instructions=len(events),
                kept_bytes=made.size_bytes(network.machine) if made.on_chip else 0,
                array_macs=work.array_macs,
                memory_bytes=tuple(
                    (name, size) for name, size in work.memory_bytes.items() if size
                ),
                coded_bytes=work.coded_bytes,
                decoded_bytes=work.decoded_bytes,
                energy=energy_of(work, network.machine),
                least_cycles=least,
                bound=bound,
                bound_bytes=None if mine is None else mine.traffic_bytes,
                bound_cycles=layer_bound,
                busy=tuple(busy.items()),
                waits=tuple((queue, cause, count) for (queue, cause), count in waits.items()),
                predicted=_predicted(known, before),
                uses=uses,
                uses_left_out=left_out,
                tiled_size=known.parts.size if known else (0, 0),
                tiles=tiles,
                tiles_left_out=len(known.parts.tiles) - len(tiles) if known else 0,
            )
        )
    return found


def _predicted(found: LayerPrediction | None, before: int) -> PredictedLayer | None:
    if found is None:
        return None
    return PredictedLayer(
        first_cycle=before + found.first_cycle,
        last_cycle=before + found.last_cycle,
        terms=tuple(
            CycleTerm(queue=t.queue, name=t.name, count=t.count, cycles=t.cycles, why=t.why)
            for t in found.terms
        ),
        waits=tuple(
            (queue, cause, count)
            for queue, causes in found.waits.items()
            for cause, count in causes.items()
        ),
    )
