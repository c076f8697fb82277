"""The compiled program of a compilation, as the program cache knows it.

key_of(compilation)             what its binary depends on
bundle_for(compilation)         its binary in a file that starts without a compiler's work
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.errors import BuildError
from explorer.runtime.cache import ProgramCache, ProgramKey
from explorer.runtime.cache.bundles import bundle_of
from explorer.runtime.cache.c_programs import library_key
from explorer.runtime.compilers import find_compiler

if TYPE_CHECKING:
    from explorer.compilation.compilation import Compilation


def key_of(compilation: Compilation) -> ProgramKey:
    """Without building anything; raises `BuildError` where there is no compiler."""
    source = "\n".join(compilation.built.program.source.lines) + "\n"
    name = compilation.model.name
    if "opencl" in compilation.target.languages:
        from explorer.runtime.cache.opencl_programs import program_key  # imports pyopencl

        assert compilation.device is not None
        return program_key(source, (), compilation.device, name)
    return library_key(source, find_compiler(), (), name)


def bundle_for(compilation: Compilation, keeps_source: bool = True) -> bytes:
    """A bundle with the one program of a compilation, built where it has to be."""
    cache = ProgramCache(None)
    compilation.open(cache=cache).close()
    entry = cache.held(key_of(compilation).digest())
    if entry is None:
        raise BuildError(
            "the OpenCL driver gives no binary of its programs, so there is nothing to ship",
            hint="export for the target cpu",
        )
    return bundle_of([entry], keeps_source)
