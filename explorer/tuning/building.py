"""Compiling candidates, several at a time, here or on other machines.

    build_all({"a.c text": ...}, jobs=2, backend="loky")

joblib spreads the work: `loky` are processes of this machine, `dask` whatever a Dask client
reaches. What comes back is the library's bytes; one that another kind of processor or compiler
made is not used but built again here.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import joblib

from explorer.errors import BuildError, InputError
from explorer.runtime.cache.c_programs import library_key
from explorer.runtime.compilers import find_compiler
from explorer.runtime.scratch import own_folder
from explorer.runtime.shared_driver import compile_program

LIMIT_SECONDS = 60.0
"""For one candidate: a compiler that needs longer was given too much to write out."""


@dataclass(frozen=True)
class BuiltLibrary:
    """A shared library, or why there is none."""

    content: bytes
    reason: str = ""
    made_by: str = ""
    """Processor and compiler."""
    is_late: bool = False
    """Whether the compiler did not end in time."""


def build_library(source: str) -> BuiltLibrary:
    """Compiles one candidate where this runs; never raises for what the candidate is at fault."""
    try:
        with tempfile.TemporaryDirectory(prefix="candidate-", dir=own_folder()) as folder:
            path = compile_program(source, Path(folder), find_compiler(), (), LIMIT_SECONDS)
            return BuiltLibrary(path.read_bytes(), made_by=place_name())
    except BuildError as error:
        return BuiltLibrary(b"", str(error), place_name(), "did not finish within" in str(error))


def place_name() -> str:
    """Processor and compiler of this machine, as keys of the program cache have them."""
    key = library_key("", find_compiler(), (), "")
    return f"{key.device}; {key.compiler}; {' '.join(key.options)}"


def build_all(
    sources: Sequence[str], jobs: int | None = None, backend: str | None = "loky"
) -> list[BuiltLibrary]:
    """The libraries in the order of the sources.

    jobs: how many at once, by default as many as there are processors. backend: joblib's; None
    for what `joblib.parallel_config` says around the call.
    """
    if not sources:
        return []
    try:
        # parallel_config also finds backends that are registered when they are first asked for.
        chosen = joblib.parallel_config(backend=backend) if backend else contextlib.nullcontext()
        with chosen:
            parallel = joblib.Parallel(n_jobs=jobs or os.cpu_count() or 1)
            done = parallel(joblib.delayed(build_library)(source) for source in sources)
    except (ValueError, ImportError) as error:
        raise InputError(
            f"joblib cannot compile with the backend {backend!r}: {error}",
            hint="loky or threading; dask needs dask.distributed and a Client",
        ) from error
    here = place_name()
    built = [library for library in done if isinstance(library, BuiltLibrary)]
    return [
        library if library.made_by == here else build_library(source)
        for library, source in zip(built, sources, strict=True)
    ]
