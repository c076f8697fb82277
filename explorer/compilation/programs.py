"""The compiled program of a compilation, as the program cache knows it.

key_of(compilation)             what its binary depends on; `program_keys` of every part's
bundle_for(compilation)         its binary in a file that starts without a compiler's work
finished_for(compilation, ...)  the rest of it, which starts without a pass
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.backends.starting import kept_programs
from explorer.errors import BuildError
from explorer.runtime.cache import ProgramCache, ProgramKey, default_cache
from explorer.runtime.cache.bundles import ShippedProgram, bundle_of
from explorer.runtime.cache.digests import digest_of_array
from explorer.runtime.cache.requests import ProgramRequest

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled


def key_of(compilation: Compiled) -> ProgramKey:
    """Without building anything; raises `BuildError` where there is no compiler."""
    (key,) = compilation.program_keys
    return key


def bundle_for(
    compilation: Compiled,
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
            f"the {compilation.backend.title} driver gives no binary of its programs, so there is "
            "nothing to ship",
            hint="export for the target cpu",
        )
    return bundle_of([entry], keeps_source, finished)


def finished_for(compilation: Compiled, request: ProgramRequest) -> ShippedProgram | str:
    """The finished program that was compiled for a request; or why it cannot be kept."""
    from explorer.compilation.keeping import finished

    kept = finished(compilation, request, kept_programs(_built(compilation)), {}, 0.0)
    if isinstance(kept, str):
        return kept
    weights = compilation.built.weights
    digest = digest_of_array(weights) if weights.nbytes else ""
    return ShippedProgram(replace(kept, weights=digest), weights)


def _built(compilation: Compiled) -> ProgramCache:
    """A cache of this process that holds the program."""
    cache = ProgramCache(default_cache().folder)
    compilation.open(cache=cache).close()
    return cache
