"""The compiled program of a compilation, as the program cache knows it.

key_of(compilation)             what its binary depends on; `keys_of` of every part's
bundle_for(compilation)         its binary in a file that starts without a compiler's work
finished_for(compilation, ...)  the rest of it, which starts without a pass
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.errors import BuildError
from explorer.runtime.cache import ProgramCache, ProgramKey, default_cache
from explorer.runtime.cache.bundles import ShippedProgram, bundle_of
from explorer.runtime.cache.c_programs import library_key
from explorer.runtime.cache.digests import digest_of_array
from explorer.runtime.cache.kept import KeptPrograms
from explorer.runtime.cache.requests import Request
from explorer.runtime.caller_devices import device_for
from explorer.runtime.compilers import find_compiler

if TYPE_CHECKING:
    from explorer.compilation.compilation import Compilation
    from explorer.results import Program


def keys_of(compilation: Compilation) -> list[ProgramKey]:
    """As `key_of`, of every part that runs on a device."""
    parts = compilation.built.parts.values() or [compilation.built]
    return [_key_of(compilation, part.program) for part in parts if part.host is None]


def key_of(compilation: Compilation) -> ProgramKey:
    """Without building anything; raises `BuildError` where there is no compiler."""
    return _key_of(compilation, compilation.built.program)


def _key_of(compilation: Compilation, program: Program) -> ProgramKey:
    source = "\n".join(program.source.lines) + "\n"
    name = compilation.model.name
    if "opencl" in compilation.target.languages:
        from explorer.runtime.cache.opencl_programs import program_key  # imports pyopencl

        assert compilation.device is not None
        device = device_for(program, compilation.device)
        return program_key(source, (), device, name)
    return library_key(source, find_compiler(), (), name)


def bundle_for(
    compilation: Compilation,
    keeps_source: bool = True,
    finished: Iterable[ShippedProgram] = (),
) -> bytes:
    """A bundle with the one program of a compilation, built where it has to be.

    With `finished_for` it starts without a pass, too. BuildError where there is nothing to ship.
    """
    if compilation.program.parts:
        raise BuildError(
            "the program has parts, some of which the host runs: only whole programs are shipped",
            hint="`explorer compile MODEL --no-host` says which operations have no compiled form",
        )
    entry = _built(compilation).held(key_of(compilation).digest())
    if entry is None:
        raise BuildError(
            "the OpenCL driver gives no binary of its programs, so there is nothing to ship",
            hint="export for the target cpu",
        )
    return bundle_of([entry], keeps_source, finished)


def finished_for(compilation: Compilation, request: Request) -> ShippedProgram | str:
    """The finished program that was compiled for a request; or why it cannot be kept."""
    from explorer.compilation.keeping import finished

    kept = finished(compilation, request, KeptPrograms(_built(compilation)), {}, 0.0)
    if isinstance(kept, str):
        return kept
    weights = compilation.built.weights
    digest = digest_of_array(weights) if weights.nbytes else ""
    return ShippedProgram(replace(kept, weights=digest), weights)


def _built(compilation: Compilation) -> ProgramCache:
    """A cache of this process that holds the program."""
    cache = ProgramCache(default_cache().folder)
    compilation.open(cache=cache).close()
    return cache
