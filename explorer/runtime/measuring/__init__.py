"""What the core of this machine does in a cycle, measured in some ten seconds.

    measure_core(registers=16)   -> Measurement(clock_hz=3.7e9, multiply_adds=1.99, loads=1.98, ...)
    measured_core(measurement)   -> MeasuredCore(core=CoreOverrides(arithmetic_units=2, ...), ...)
    keep(measurement)            kept per processor, and read again by whoever compiles

probes.py   the program in C that measures
figures.py  what it found, and which of it is clear enough to be believed
saved_measurements.py  a file per processor in the user's cache folder
load.py     how much of the time the machine was taken away, or busy with something else
"""

from explorer.runtime.measuring.figures import Measurement, measured_core
from explorer.runtime.measuring.probes import measure_core
from explorer.runtime.measuring.saved_measurements import (
    keep,
    measured_core_at_hand,
    saved_measurement,
)

__all__ = [
    "Measurement",
    "keep",
    "saved_measurement",
    "measure_core",
    "measured_core",
    "measured_core_at_hand",
]
