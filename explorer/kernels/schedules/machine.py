"""What a schedule has to know about the machine that will run it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """`vector_floats` single-precision numbers fit into one of `registers` vector registers."""

    vector_floats: int
    language: str
    """c or opencl."""
    registers: int = 32
    processor: str = "cpu"
    """cpu, or gpu: schedules with work-groups and local memory, and as many tasks as there are
    independent iterations."""

    def __post_init__(self) -> None:
        if self.vector_floats not in (4, 8, 16):
            raise ValueError(f"vector_floats is {self.vector_floats}; expected 4, 8 or 16")
        if self.language not in ("c", "opencl"):
            raise ValueError(f"language is {self.language!r}; expected 'c' or 'opencl'")
