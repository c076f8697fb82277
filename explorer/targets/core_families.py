"""Cores of processors: what is known of each family, one TOML file each in `cores/`.

    core_family("zen4").core.load_units                       2
    family_of("znver4", "x86_64").name                        zen4, by LLVM's name for it
    describe_core(family, features, CoreOverrides(...))       KnownCore(core=Core(...), caches=...)

A family says what a core of it does in a cycle, and which public tables say so. What was measured
of a processor goes before that, and what a target says goes before both. How many registers there
are is not the family's alone: code for AVX2 has 16 of the 32 that a processor with AVX-512 has.
"""

from __future__ import annotations

import dataclasses
import platform
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from explorer.errors import InputError
from explorer.files import reading_file
from explorer.results.names import suggestion
from explorer.targets.reading import FieldLocation, read_record
from explorer.targets.schema import Cache, Core, CoreOverrides, Name

Architecture = Literal["x86_64", "aarch64", "other"]
Feature = Literal[
    "sse2", "avx2", "fma", "avx512", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16",
    "amx_int8", "amx_bf16", "neon", "dotprod", "i8mm", "bf16", "sve",
]  # fmt: skip
GENERIC = {"x86_64": "generic_x86_64", "aarch64": "generic_aarch64"}
REGISTERS_WITHOUT_AVX512 = 16


@dataclass(frozen=True, kw_only=True)
class CoreFamily:
    """What public tables say of the cores of a family of processors."""

    name: Name
    """Of its file."""
    title: str
    architecture: Architecture
    families: tuple[str, ...]
    """LLVM's names of the processors that have such cores (`llvm-mca -mcpu=...`)."""
    features: tuple[Feature, ...]
    """Instructions that it has; what a compiler may use is asked of the compiler."""
    sources: tuple[str, ...]
    note: str = ""
    core: Core
    caches: tuple[Cache, ...]
    """With sizes that are usual; those of a processor at hand go before them."""


@dataclass(frozen=True, kw_only=True)
class KnownCore:
    """A core as schedules and the cost model take it, and where each number is from."""

    family: CoreFamily
    recognized_by: str
    """`CPU family 25, model 17`, or that a target names it."""
    features: tuple[str, ...]
    """That code may use, sorted."""
    core: Core
    caches: tuple[Cache, ...]
    """Every field known but perhaps the size, which is the machine's own then."""
    is_at_hand: bool = True
    """Whether it is this machine's, so that sizes of caches are its own."""
    kinds: tuple[tuple[str, int], ...] = ()
    """Where the machine at hand has cores of several kinds: each, and logical processors of it.
    This is the core of the first kind."""
    measured: tuple[str, ...] = ()
    """Fields that a measurement has replaced: `core.load_units`."""
    overridden: tuple[str, ...] = ()
    """Fields that the target says otherwise."""


@dataclass(frozen=True, kw_only=True)
class MeasuredCore:
    """What was measured of a processor, to go before what its family is known for."""

    core: CoreOverrides = field(default_factory=CoreOverrides)
    caches: tuple[Cache, ...] = ()


def list_core_families() -> list[str]:
    files = (resources.files("explorer.targets") / "cores").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


@lru_cache(maxsize=32)
def core_family(name: str) -> CoreFamily:
    """The family of that name; `InputError` with the nearest ones where there is none."""
    known = list_core_families()
    if name not in known:
        raise InputError(
            f"there is no family of cores {name!r}{suggestion(name, known)}",
            hint="auto, or one of " + ", ".join(known),
        )
    with reading_file(f"{name}.toml", "family of cores", kind=InputError):
        table = tomllib.loads(_text_of(name))
        return read_record(CoreFamily, table, FieldLocation(f"{name}.toml"), name)


def family_of(llvm_name: str, architecture: str = "") -> CoreFamily:
    """The family with LLVM's name for a processor; a general one where there is none."""
    general = GENERIC.get(architecture or architecture_here(), GENERIC["x86_64"])
    return core_family(_name_of_family(llvm_name) or general)


@lru_cache(maxsize=64)
def _name_of_family(llvm_name: str) -> str:
    """Empty where no family has that name."""
    for name in list_core_families():
        # Reading a record takes longer than looking for a word, and most are not wanted.
        if f'"{llvm_name}"' in _text_of(name) and llvm_name in core_family(name).families:
            return name
    return ""


def architecture_here() -> str:
    """x86_64 or aarch64, also where the system has another name for it."""
    machine = platform.machine().lower()
    return "aarch64" if machine in ("aarch64", "arm64") else "x86_64"


def describe_core(
    family: CoreFamily,
    recognized_by: str,
    features: Collection[str],
    overrides: CoreOverrides | None = None,
    caches: Sequence[Cache] = (),
    measured: MeasuredCore | None = None,
    sizes: Mapping[str, int] | None = None,
) -> KnownCore:
    """The core with what was measured, and then with what a target says.

    `sizes`: of the caches of the processor at hand, by name; None where another one is meant.
    """
    core = dataclasses.replace(
        family.core,
        vector_registers=registers_of(family, features),
        fuses_products=family.architecture != "x86_64" or "fma" in features,
    )
    levels = {cache.name: cache for cache in family.caches}
    for name, size in (sizes or {}).items():
        if name in levels:
            levels[name] = dataclasses.replace(levels[name], size_bytes=size)
    changed: list[list[str]] = []
    measured = MeasuredCore() if measured is None else measured
    given = ((measured.core, measured.caches), (overrides or CoreOverrides(), caches))
    for of_core, of_caches in given:
        said = _said(of_core)
        said.pop("family", None)
        core = dataclasses.replace(core, **said)
        names = [f"core.{name}" for name in said]
        for cache in of_caches:
            own = _said(cache)
            usual = levels.get(cache.name, Cache(cache.name, 8, ways=8, scope="core"))
            levels[cache.name] = dataclasses.replace(usual, **own)
            names += [f"caches.{cache.name}.{name}" for name in own if name != "name"]
        changed.append(names)
    return KnownCore(
        family=family,
        recognized_by=recognized_by,
        features=tuple(sorted(features)),
        core=core,
        caches=tuple(levels[name] for name in sorted(levels)),
        is_at_hand=sizes is not None,
        measured=tuple(changed[0]),
        overridden=tuple(changed[1]),
    )


def registers_of(family: CoreFamily, features: Collection[str]) -> int:
    """Vector registers of code with such features: of x86 only AVX-512 has names for 32."""
    if family.architecture == "x86_64" and "avx512" not in features:
        return min(family.core.vector_registers, REGISTERS_WITHOUT_AVX512)
    return family.core.vector_registers


def _text_of(name: str) -> str:
    file = resources.files("explorer.targets") / "cores" / f"{name}.toml"
    return file.read_text(encoding="utf-8")


def _said(record: CoreOverrides | Cache) -> dict[str, Any]:
    """The fields that say something; their types are of all kinds."""
    table = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    return {name: value for name, value in table.items() if value not in (None, "auto")}
