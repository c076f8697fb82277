"""Which of the analyser's cores stands for a core: one that multiplies and adds as fast.

    fitting_family("sapphirerapids", ...)  -> Fitting("skylake-avx512", "LLVM 19.1.7: on
                                              sapphirerapids it begins 1 multiply-adds of 512 bits
                                              in a cycle, the core 2")

LLVM's tables have mistakes, and later releases other ones: LLVM 19 gives Ice Lake and Sapphire
Rapids one unit for 512 bits where servers have two, and lets a unit of Zen 4 repeat an element that
is loaded, which the load itself does. So the analyser is asked about a loop of independent
multiply-adds with half as many such loads (on Arm without, where multiply-adds repeat an element),
which the multiply-adds limit on every core; where it is wrong about that, the next older core is
asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from explorer.errors import BuildError
from explorer.runtime.assembly.analysis import (
    OLDER_FAMILIES,
    analyse_loop,
    analyser_version,
)

NEAR = 0.1
"""By how much the analyser may be off, as a part of the core's cycles."""
_REGISTERS = {4: "xmm", 8: "ymm", 16: "zmm"}
_SUMS = 12
"""More than latency times units, and few enough for 16 registers."""
_ARM_SUMS = 24


@dataclass(frozen=True)
class Fitting:
    family: str
    """As LLVM names it."""
    note: str = ""
    """Why it is not the one that was wanted; or what is wrong with it, where no other is better."""


@lru_cache(maxsize=64)
def fitting_family(
    wanted: str, architecture: str, vector_floats: int, multiply_adds: float
) -> Fitting:
    """The family to ask about loops of the core `wanted`.

    `multiply_adds`: of vectors of `vector_floats` float32, that the core begins in a cycle.
    """
    refused: list[str] = []
    for family in (wanted, *OLDER_FAMILIES.get(wanted, ())):
        try:
            text = _loop(architecture, vector_floats)
            found = analyse_loop(text, machine=architecture, family=family)
        except BuildError:
            continue  # it does not know instructions of that width
        if found.family != family:
            refused.append(f"it has no such instructions on {family}")
            continue
        rate = (_SUMS if architecture == "x86_64" else _ARM_SUMS) / found.cycles
        if abs(rate / multiply_adds - 1) <= NEAR:
            return Fitting(family, _note(refused))
        refused.append(
            f"on {family} it begins {rate:.2g} multiply-adds of {32 * vector_floats} bits in a "
            f"cycle, the core {multiply_adds:.2g}"
        )
    return Fitting(wanted, _note(refused))


def _note(refused: list[str]) -> str:
    return f"{analyser_version()}: {'; '.join(refused)}" if refused else ""


def _loop(architecture: str, vector_floats: int) -> tuple[str, ...]:
    """Multiply-adds whose operands wait for nothing."""
    if architecture == "aarch64":
        sums = [f"\tfmla\tv{n}.4s, v30.4s, v31.4s" for n in range(_ARM_SUMS)]
        return (".L1:", *sums, "\tsubs\tx1, x1, #1", "\tb.ne\t.L1")
    kind = _REGISTERS[vector_floats]
    sums = [f"\tvfmadd231ps\t%{kind}15, %{kind}14, %{kind}{n}" for n in range(_SUMS)]
    loads = [f"\tvbroadcastss\t{4 * n}(%rsi), %{kind}13" for n in range(_SUMS // 2)]
    return (".L1:", *sums, *loads, "\tdecq\t%rcx", "\tjne\t.L1")
