"""What a byte, a multiply-accumulate and an operation of a machine take, in picojoules.

    for figure in figures(machine):
        figure.part, figure.picojoules, figure.per, figure.source
        # "matrix engine", 0.3, "multiply-accumulate", "M. Horowitz, ISSCC 2014: ..."

A target file may state each of them. What it leaves open is estimated from table 1 of M. Horowitz,
"Computing's energy problem (and what we can do about it)", ISSCC 2014, which is for 45 nm and
0.9 V: a multiplication of 8 bits takes 0.2 pJ and grows with both widths, an addition of 32 bits
takes 0.1 pJ and grows with its width, 64 bits of a memory on the chip take 10, 20 and 100 pJ at
8 KiB, 32 KiB and 1 MiB, and of DRAM 1,300 to 2,600 pJ. The size is that of a bank; wires between
banks and engines, clocks and leakage are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from explorer.targets.npu.machine import Machine

HOROWITZ = "M. Horowitz, ISSCC 2014, 45 nm"
ON_CHIP = ((8 * 1024, 10.0), (32 * 1024, 20.0), (1024 * 1024, 100.0))
"""Bytes of a memory, and picojoules of 64 bits."""
DRAM = (1300.0 + 2600.0) / 2
"""Picojoules of 64 bits."""
WORD_BYTES = 8
MATRIX, VECTOR = "matrix engine", "vector engine"


@dataclass(frozen=True, kw_only=True)
class EnergyFigure:
    """One figure of a machine."""

    part: str
    """An engine, or the name of a memory."""
    picojoules: float
    per: str
    source: str


def figures(machine: Machine) -> Iterator[EnergyFigure]:
    """Of the matrix engine, the vector engine, all scratchpads and all memories."""
    matrix, vector = machine.matrix, machine.vector
    widths = f"{machine.input_bits} x {machine.weight_bits} bits"
    yield _figure(
        MATRIX,
        matrix,
        matrix.energy_picojoules_per_operation,
        "multiply-accumulate",
        _product(machine.input_bits, machine.weight_bits) + _sum(machine.accumulator_bits),
        f"{widths} into {machine.accumulator_bits}",
    )
    if vector is not None:
        wide = machine.accumulator_bits
        estimate = _product(wide, wide) + _sum(wide)
        words = f"a multiplication and an addition of {wide} bits"
        stated = vector.energy_picojoules_per_operation
        yield _figure(VECTOR, vector, stated, "operation", estimate, words)
    for pad in machine.scratchpads:
        bank = pad.bank_bytes or ON_CHIP[-1][0]
        words = f"a bank of {bank:,} bytes"
        stated = pad.energy_picojoules_per_byte
        yield _figure(pad.name, pad, stated, "byte", on_chip_picojoules(bank), words)
    for region in machine.regions:
        stated = region.energy_picojoules_per_byte
        yield _figure(region.name, region, stated, "byte", DRAM / WORD_BYTES, "DRAM")


def on_chip_picojoules(size_bytes: int) -> float:
    """Of a byte of a memory of that size: between the sizes of the table, and beyond them, a power
    of the size."""
    ranges = list(pairwise(ON_CHIP))
    (small, low), (large, high) = next((r for r in ranges if size_bytes <= r[1][0]), ranges[-1])
    slope = log2(high / low) / log2(large / small)
    return low * 2 ** (slope * log2(size_bytes / small)) / WORD_BYTES


def _product(one: int, other: int) -> float:
    return 0.2 * one * other / 64


def _sum(bits: int) -> float:
    return 0.1 * bits / 32


def _figure(
    part: str, stated_by: object, stated: float | None, per: str, estimate: float, words: str
) -> EnergyFigure:
    if stated is None:
        return EnergyFigure(
            part=part, picojoules=estimate, per=per, source=f"estimated, {HOROWITZ}: {words}"
        )
    source = getattr(stated_by, "energy_source", "") or "the target"
    return EnergyFigure(part=part, picojoules=stated, per=per, source=source)
