"""From counts to a time: what overlaps counts once, what does not is added.

arithmetic 31.0 us, loads 19.2 us, L2 8.1 us    -> 31.0: they go on at the same time
spills 2.0 us, loops 1.1 us, tasks 0.5 us       -> 3.6 more
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from xdsl.dialects import func

from explorer.kernels.cost.counting import Counts, count
from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.cost.traffic import traffic_bytes
from explorer.kernels.phases import Phase, phases
from explorer.results import CostEstimate, CostTerm

OVERLAPPING = ("arithmetic", "loads", "stores", "issue", "latency")
ADDED = ("spills", "loops")

WHY: Mapping[str, str] = {
    "arithmetic": "{arithmetic:,.0f} operations on {units} units of {bytes} bytes",
    "loads": "{loads:,.0f} loads, {load_units} in a cycle",
    "stores": "{stores:,.0f} stores, {store_units} in a cycle",
    "issue": "{all:,.0f} instructions, {issued} in a cycle",
    "latency": "a sum can be added to every {latency} cycles",
    "spills": "{most} vectors are alive at once, and there are {registers} registers",
    "loops": "one cycle for an iteration that is not written out",
}


def estimate(function: func.FuncOp, machine: CostMachine) -> CostEstimate:
    """The predicted time of one launch of a scheduled kernel."""
    total = Counts()
    share_of_time = 0.0
    traffic = {level.name: 0.0 for level in machine.caches}
    tasks = barriers = 0
    alone = 0.0
    for phase in phases(function):
        counts = Counts()
        for nest in phase.nests:
            counts.add(count(nest.operation, machine))
            for level in machine.caches:
                traffic[level.name] += traffic_bytes(nest.operation, level, machine.threads)
        cycles = _cycles(counts)
        alone += cycles
        share_of_time += cycles * _longest_share(phase, machine.threads)
        total.add(counts)
        tasks += phase.tasks
        barriers += machine.threads > 1
    part = share_of_time / alone if alone else 1.0
    # Several cores: each does its share of the tasks, the longest one counts.
    seconds_per_cycle = part / machine.clock_hz
    terms = [
        CostTerm(name, total.cycles[name] * seconds_per_cycle * 1e6, _why(name, total, machine))
        for name in OVERLAPPING
    ]
    for level, behind in zip(machine.caches, _behind(machine), strict=True):
        moved = traffic[level.name]
        shares = part if not level.is_shared else 1.0
        microseconds = moved / level.bytes_per_cycle / machine.clock_hz * shares * 1e6
        why = f"{moved:,.0f} bytes from {behind}, {level.bytes_per_cycle:g} in a cycle"
        terms.append(CostTerm(behind, microseconds, why))
    for name in ADDED:
        microseconds = total.cycles[name] * seconds_per_cycle * 1e6
        terms.append(CostTerm(name, microseconds, _why(name, total, machine), True))
    core = machine.core
    claims = tasks * core.task_seconds / machine.threads + barriers * core.barrier_seconds
    busy = f", {1 / (part * machine.threads):.0%} of {machine.threads} threads busy"
    why = f"{tasks:,} tasks to claim" + (busy if machine.threads > 1 else "")
    terms.append(CostTerm("tasks", claims * 1e6, why, True))
    overlapping = max(term.microseconds for term in terms if not term.is_added)
    added = sum(term.microseconds for term in terms if term.is_added)
    name = function.sym_name.data
    return CostEstimate(name, overlapping + added, tuple(terms), machine.threads)


def _cycles(counts: Counts) -> float:
    return max(counts.cycles[n] for n in OVERLAPPING) + sum(counts.cycles[n] for n in ADDED)


def _longest_share(phase: Phase, threads: int) -> float:
    """Of all tasks, the share of the thread that has most of them."""
    if threads == 1 or phase.tasks == 0:
        return 1.0
    return ceil(phase.tasks / threads) / phase.tasks


def _behind(machine: CostMachine) -> list[str]:
    """The name of the level behind each cache."""
    return [*(level.name for level in machine.caches[1:]), "memory"] if machine.caches else []


def _why(name: str, counts: Counts, machine: CostMachine) -> str:
    core = machine.core
    numbers = {kind: counts.instructions[kind] for kind in ("arithmetic", "loads", "stores")}
    return WHY[name].format(
        **numbers,
        all=sum(counts.instructions.values()),
        units=core.arithmetic_units,
        bytes=core.unit_bytes,
        load_units=core.load_units,
        store_units=core.store_units,
        issued=core.issued_per_cycle,
        latency=core.multiply_add_latency_cycles,
        most=counts.most_registers,
        registers=machine.registers,
    )
