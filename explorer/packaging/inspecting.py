"""Reads a package again: are its files what the manifest says, and what takes the memory?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from explorer.errors import ExplorerError, InputError
from explorer.files import reading_file
from explorer.packaging.manifest import MANIFEST
from explorer.packaging.toolchains import build_package, code_of_kernel
from explorer.packaging.writing import read_manifest
from explorer.results.package import (
    PackageBuffer,
    PackageBuild,
    PackageFile,
    PackageLayer,
    PackageRecord,
)
from explorer.targets import Target, load_target

HINT = "make the package again: explorer package MODEL -o DIR --force"


def inspect_package(
    folder: Path, builds: bool = True, runs: bool = False, target: Target | None = None
) -> PackageRecord:
    """The record of a package in a folder, with the files that were changed.

    builds: compiles it for the sizes of its code, where a compiler for its target is installed and
    no file was changed. runs: the self-test, too. target: what it is compiled for, where that is
    none of this version's. InputError where the folder is no package, or its manifest is damaged.
    """
    table = read_manifest(folder)
    with reading_file(folder / MANIFEST, "manifest", hint=HINT, kind=InputError):
        files = _files(table["files"])
        changed = tuple(text for file in files if (text := _change_of(folder, file)))
        target = target or _known_target(str(table["c_target"]))
        name = str(table["name"])
        build = _build(folder, name, target, changed, builds, runs, _threads(table))
        return PackageRecord(
            name=name,
            model=None if table["model"] is None else str(table["model"]),
            target=str(table["target"]),
            files=files,
            arena_bytes=int(str(table["arena_bytes"])),
            weights_bytes=int(str(table["weights_bytes"])),
            layers=_layers(table["layers"], build),
            buffers=_buffers(table["memory"]),
            build=build,
            changed_files=changed,
        )


def _build(
    folder: Path,
    name: str,
    target: Target | None,
    changed: tuple[str, ...],
    builds: bool,
    runs: bool,
    threads: int,
) -> PackageBuild:
    if not builds:
        return PackageBuild(note="--build compiles it and runs its self-test")
    if changed:
        return PackageBuild(note="it was not compiled: files were changed")
    if target is None:
        return PackageBuild(note="it was not compiled: its target is none of this version's")
    return build_package(folder, name, target, runs, threads)


def _threads(table: Mapping[str, Any]) -> int:
    """That share a run; packages of earlier versions have one."""
    return int(table["options"].get("threads", 1))


def _files(listed: object) -> tuple[PackageFile, ...]:
    if not isinstance(listed, Mapping):
        raise ValueError("it lists no files")
    found = []
    for path, facts in listed.items():
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise ValueError(f"{path!r} lies outside of the package")
        found.append(PackageFile(str(pure), int(facts["size_bytes"]), str(facts["sha256"])))
    return tuple(found)


def _change_of(folder: Path, file: PackageFile) -> str:
    """What is wrong with a file; empty where it is as it was."""
    path = folder / file.path
    if not path.is_file():
        return f"{file.path}: it is missing"
    if path.stat().st_size != file.size_bytes:
        return f"{file.path}: it has {path.stat().st_size:,} bytes, not {file.size_bytes:,}"
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != file.sha256:
            return f"{file.path}: its bytes were changed"
    return ""


def _known_target(name: str) -> Target | None:
    """Flags of a compiler are taken from this version's target, never from a manifest."""
    try:
        return None if name.endswith(".toml") else load_target(name)
    except ExplorerError:
        return None


def _buffers(memory: Any) -> tuple[PackageBuffer, ...]:
    return tuple(
        PackageBuffer(
            name=str(row["name"]),
            offset_bytes=int(row["offset_bytes"]),
            size_bytes=int(row["size_bytes"]),
            first=int(row["first"]),
            last=int(row["last"]),
        )
        for row in memory["buffers"]
    )


def _layers(rows: Any, build: PackageBuild) -> tuple[PackageLayer, ...]:
    layers = []
    seen: set[str] = set()
    for row in rows:
        kernel = str(row["kernel"])
        code = code_of_kernel(build, list(map(str, row["functions"])), kernel)
        if code is not None and kernel in seen:
            code = 0
        seen.add(kernel)
        layers.append(
            PackageLayer(
                name=str(row["name"]),
                kernel=kernel,
                nodes=tuple(map(str, row["nodes"])),
                operations=int(row["operations"]),
                weights_bytes=int(row["weights_bytes"]),
                code_bytes=code,
            )
        )
    return tuple(layers)
