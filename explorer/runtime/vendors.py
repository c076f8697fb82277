"""Find OpenCL drivers whose registration is missing.

A driver is registered by a file such as `/etc/OpenCL/vendors/nvidia.icd`, whose one line names
its library. In containers the library is often mounted without that file:

    /etc/OpenCL/vendors/pocl.icd                        -> folder/pocl.icd
    /usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1     -> folder/explorer-nvidia-opencl.icd

and the loader is told to read `folder`, by the variable OCL_ICD_VENDORS, in place of the
system's folder. Where a person has set that variable, it stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from explorer.runtime.scratch import own_folder

VARIABLE = "OCL_ICD_VENDORS"
SYSTEM_FOLDER = Path("/etc/OpenCL/vendors")
DRIVER_PATTERNS = (
    "/usr/lib/*-linux-gnu/libnvidia-opencl.so*",
    "/usr/lib64/libnvidia-opencl.so*",
    "/usr/local/nvidia/lib64/libnvidia-opencl.so*",
    "/usr/lib/wsl/lib/libnvidia-opencl.so*",
    "/opt/rocm*/lib/libamdocl64.so*",
    "/usr/lib/*-linux-gnu/intel-opencl/libigdrcl.so*",
)


@contextlib.contextmanager
def vendor_variables(
    environment: Mapping[str, str] | None = None,
    system_folder: Path = SYSTEM_FOLDER,
    patterns: Sequence[str] = DRIVER_PATTERNS,
) -> Iterator[dict[str, str]]:
    """Environment variables that show the loader all drivers; empty when none is missing.

    They are valid inside the `with` block, which is long enough: a loader reads its folder once,
    at its process's first call.
    """
    environment = os.environ if environment is None else environment
    registered = _registrations(system_folder)
    missing = {} if VARIABLE in environment else _missing_drivers(registered, patterns)
    if not missing:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="opencl-", dir=own_folder()) as folder:
        for name, library in {**registered, **missing}.items():
            Path(folder, name).write_text(f"{library}\n")
        yield {VARIABLE: folder}


@contextlib.contextmanager
def visible_drivers() -> Iterator[None]:
    """Like `vendor_variables`, for a first call of OpenCL in this process."""
    with vendor_variables() as variables:
        os.environ.update(variables)
        try:
            yield
        finally:
            for name in variables:
                del os.environ[name]


def _registrations(system_folder: Path) -> dict[str, str]:
    """File name -> library, of all drivers that the system knows."""
    files = sorted(system_folder.glob("*.icd"))
    return {file.name: file.read_text(errors="replace").strip() for file in files}


def _missing_drivers(registered: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """File name to write -> library; one per driver, the shortest versioned name first."""
    known = {_stem(library) for library in registered.values()}
    missing: dict[str, str] = {}
    for pattern in patterns:
        # `.so.1` before `.so.535.161.08`, and both before `.so`, which only developers have.
        libraries = sorted(
            Path("/").glob(pattern.lstrip("/")),
            key=lambda path: (path.name.endswith(".so"), len(path.name), path.name),
        )
        if libraries and (stem := _stem(libraries[0].name)) not in known:
            known.add(stem)
            missing[f"explorer-{stem}.icd"] = str(libraries[0])
    return missing


def _stem(library: str) -> str:
    """`nvidia-opencl` of `/usr/lib64/libnvidia-opencl.so.1`."""
    return re.sub(r"\.so.*$", "", Path(library).name).removeprefix("lib")
