"""Targets: what the compiler knows about a device, one TOML file each.

    load_target("cpu")                                            a target of this package
    load_target("boards/my_chip.toml")                            a file of one's own
    load_target("cpu", {"memories.arena.size_bytes": 65536})      with other values

**Adding a target** is adding a file to this folder; the fields, their units and bounds stand in
`explorer.targets.schema`. A mistake is answered with the file, the field and what was expected.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import ModuleType

from explorer.calling import refuse
from explorer.errors import InputError
from explorer.files import reading_file
from explorer.results.names import listed, suggestion
from explorer.targets.parts import (
    DmaEngine,
    Engine,
    MatrixEngine,
    Memory,
    ScalarEngine,
    VectorEngine,
)
from explorer.targets.reading import FieldLocation, Value, read_record
from explorer.targets.schema import (
    VECTOR_FLOATS,
    Cache,
    Core,
    CoreOverrides,
    Costs,
    LayoutRules,
    Requantization,
    Target,
)

__all__ = [
    "load_target",
    "list_targets",
    "Target",
    "VECTOR_FLOATS",
    "Memory",
    "Engine",
    "MatrixEngine",
    "VectorEngine",
    "ScalarEngine",
    "DmaEngine",
    "LayoutRules",
    "Requantization",
    "Costs",
    "Core",
    "CoreOverrides",
    "Cache",
]

MAX_FILE_BYTES = 2**20


def list_targets() -> list[str]:
    """Names of the targets of this package, sorted."""
    files = resources.files("explorer.targets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_target(name_or_path: str | Path, overrides: Mapping[str, Value] | None = None) -> Target:
    """The target of that name, or in that file (a `Path`, or a string that ends in `.toml`).

    `overrides` maps dotted paths to values. Raises `InputError` that names file, field, what was
    expected and the nearest legal name.
    """
    target = read_target(name_or_path)
    return target.with_(**overrides) if overrides else target


def read_target(name_or_path: str | Path) -> Target:
    if not isinstance(name_or_path, str | Path):
        refuse("target", name_or_path, "a name or the path of a .toml file", listed(list_targets()))
    if isinstance(name_or_path, Path) or name_or_path.endswith(".toml"):
        return parse_target(read_file(Path(name_or_path)), str(name_or_path))
    known = list_targets()
    if name_or_path not in known:
        raise InputError(
            f"there is no target {name_or_path!r}{suggestion(name_or_path, known)}",
            hint="a name, or the path of a .toml file",
        )
    file = resources.files("explorer.targets") / f"{name_or_path}.toml"
    return parse_target(file.read_bytes(), file.name)


def read_file(path: Path) -> bytes:
    hint = "check the path and its permissions"
    with reading_file(path, "target", kind=InputError, hint=hint), path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"a target has at most {MAX_FILE_BYTES} bytes", file=str(path))
    return data


@lru_cache(maxsize=64)  # knobs ask every target of the package whether a backend compiles for it
def parse_target(data: bytes, file: str) -> Target:
    """The target in the bytes of a TOML file."""
    with reading_file(
        file,
        "target",
        kind=InputError,
        hint="docs/adding-a-target.md says what a target's file holds",
    ):
        return read_record(Target, tomllib.loads(data.decode()), FieldLocation(file))


class _TargetsModule(ModuleType):
    """This module. Python sets it as the attribute `targets` of the package, in the place of the
    function `explorer.targets`, so that it answers calls as that does."""

    def __call__(self) -> list[str]:
        return list_targets()


sys.modules[__name__].__class__ = _TargetsModule
