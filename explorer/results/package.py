"""A package of C: its files, what it takes of each memory, and whether its self-test passed."""

from __future__ import annotations

from dataclasses import dataclass

PART = "packages"
"""Its name among the parts of a trace."""


@dataclass(frozen=True)
class PackageFile:
    path: str
    """Inside of the package."""
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class PackageBuild:
    """What a compiler makes of the package for its target; None where nothing could be made."""

    compiler: str = ""
    """Its command; empty where there is none."""
    code_bytes: int | None = None
    """Instructions and constants, without the weights."""
    static_bytes: int | None = None
    """Memory that the program writes besides the arena: `.data` and `.bss`."""
    function_bytes: tuple[tuple[str, int], ...] = ()
    """(function, bytes of its instructions), the largest first."""
    undefined_symbols: tuple[str, ...] | None = None
    """What it calls of libraries."""
    passed: bool | None = None
    """Whether the self-test ended with status 0; None where it was not run."""
    instructions: int | None = None
    """Of a run, to 40 of them, where an emulator counts them."""
    note: str = ""
    """Why something is None, or what the self-test printed where it failed."""


@dataclass(frozen=True, kw_only=True)
class PackageLayer:
    """A launch: its kernel, and what of the flash is its own."""

    name: str
    kernel: str
    nodes: tuple[str, ...]
    operations: int
    weights_bytes: int
    """Of weights that no earlier launch reads."""
    code_bytes: int | None = None
    """Of its kernel's functions, at the first launch of it; 0 at others."""


@dataclass(frozen=True, kw_only=True)
class PackageBuffer:
    """A place in the arena, live in launches [first, last)."""

    name: str
    offset_bytes: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class PackageRecord:
    name: str
    model: str | None
    """None in a stripped package."""
    target: str
    files: tuple[PackageFile, ...]
    arena_bytes: int
    weights_bytes: int
    layers: tuple[PackageLayer, ...]
    buffers: tuple[PackageBuffer, ...]
    build: PackageBuild
    changed_files: tuple[str, ...] = ()
    """Files that are missing or other than the manifest says, each with what is wrong."""


@dataclass(frozen=True)
class PackagesRecord:
    """Packages that were made of a compilation, in order."""

    packages: tuple[PackageRecord, ...]
