"""Defaults of options from a file of the project: `explorer.toml`, or `[tool.explorer]`.

    [tool.explorer]              pyproject.toml; the same without the head in explorer.toml
    target = "vta-16"            of every command that has --target
    [tool.explorer.check]
    tolerance = 1e-5             of one command

The file lies in the working directory or the nearest folder above it. A file may be a stranger's:
it sets only what changes a result (`OPTIONS`), and never where something is written or read.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.errors import InputError
from explorer.files import reading_file
from explorer.results.names import near_name

OPTIONS = ("target", "threads", "tolerance", "budget", "jobs", "seed", "seconds", "verbose")
OWN, SHARED = "explorer.toml", "pyproject.toml"

Commands = Mapping[str, argparse.ArgumentParser]
Settings = Mapping[str, Any]  # Any: what TOML can hold


def settings_file(folder: Path) -> tuple[Path, Settings] | None:
    """The nearest file with settings, and what is in it; None where there is none."""
    for place in (folder, *folder.parents):
        if (path := place / OWN).is_file():
            return path, _read(path)
        if (path := place / SHARED).is_file():
            found = _read(path).get("tool", {}).get("explorer")
            return None if found is None else (path, found)
    return None


def apply_defaults(commands: Commands, folder: Path) -> None:
    """Sets the defaults of the commands' options. InputError names the file and the key."""
    found = settings_file(folder)
    if found is None:
        return
    path, settings = found
    general = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    _require_known(general, OPTIONS, path)
    for parser in commands.values():
        _set(parser, general, path)
    for name, own in settings.items():
        if isinstance(own, Mapping):
            _require_known({name: own}, tuple(commands), path)
            _require_known(own, _options(commands[name]), path)
            _set(commands[name], own, path)


def _read(path: Path) -> Settings:
    hint = "a file of settings is TOML"
    with reading_file(path, "settings", hint=hint, kind=InputError):
        return tomllib.loads(path.read_text(encoding="utf-8"))


def _require_known(settings: Settings, known: tuple[str, ...], path: Path) -> None:
    for key in settings:
        if key not in known:
            raise InputError(
                f"there is no setting {key!r}", file=str(path), hint=near_name(key, known)
            )


def _options(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """Those of `OPTIONS` that a command has."""
    return tuple(name for name in OPTIONS if _action(parser, name) is not None)


def _action(parser: argparse.ArgumentParser, name: str) -> argparse.Action | None:
    return next((a for a in parser._actions if f"--{name}" in a.option_strings), None)


def _set(parser: argparse.ArgumentParser, settings: Settings, path: Path) -> None:
    for name, value in settings.items():
        action = _action(parser, name)
        if action is not None:
            action.default = _converted(action, name, value, path)
            action.required = False


def _converted(action: argparse.Action, name: str, value: object, path: Path) -> object:
    """The value as the command line would have it."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{name} cannot be {value!r}", file=str(path), hint="a number or a text")
    convert = action.type
    if not callable(convert):
        return value
    try:
        return convert(str(value))
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise InputError(f"{name} cannot be {value!r}: {error}", file=str(path)) from error
