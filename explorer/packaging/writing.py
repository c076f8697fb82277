"""Writes a package: all files appear at once under its name, or none does."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from explorer.errors import InputError
from explorer.files import check_output
from explorer.packaging.building import cmake_text, makefile_text, readme_text
from explorer.packaging.driver import driver_text, header_text
from explorer.packaging.kernels import kernels_text
from explorer.packaging.manifest import FORMAT, MANIFEST, manifest_text
from explorer.packaging.opencl import opencl_files
from explorer.packaging.programs import example_text, selftest_files
from explorer.packaging.source import PackageSource, with_weights_packed
from explorer.packaging.weights import check_sizes, weights_file, weights_text

MAX_MANIFEST_BYTES = 1 << 28
MADE_BY = "the folder that `explorer package MODEL -o DIR` wrote"
PRODUCTS = ("selftest", "example/main", "*.o", "*.a", "build")
"""What the package's own Makefile and CMake make in its folder."""


def package_files(source: PackageSource, flash_bytes: int | None = None) -> dict[str, bytes]:
    """The files of a package by their paths in it, the manifest among them.

    flash_bytes: room for weights and code, by default the target's; InputError where it is too
    small.
    """
    source = with_weights_packed(source)
    check_sizes(source)
    flash = source.target.package.flash_bytes if flash_bytes is None else flash_bytes
    if flash is not None and source.program.weights_bytes > flash:
        raise InputError(
            f"the weights take {source.program.weights_bytes:,} bytes, and the flash has {flash:,}",
            hint="quantize the model (--quantize TABLE), or choose a smaller one",
        )
    name = source.name
    texts = {**(opencl_files(source) if source.is_opencl else _c_files(source))}
    texts |= {
        "Makefile": makefile_text(source),
        "CMakeLists.txt": cmake_text(source),
        "README.md": readme_text(source),
    }
    if source.storage == "array":
        texts[f"src/{name}_weights.h"] = weights_text(source)
    files = {
        path: text.encode("ascii") if isinstance(text, str) else text
        for path, text in texts.items()
    }
    files |= {**source.npu_files, **source.table_files}
    if source.storage == "file":
        files[f"{name}.weights"] = weights_file(source)
    files[MANIFEST] = manifest_text(source, files).encode("ascii")
    return files


def _c_files(source: PackageSource) -> dict[str, str | bytes]:
    name = source.name
    return {
        f"include/{name}.h": header_text(source),
        f"src/{name}.c": driver_text(source),
        f"src/{name}_kernels.h": kernels_text(source),
        "example/main.c": example_text(source),
        **selftest_files(source),
    }


def check_package_folder(folder: Path, is_forced: bool = False) -> None:
    """InputError where no package of that name could be written.

    A folder that is there is replaced only where `is_forced` and all in it is a package's.
    """
    if not os.path.lexists(folder):
        check_output(folder)
        if not os.access(folder.parent, os.W_OK):
            raise InputError(
                "its folder cannot be written", file=str(folder), hint="give another place"
            )
        return
    if not is_forced:
        raise InputError(
            "it exists", file=str(folder), hint="give another name, or --force to replace a package"
        )
    foreign = _foreign_files(folder)
    if foreign is None:
        raise InputError(
            "it is no package, so that --force does not replace it",
            file=str(folder),
            hint="give another name, or remove the folder",
        )
    if foreign:
        raise InputError(
            f"{foreign[0]} is no file of the package, so that --force does not replace it",
            file=str(folder),
            hint="move it away, or give another name",
        )


def write_package(files: Mapping[str, bytes], folder: Path, is_forced: bool = False) -> None:
    """The files in a new folder of that name. InputError says why it cannot be; nothing is left."""
    check_package_folder(folder, is_forced)
    try:
        with tempfile.TemporaryDirectory(prefix=".package-", dir=folder.parent) as name:
            partial = Path(name, "package")
            for path, data in files.items():
                file = partial / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            if folder.exists():
                folder.rename(Path(name, "replaced"))
            partial.rename(folder)
    except OSError as error:
        raise InputError(
            f"it cannot be written: {error.strerror or error}",
            file=str(folder),
            hint="check the folder's permissions and the space that is left",
        ) from error


def read_manifest(folder: Path) -> dict[str, object]:
    """The manifest of a package. InputError where the folder has none that can be read."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise InputError("there is no such folder", file=str(folder), hint=MADE_BY)
    if not path.is_file():
        problem = f"it is no package: it has no {MANIFEST}"
        raise InputError(problem, file=str(folder), hint=MADE_BY)
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise ValueError("it is too large")
        table = json.loads(path.read_bytes())
        if not isinstance(table, dict) or table.get("format") != FORMAT:
            raise ValueError("it is of another format")
        if not isinstance(table.get("files"), dict):
            raise ValueError("it lists no files")
    except (ValueError, RecursionError, OSError) as error:
        problem = f"not a readable {MANIFEST}: {error}"
        raise InputError(problem, file=str(folder), hint=MADE_BY) from error
    return table


def _foreign_files(folder: Path) -> list[str] | None:
    """Files that neither the manifest lists nor a build makes; None where it is no package."""
    if folder.is_symlink() or not folder.is_dir():
        return None
    try:
        listed = read_manifest(folder)["files"]
    except InputError:
        return None
    assert isinstance(listed, dict)
    found: list[str] = []
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        is_known = path.as_posix() in listed or path.as_posix() == MANIFEST
        is_product = any(
            (parent.match(pattern) and ("/" in pattern or len(parent.parts) == 1))
            for parent in (path, *path.parents)
            for pattern in PRODUCTS
            if parent.parts
        )
        if not (is_known or is_product or file.is_dir()):
            found.append(path.as_posix())
    return found
