"""The simulator of NPUs: instruction bytes, a memory image and a target in; numbers and cycles out.

    simulation.py    what is called, and what comes out
    cycles.py        how long each instruction takes by itself
    block.py         the one block of memory that the native code works on
    simulator.c      what instructions compute
    events.c         in which cycle each begins and ends
    child.py         runs them in a process of their own

Nothing here knows the compiler: targets, results and errors are all that it imports of ours, beside
its neighbours in `explorer.runtime`.
"""

from explorer.runtime.npu.simulation import (
    Simulation,
    SimulationFault,
    Tap,
    activation_bytes,
    simulate,
)

__all__ = ["Simulation", "SimulationFault", "Tap", "activation_bytes", "simulate"]
