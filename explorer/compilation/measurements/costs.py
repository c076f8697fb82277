"""Predicted times of kernels: the cost model with the numbers of a target and of this machine.

machine = cost_machine_for(target, vector_floats=16, threads=2)
estimate(kernel.function, machine)
"""

from __future__ import annotations

from explorer.backends import backend_of
from explorer.backends.cores import cost_machine_of
from explorer.kernels.cost import CostMachine
from explorer.targets import Target


def cost_machine_for(target: Target, vector_floats: int, threads: int = 1) -> CostMachine:
    """What the model counts with; sizes and clock that a target leaves open are this machine's."""
    core = backend_of(target).core(target)
    return cost_machine_of(core, target, vector_floats, threads)
