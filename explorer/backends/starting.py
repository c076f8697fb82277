"""A finished program that was kept, opened on its device: nothing is compiled.

found = kept_programs(cache).find(request, sizes)
with open_kept(found, cache) as executable:
    executable.run(inputs)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.backends import NAMES, backend_named
from explorer.backends.records import Opening
from explorer.runtime.cache.kept import KeptPrograms, Startable
from explorer.runtime.cache.languages import KeptLanguage
from explorer.runtime.cache.store import ProgramCache
from explorer.runtime.element_types import know_element_types
from explorer.runtime.executable import Executable

if TYPE_CHECKING:
    from explorer.runtime.host import CompileFor


def kept_programs(cache: ProgramCache) -> KeptPrograms:
    """The finished programs of a cache, of all backends that keep theirs."""
    return KeptPrograms(cache, kept_language)


def kept_language(name: str) -> KeptLanguage | None:
    return backend_named(name).kept if name in NAMES else None


def open_kept(
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
        return backend.open_kept(found, opening)
    from explorer.backends.kept_parts import open_kept_parts

    return open_kept_parts(found, lambda part: backend.open_kept(part, opening), compile_for)
