"""What a layer takes at least: its multiply-accumulates and its bytes at the machine's peaks.

    work = work_of(section.instructions, machine)
    work.array_macs, work.memory_bytes         {"sram": 4096, "flash": 9216}
    least_cycles(section.macs, work, machine)  (1234.3, "flash")
    energy_of(work, machine)                   (("matrix engine", 2764.8), ("sram", 4096.0), ...)

Peaks follow from the target file and are never measured: one step of the array in so many cycles,
and bytes per cycle of each route on all channels of its DMA engine. Starts, latencies and banks are
left out, so that no run is faster (S. Williams and others: Roofline, Communications of the ACM
52(4), 2009).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

from explorer.backends.npu.network import Network
from explorer.npu.cost.bounds import LayerBytes
from explorer.npu.cost.steps import region_of
from explorer.results.runs.counted import MachineWork, MemoryRate
from explorer.targets.npu.energy import MATRIX, VECTOR, figures
from explorer.targets.npu.instructions import Instruction, Load, Loop, Multiply, RowLoop, Transfer
from explorer.targets.npu.machine import Machine


@dataclass
class Work:
    """What some instructions do."""

    array_macs: int = 0
    memory_bytes: Counter[str] = field(default_factory=Counter)
    """By the memory that they are read from or written to."""
    memory_cycles: dict[tuple[int, str], Fraction] = field(default_factory=dict)
    """By DMA engine and memory: what these bytes take on one channel."""
    scratchpad_bytes: Counter[str] = field(default_factory=Counter)
    """Read and written: by transfers, as operands of the array, by the vector engine."""
    vector_operations: int = 0
    """Of one number each."""
    coded_bytes: int = 0
    """Of weights, as they are loaded."""
    decoded_bytes: int = 0
    """Of the same weights, once they are decoded."""


def work_of(instructions: Sequence[Instruction], machine: Machine) -> Work:
    work = Work()
    for op in instructions:
        if isinstance(op, Transfer):
            _add_transfer(work, op, machine)
        elif isinstance(op, Multiply) and not op.reset:
            _add_products(work, op, machine)
        elif isinstance(op, Loop):
            _add_vectors(work, op, machine)
    return work


def work_of_networks(networks: Sequence[Network]) -> MachineWork:
    """The traffic and the energy of all layers."""
    traffic, energy = 0, 0.0
    for network in networks:
        for section in network.sections:
            work = work_of(section.instructions, network.machine)
            traffic += work.memory_bytes.total()
            energy += sum(picojoules for _, picojoules in energy_of(work, network.machine))
    return MachineWork(traffic_bytes=traffic, energy_picojoules=energy)


def _add_transfer(work: Work, op: Transfer, machine: Machine) -> None:
    space = machine.by_content[op.memory]
    rows, columns = op.y_size, op.x_size
    moved = rows * columns
    written = (rows + op.y_pad_before + op.y_pad_after) * (
        columns + op.x_pad_before + op.x_pad_after
    )
    work.scratchpad_bytes[machine.scratchpads[space.memory].name] += written * space.element_bytes
    if op.on_chip:
        inside = machine.by_content["activations"]
        name = machine.scratchpads[inside.memory].name
        work.scratchpad_bytes[name] += moved * space.global_bytes
        return
    coded = op.coded_bytes if isinstance(op, Load) else 0
    size = coded or moved * space.global_bytes
    if coded:
        work.coded_bytes += coded
        work.decoded_bytes += moved * space.global_bytes
    region = region_of(machine, op.global_address * space.global_bytes).name
    route = machine.route[region, space.memory, isinstance(op, Load)]
    key = route.engine, region
    work.memory_bytes[region] += size
    work.memory_cycles[key] = (
        work.memory_cycles.get(key, Fraction(0)) + size / route.bytes_per_cycle
    )


def _add_products(work: Work, op: Multiply, machine: Machine) -> None:
    """The array holds its sums, and a block of weights for as many rows as it takes at once."""
    steps = op.outer * op.inner * (op.micro_end - op.micro_begin)
    each = machine.rows_per_element * machine.rows * machine.columns
    work.array_macs += steps * op.batch * each
    at_once = machine.batch // machine.rows_per_element
    for content, reads in (("activations", op.batch), ("weights", -(-op.batch // at_once))):
        space = machine.by_content[content]
        name = machine.scratchpads[space.memory].name
        work.scratchpad_bytes[name] += steps * reads * space.element_bytes


def _add_vectors(work: Work, op: Loop, machine: Machine) -> None:
    """Each operation reads a number of the accumulators and writes one; a row that becomes another
    goes through three times."""
    steps = op.outer * op.inner * (op.micro_end - op.micro_begin)
    elements = steps * (3 * op.count if isinstance(op, RowLoop) else 1)
    space = machine.by_content["accumulators"]
    name = machine.scratchpads[space.memory].name
    work.scratchpad_bytes[name] += 2 * elements * space.element_bytes
    work.vector_operations += elements * machine.columns * machine.rows_per_element


def energy_of(work: Work, machine: Machine) -> tuple[tuple[str, float], ...]:
    """Picojoules by engine, scratchpad and memory; those of nothing are left out."""
    amounts = {MATRIX: work.array_macs, VECTOR: work.vector_operations}
    amounts |= work.scratchpad_bytes | work.memory_bytes
    return tuple(
        (figure.part, figure.picojoules * amounts[figure.part])
        for figure in figures(machine)
        if amounts.get(figure.part)
    )


def peak_macs_per_cycle(machine: Machine) -> float:
    """Of the array, all of it used."""
    return machine.batch * machine.rows * machine.columns / machine.multiply_step_cycles


def least_cycles(macs: int, work: Work, machine: Machine) -> tuple[float, str]:
    """Cycles at the peaks, and what takes them: memories behind one DMA engine share its
    channels, and of these the one is named that takes most of them."""
    found = [(macs / peak_macs_per_cycle(machine), MATRIX)]
    for number, engine in enumerate(machine.dma_engines):
        mine = {memory: c for (e, memory), c in work.memory_cycles.items() if e == number}
        if mine:
            longest = max(mine, key=lambda memory: mine[memory])
            found.append((float(sum(mine.values()) / engine.channels), longest))
    return max(found, key=lambda entry: entry[0])


def memory_rates(machine: Machine) -> tuple[MemoryRate, ...]:
    """Of every memory behind the scratchpads its fastest route, on all channels."""
    found = []
    for region in machine.regions:
        routes = [route for (name, _, _), route in machine.routes if name == region.name]
        if not routes:
            continue
        rate, channels = max(
            (route.bytes_per_cycle * channels, channels)
            for route in routes
            for channels in [machine.dma_engines[route.engine].channels]
        )
        found.append(MemoryRate(memory=region.name, bytes_per_cycle=float(rate), channels=channels))
    return tuple(found)


def layer_bound_cycles(macs: int, least: LayerBytes, machine: Machine) -> float:
    """Cycles of a layer at the peaks, if it moves as little as it can."""
    tensors = least.read_bytes + least.written_bytes
    return _bound_cycles(macs, least.constant_bytes, tensors, least.traffic_bytes, machine)


def network_bound(network: Network, least: Mapping[str, LayerBytes]) -> tuple[float, int]:
    """Cycles and bytes of a whole program at least: weights once, inputs and outputs once; what
    lies between its layers may stay on the chip."""
    machine = network.machine
    constants = sum(one.constant_bytes for one in least.values())
    ends = [network.values[name].stored for name in (*network.arguments, *network.results)]
    tensors = sum(
        min(prod(one.shape), prod(one.logical_shape))
        * (machine.accumulator_bits if one.is_wide else machine.input_bits)
        // 8
        for one in ends
    )
    macs = sum(section.macs for section in network.sections)
    whole = constants + tensors
    return _bound_cycles(macs, constants, tensors, whole, machine), whole


def _bound_cycles(macs: int, constants: int, tensors: int, traffic: int, machine: Machine) -> float:
    """The array, or the transfers on all channels of all engines at their fastest routes: constants
    from the last memory, tensors from the first one; and all that is moved at the fastest."""
    rates: dict[str, float] = {}
    channels = sum(engine.channels for engine in machine.dma_engines)
    for (region, _, _), route in machine.routes:
        rates[region] = max(rates.get(region, 0.0), float(route.bytes_per_cycle))
    first, last = rates[machine.regions[0].name], rates[machine.regions[-1].name]
    moved = (constants / last + tensors / first) / channels
    return max(
        macs / peak_macs_per_cycle(machine), moved, traffic / (channels * max(rates.values()))
    )
