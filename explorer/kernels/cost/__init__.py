"""A static cost model: how long a scheduled kernel takes, and why, without running it.

    estimate(kernel.function, CostMachine(vector_floats=16, clock_hz=3.5e9, ...))
        -> CostEstimate("conv_1", 36.1, (CostTerm("arithmetic", 31.0, "903,168 ..."), ...))

machine.py says what it knows of a processor, rules.py what follows from that. counting.py counts
instructions, traffic.py bytes between the levels of cache, estimate.py adds it up. tiles.py does
the same with the numbers of a register tile, before there is a nest: it chooses the default.
"""

from explorer.kernels.cost.estimate import estimate
from explorer.kernels.cost.machine import CacheLevel, CostMachine

__all__ = ["CacheLevel", "CostMachine", "estimate"]
