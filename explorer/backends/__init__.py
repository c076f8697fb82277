"""Backends: how a placed program becomes code, and where that runs.

    backend_of(target)              the target's own: `backend` in its file, else its first language
    backend_named("opencl")         by name
    backend_of(target).passes(...)  the passes behind placement
                      .build(...)   one device's function as a program
                      .open(...)    the program on its device

**Adding a backend** is adding a module or folder here that holds a class derived from
`explorer.backends.interface.Backend` with one object of it, `BACKEND`, and its name to `NAMES`;
docs/adding-a-backend.md does it. A backend is imported when it is first asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from explorer.errors import InputError

if TYPE_CHECKING:
    from explorer.backends.interface import Backend
    from explorer.runtime.devices import DeviceRecord
    from explorer.targets import Target

NAMES = ("c", "opencl", "npu")

LANGUAGES = {"instructions": "npu"}
"""Backends of targets with queues, by what their files call the language."""


def backend_named(name: str) -> Backend:
    """The backend of that name; InputError with the near ones where there is none."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        raise InputError(
            f"there is no backend {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else f"one of {', '.join(NAMES)}",
        )
    return import_module(f"{__name__}.{name}").BACKEND


def backend_of(target: Target) -> Backend:
    """The backend that makes a target's code. InputError, naming the target, for an unknown one."""
    language = target.languages[0]
    maker = LANGUAGES.get(language, language) if target.queues else language
    try:
        return backend_named(target.backend or maker)
    except InputError as error:
        raise InputError(
            f"target {target.name}: {error.message}",
            hint=f"backend in its file says who makes its code: one of {', '.join(NAMES)}",
        ) from error


def compiled_targets() -> list[str]:
    """The targets of this package that have a backend, by name."""
    from explorer.targets import list_targets, load_target  # xDSL with them: a start needs none

    return [name for name in list_targets() if _has_backend(load_target(name))]


def _has_backend(target: Target) -> bool:
    try:
        backend_of(target)
    except InputError:
        return False
    return True


def all_backends() -> Iterator[Backend]:
    """In the order of the register."""
    return map(backend_named, NAMES)


def list_devices(time_limit_seconds: float = 60.0) -> list[DeviceRecord]:
    """The devices of all backends, also those that cannot be used, with the reason."""
    return [d for backend in all_backends() for d in backend.devices(time_limit_seconds)]
