"""Loading a saved program on its device: nothing is compiled.

found = saved_programs(cache).find(request, sizes)
with load_saved(found, cache) as executable:
    executable.run(inputs)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.backends import NAMES, backend_named
from explorer.backends.records import Opening
from explorer.runtime.cache.languages import SavedLanguage
from explorer.runtime.cache.saved_programs import SavedPrograms, Startable
from explorer.runtime.cache.store import ProgramCache
from explorer.runtime.element_types import know_element_types
from explorer.runtime.executable import Executable
from explorer.runtime.growing import with_length

if TYPE_CHECKING:
    from explorer.runtime.host import CompileFor


def saved_programs(cache: ProgramCache) -> SavedPrograms:
    """The finished programs of a cache, of all backends that keep theirs."""
    return SavedPrograms(cache, saved_language)


def saved_language(name: str) -> SavedLanguage | None:
    return backend_named(name).kept if name in NAMES else None


def load_saved(
    found: Startable,
    cache: ProgramCache,
    threads: int | None = None,
    isolated: bool = True,
    affinity: Sequence[int] = (),
    compile_for: CompileFor | None = None,
) -> Executable:
    """The program on its device; threads and affinity as in `Compilation.open`.

    `compile_for`: compiles what the host would interpret, for sizes that come again.
    """
    kept = found.kept
    values = (*kept.program.inputs, *kept.program.outputs, *kept.program.taps)
    know_element_types(value.element_type for value in values)
    opening = Opening(
        name=kept.model.name, cache=cache, threads=threads, isolated=isolated, affinity=affinity
    )
    backend = backend_named(kept.language)
    if not kept.parts:
        return with_length(backend.load_saved(found, opening))
    from explorer.backends.saved_parts import load_saved_parts

    return load_saved_parts(found, lambda part: backend.load_saved(part, opening), compile_for)
