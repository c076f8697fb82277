"""From counts to a time: what overlaps counts once, what does not is added.

arithmetic 31.0 us, loads 19.2 us, L2 8.1 us     -> 31.0: they go on at the same time
spills 2.0 us, waiting 2.4 us, tasks 0.5 us      -> 4.9 more

Bodies run one after another, so that what takes longest is asked of each of them, and `waiting` is
what that is more than the longest term of the whole kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from xdsl.dialects import func

from explorer.kernels.cost.counting import OVERLAPPING, Counts, count
from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.cost.rules import overlapped
from explorer.kernels.cost.traffic import argument_bytes, traffic_bytes
from explorer.kernels.sections.phases import Phase, phases
from explorer.results import CostEstimate, CostTerm

WHY: Mapping[str, str] = {
    "arithmetic": "{arithmetic:,.0f} operations on {units} units of {bytes} bytes",
    "loads": "{loads:,.0f} loads, {load_units} in a cycle",
    "stores": "{stores:,.0f} stores, {store_units} in a cycle",
    "issue": "{all:,.0f} instructions, {issued} in a cycle",
    "latency": "a sum can be added to every {latency} cycles",
    "conflicts": "lines that share their place in the nearest cache are fetched again",
    "waiting": "bodies wait for different things, and for data; only a part of that is hidden",
    "spills": "{most} vectors are alive at once, and there are {registers} registers",
}


def estimate(function: func.FuncOp, machine: CostMachine) -> CostEstimate:
    """The predicted time of one launch of a scheduled kernel."""
    total = Counts()
    traffic = {level.name: 0.0 for level in machine.caches}
    touched = argument_bytes(function)
    tasks = barriers = 0
    alone = shared = seconds = 0.0
    for phase in phases(function):
        part = _longest_share(phase, machine.threads)
        for nest in phase.nests:
            counts = count(nest.operation, machine)
            total.add(counts)
            longest = 0.0
            for level in machine.caches:
                moved = traffic_bytes(nest.operation, level, machine.threads, touched)
                traffic[level.name] += moved
                cycles = moved / level.bytes_per_cycle * (1.0 if level.is_shared else part)
                longest = max(longest, cycles)
            seconds += overlapped(counts.busy * part, longest) / machine.clock_hz
            alone += counts.busy
            shared += counts.busy * part
        tasks += phase.tasks
        barriers += machine.threads > 1
    part = shared / alone if alone else 1.0
    # Several cores: each does its share of the tasks, the longest one counts.
    seconds_per_cycle = part / machine.clock_hz
    terms = [
        CostTerm(name, total.cycles[name] * seconds_per_cycle * 1e6, _why(name, total, machine))
        for name in (*OVERLAPPING, "conflicts")
    ]
    for level, behind in zip(machine.caches, _behind(machine), strict=True):
        moved = traffic[level.name]
        shares = part if not level.is_shared else 1.0
        microseconds = moved / level.bytes_per_cycle / machine.clock_hz * shares * 1e6
        why = f"{moved:,.0f} bytes from {behind}, {level.bytes_per_cycle:g} in a cycle"
        terms.append(CostTerm(behind, microseconds, why))
    microseconds = total.cycles["spills"] * seconds_per_cycle * 1e6
    terms.append(CostTerm("spills", microseconds, _why("spills", total, machine), True))
    longest = max(term.microseconds for term in terms if not term.is_added)
    waiting = max(seconds * 1e6 - longest - microseconds, 0.0)
    terms.append(CostTerm("waiting", waiting, WHY["waiting"], True))
    core = machine.core
    claims = tasks * core.task_seconds / machine.threads + barriers * core.barrier_seconds
    busy = f", {1 / (part * machine.threads):.0%} of {machine.threads} threads busy"
    why = f"{tasks:,} tasks to claim" + (busy if machine.threads > 1 else "")
    terms.append(CostTerm("tasks", claims * 1e6, why, True))
    added = sum(term.microseconds for term in terms if term.is_added)
    name = function.sym_name.data
    return CostEstimate(name, longest + added, tuple(terms), machine.threads)


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
