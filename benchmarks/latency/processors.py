"""The processor that figures of speed are of, with what was measured of it: in no mean with others.

here()   -> Processor("AMD EPYC (zen4), 2 processors, vectors of 8 float32", Measurement(...))
table([processor, ...])   Markdown: clock, peak, bytes by cache level, what was taken away
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.backends import backend_of
from explorer.processor import core_count, processor_name
from explorer.runtime.measuring import Measurement, measure_core, saved_measurement
from explorer.targets import load_target


@dataclass(frozen=True)
class Processor:
    name: str
    """By which its rows are told from those of others."""
    measured: Measurement


def here() -> Processor:
    """This machine's, measured now where `explorer devices --measure` has not done so."""
    target = load_target("cpu")
    core = backend_of(target).core(target)
    measured = saved_measurement() or measure_core(core.core.vector_registers)
    name = f"{processor_name()} ({core.family.name}), {core_count()} processors, "
    return Processor(f"{name}vectors of {measured.vector_floats} float32", measured)


def table(processors: Sequence[Processor]) -> list[str]:
    """Markdown, a processor per row."""
    lines = [
        "| processor | clock, GHz | peak, GFLOP/s | L1, L2, L3, memory: bytes in a cycle | steal |",
        "| --- | --- | --- | --- | --- |",
    ]
    for processor in processors:
        found = processor.measured
        rates = (found.l1_bytes, found.l2_bytes, found.l3_bytes, found.memory_bytes)
        named = ", ".join(f"{rate:.0f}" for rate in rates)
        steal = "–" if found.steal is None else f"{found.steal:.1%}"
        lines.append(
            f"| {processor.name} | {found.clock_hz * 1e-9:.2f} | {found.gflops:.0f} | {named} | "
            f"{steal} |"
        )
    return lines
