"""What decides a program besides the model and what a person asks for, without running anything.

    Circumstances(cache_folder).current("compiler")
        -> "/usr/bin/cc (1012 bytes of 2023-01-08...; variables 5f3a9c)"

Each is a text `place (details)`. A program is kept with all of its language's and started where
they are the same again. No compiler is asked for its version here: the state of its file tells.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from explorer.errors import BuildError, InputError
from explorer.processor import cache_bytes
from explorer.runtime.cache.c_programs import file_state, processor_identity
from explorer.runtime.cache.folder import cache_folder
from explorer.runtime.cache.languages import SavedLanguage
from explorer.runtime.cache.sources import Sources, packages, process_start_ns, sources_of
from explorer.runtime.cache.tuned import TunedStore
from explorer.runtime.compilers import candidate_commands

PACKAGE = Path(__file__).resolve().parents[2]
OF_THE_BUILD = ("compiler",)
"""Those that say how the binary was made, not whether it runs: of shipped programs they differ."""
COMPILER_VARIABLES = (
    "CPATH",
    "C_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "LIBRARY_PATH",
    "CCC_OVERRIDE_OPTIONS",
    "SDKROOT",
    "SOURCE_DATE_EPOCH",
)
"""What gcc and clang read besides their arguments."""


class Circumstances:
    """As they are now; each is looked at once. `folder`: of the cache, for the sources' memo."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[str, str] = {}

    def current(self, name: str, language: SavedLanguage | None = None) -> str:
        """The text of one, perhaps of a language's own. Raises `DeviceError` where there is no
        device."""
        if name not in self._known:
            own = {} if language is None else language.own
            self._known[name] = own[name]() if name in own else self._looked_up(name)
        return self._known[name]

    def of_language(self, language: SavedLanguage) -> tuple[tuple[str, str], ...]:
        return tuple((name, self.current(name, language)) for name in language.circumstances)

    @cached_property
    def sources(self) -> Sources:
        return sources_of(PACKAGE, self._folder)

    @property
    def is_as_loaded(self) -> bool:
        """Whether what this process runs is what lies in the files now."""
        start = process_start_ns()
        return start > 0 and self.sources.newest_ns < start

    def _looked_up(self, name: str) -> str:
        if name == "explorer":
            return f"{PACKAGE} ({self.sources.digest})"
        if name == "packages":
            return f"installed ({packages()})"
        if name == "tuned schedules":
            return tuned_on_disk()
        assert name == "processor", name
        caches = ", ".join(f"{level} {size}" for level, size in cache_bytes().items())
        return f"{processor_identity()[:-1]}; {caches})"


def compiler_on_disk(environment: Mapping[str, str] = os.environ) -> str:
    """Every C compiler that would be tried, in order, with the state of its file.

    Those of a machine without one are "none".
    """
    try:
        commands = candidate_commands(environment)
    except BuildError:
        return "none"
    states = []
    for command in commands:
        try:
            states.append(file_state(command[0]))
        except OSError:
            states.append("not there")
    if not commands:
        return "none"
    values = "\0".join(f"{name}={environment.get(name, '')}" for name in COMPILER_VARIABLES)
    variables = hashlib.sha256(values.encode()).hexdigest()[:6]
    places = ", ".join(shlex.join(command) for command in commands)
    return f"{places} ({', '.join(states)}; variables {variables})"


def tuned_on_disk() -> str:
    """The tuned schedules that a compilation may use; another one may change any program."""
    try:
        folder = cache_folder()
    except InputError:  # it has no place, which `default_cache` tells
        folder = None
    count, stamp = TunedStore(folder).stamp()
    return f"kept ({count}, {stamp})" if count else "kept (none)"


def opencl_identity() -> str:
    """Of the device that programs run on: it is looked for, which takes half a second."""
    from explorer.runtime.devices import opencl_device

    device = opencl_device()
    return f"{device.name} at {device.address} ({device.driver}, {device.version})"


def details_of(name: str, text: str) -> str:
    """What has to be the same: wherever the same sources lie, they are the same explorer."""
    return text.rpartition(" (")[2] if name == "explorer" else text


def difference(name: str, before: str, now: str) -> str:
    """In words, how a circumstance differs."""
    if name == "explorer":
        return "another explorer: its sources are not those that compiled the program"
    return f"the {name}: {before} before, {now} now"
