"""Whether cores share a small chain: what they save must be worth waking them.

    alone 45 us; 2 cores 31 us, 40 us to wake them and to be woken by them     -> one work-item
    alone 208 us; 2 cores 112 us, 40 us to wake them and to be woken by them   -> both cores

A chain of one work-item runs in the caller's thread where the driver allows it. One that is shared
wakes the driver's threads, and at the end they wake the caller. The cost model says how long the
kernels take, the core how long waking takes. Programs of more than `MAX_COMPARED_FLOPS` are shared
without asking: the answer is known, and asking takes time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import ceil

from xdsl.dialects.func import FuncOp

from explorer.kernels.cost import CostMachine, estimate
from explorer.results.program import Chain, Launch, Program

WAKINGS = 2
"""Of the driver's threads, and of the caller at the end."""
MIN_GAIN = 0.2
"""Of the time: for less it is not worth keeping all cores busy, on a loaded machine it is lost."""
MAX_COMPARED_FLOPS = 30_000_000
"""0.15 to 0.3 ms at a core's peak."""


def judged_chain(
    program: Program, kernels: Mapping[str, FuncOp], machine: CostMachine
) -> Chain | None:
    """The program's chain, run by one work-item where `machine.threads` cores gain too little.

    `kernels`: those of the program by name, as loops. What has too few operations to be shared
    (`persistent_kernel`), or a size that is left open, stays as it is.
    """
    chain = program.chain
    if chain is None or not chain.is_shared or machine.threads == 1 or program.size is not None:
        return chain
    chained = {launch for launch, _ in chain.steps}
    launches = [launch for number, launch in enumerate(program.launches) if number in chained]
    flops = {kernel.name: kernel.flops for kernel in program.kernels}
    if sum(flops[launch.kernel] for launch in launches) > MAX_COMPARED_FLOPS:
        return chain
    tasks = {k.name: [phase.tasks for phase in k.phases] for k in program.kernels}
    alone, together = predicted_seconds(launches, kernels, tasks, machine)
    waking = WAKINGS * machine.core.wake_seconds
    is_shared = together + waking <= (1 - MIN_GAIN) * alone
    who = f"{machine.threads} work-items share it" if is_shared else "one work-item runs all of it"
    reason = (
        f"{who}: predicted are {alone * 1e6:.0f} us for one, {together * 1e6:.0f} us for "
        f"{machine.threads} and {waking * 1e6:.0f} us to wake them and the caller; sharing has to "
        f"save {MIN_GAIN:.0%}"
    )
    return dataclasses.replace(chain, is_shared=is_shared, reason=reason)


def predicted_seconds(
    launches: Sequence[Launch],
    kernels: Mapping[str, FuncOp],
    tasks: Mapping[str, Sequence[int]],
    machine: CostMachine,
) -> tuple[float, float]:
    """Of all launches for one thread, and for the machine's: none is shared that gains nothing.

    `tasks`: of every kernel's phases. Of several phases the one counts that is divided worst.
    """
    single = dataclasses.replace(machine, threads=1)
    alone = together = 0.0
    seconds: dict[str, float] = {}
    for launch in launches:
        name = launch.kernel
        if name not in seconds:
            seconds[name] = estimate(kernels[name], single).microseconds * 1e-6
        share = max((ceil(n / machine.threads) / n for n in tasks[name] if n), default=1.0)
        shared = share * seconds[name] + len(tasks[name]) * machine.core.barrier_seconds
        alone += seconds[name]
        together += min(seconds[name], shared)
    return alone, together
