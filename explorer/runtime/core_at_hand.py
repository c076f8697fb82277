"""The core that programs are compiled for where a target names none.

    core_at_hand()           None: the processor of this machine
    EXPLORER_TEST_CORE=sapphire_rapids
    core_at_hand()           EmulatedCore("sapphire_rapids", family=..., features={"avx512", ...})

The setting is for tests: it makes what one processor shows visible on any other. Schedules and
passes decide for the core that it names. The C compiler keeps `-march=native` without what that
core lacks, so that no instruction is executed that this machine lacks: vectors that are wider than
its own are divided by the compiler, and instructions that it lacks have portable forms.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from explorer.errors import InputError
from explorer.processor import lanes_of, processor_features, vector_floats
from explorer.results.names import near_name

if TYPE_CHECKING:
    from explorer.targets.core_families import CoreFamily

SETTING = "EXPLORER_TEST_CORE"

FEATURES_OF_LANES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "4": frozenset({"sse2"}),
        "8": frozenset({"sse2", "avx2", "fma"}),
        "16": frozenset({"sse2", "avx2", "fma", "avx512"}),
    }
)
"""Of a core of which only the float32 in a vector are named: none multiplies bytes."""

FLAGS_WITHOUT: Mapping[str, str] = MappingProxyType(
    {
        "avx2": "-mno-sse3",
        "fma": "-mno-fma",
        "avx512": "-mno-avx512f",
        "avx512_vnni": "-mno-avx512vnni",
        "avx_vnni": "-mno-avxvnni",
        "avx512_bf16": "-mno-avx512bf16",
        "avx512_fp16": "-mno-avx512fp16",
        "amx_int8": "-mno-amx-int8",
        "amx_bf16": "-mno-amx-bf16",
    }
)
"""With which gcc and clang do without a feature, and without all that builds on it. A core without
AVX2 counts as the first of x86-64, which have SSE2 alone."""


@dataclass(frozen=True)
class EmulatedCore:
    """A core that `EXPLORER_TEST_CORE` names."""

    name: str
    """As the setting says it."""
    family: CoreFamily
    features: frozenset[str]

    @property
    def lanes(self) -> int:
        """float32 in a vector: 4, 8 or 16."""
        return lanes_of(self.features)

    @property
    def restrictions(self) -> tuple[str, ...]:
        """Flags with which a C compiler for this machine uses nothing that the core lacks."""
        return tuple(flag for name, flag in FLAGS_WITHOUT.items() if name not in self.features)


def core_at_hand() -> EmulatedCore | None:
    """The core that the setting names; None where this machine's own is meant.

    Raises InputError for a name that no core has.
    """
    name = os.environ.get(SETTING, "")
    return _emulated(name) if name else None


def features_at_hand() -> frozenset[str]:
    """Instructions of the core, by the names of `explorer.processor.FEATURES`."""
    core = core_at_hand()
    return processor_features() if core is None else core.features


def lanes_at_hand() -> int:
    """float32 in a vector of the core."""
    core = core_at_hand()
    return vector_floats() if core is None else core.lanes


def restrictions_at_hand() -> tuple[str, ...]:
    """What a C compiler for this machine is called with, beyond `-march=native`."""
    core = core_at_hand()
    return () if core is None else core.restrictions


@lru_cache(maxsize=16)
def _emulated(name: str) -> EmulatedCore:
    # Who starts a kept program has no use for the families.
    from explorer.targets.core_families import (
        GENERIC,
        architecture_here,
        core_family,
        list_core_families,
    )

    if name in FEATURES_OF_LANES:
        family = core_family(GENERIC[architecture_here()])
        return EmulatedCore(name, family, FEATURES_OF_LANES[name])
    known = list_core_families()
    if name not in known:
        near = near_name(name, known, otherwise="")
        raise InputError(
            f"{SETTING} = {name}: there is no such core" + (f" ({near})" if near else ""),
            hint=f"float lanes ({', '.join(FEATURES_OF_LANES)}), or one of {', '.join(known)}",
        )
    family = core_family(name)
    return EmulatedCore(name, family, frozenset(family.features))
