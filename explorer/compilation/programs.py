"""The compiled program of a compilation, as the program cache knows it.

bundle_for(compilation)         its binaries in a file that starts without a compiler's work
finished_for(compilation, ...)  the rest of it, which starts without a pass
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.backends.loading import saved_programs
from explorer.errors import BuildError
from explorer.runtime.cache import ProgramCache, default_cache
from explorer.runtime.cache.bundles import ShippedProgram, bundle_of
from explorer.runtime.cache.digests import digest_of_array
from explorer.runtime.cache.requests import ProgramRequest

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled


def bundle_for(
    compilation: Compiled,
    keeps_source: bool = True,
    finished: Iterable[ShippedProgram] = (),
) -> bytes:
    """A bundle with the one program of a compilation, built where it has to be.

    With `finished_for` it starts without a pass, too. BuildError where there is nothing to ship.
    """
    if compilation.built.parts and not keeps_source:
        raise BuildError(
            "what the host runs is text, which cannot be left out",
            hint="`explorer compile MODEL --no-host` says which operations have no compiled form",
        )
    cache = _built(compilation)
    found = [cache.held(key.digest()) for key in compilation.program_keys]
    entries = {entry.digest: entry for entry in found if entry is not None}
    if not all(found):
        raise BuildError(
            f"the {compilation.backend.title} driver gives no binary of its programs, so there is "
            "nothing to ship",
            hint="export for the target cpu",
        )
    return bundle_of(entries.values(), keeps_source, finished)


def finished_for(compilation: Compiled, request: ProgramRequest) -> ShippedProgram | str:
    """The finished program that was compiled for a request; or why it cannot be kept."""
    from explorer.compilation.saving_programs import finished

    found = finished(compilation, request, saved_programs(_built(compilation)), {}, 0.0)
    if isinstance(found, str):
        return found
    kept, weights = found
    digest = digest_of_array(weights) if weights.nbytes else ""
    return ShippedProgram(replace(kept, weights=digest), weights)


def _built(compilation: Compiled) -> ProgramCache:
    """A cache of this process that holds the program."""
    cache = ProgramCache(default_cache().folder)
    compilation.open(cache=cache).close()
    return cache
