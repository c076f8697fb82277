"""Predicted times of kernels: the cost model with the numbers of a target and of this machine.

machine = cost_machine_for(target, vector_floats=16, threads=2)
estimate(kernel.function, machine)
"""

from __future__ import annotations

from explorer.kernels.cost import CostMachine
from explorer.kernels.cost.machine import cost_machine
from explorer.processor import cache_bytes, clock_hz
from explorer.targets import Target


def cost_machine_for(target: Target, vector_floats: int, threads: int = 1) -> CostMachine:
    """What the model counts with; sizes and clock that a target leaves open are this machine's."""
    clock = target.clock_hz or clock_hz()
    return cost_machine(target.core, target.caches, cache_bytes(), vector_floats, clock, threads)
