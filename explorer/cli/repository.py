"""Commands of the repository: what compiles many models to judge the compiler itself.

They stand in `verification/` beside the package, which a clone has and a wheel has not.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Protocol

from explorer.errors import InputError

VERIFICATION = Path(__file__).parents[2] / "verification"


class Command(Protocol):
    """A subcommand; modules are some."""

    @property
    def SUMMARY(self) -> str: ...

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def repository_command(name: str) -> ModuleType | Command:
    """A command of the repository; of a wheel, one that says where it is to be had."""
    if not is_clone():
        return Missing(name)
    return verification(f"commands.{name}")


def verification(module: str) -> ModuleType:
    """A module of `verification/`; InputError where this is no clone of the repository."""
    if not is_clone():
        raise missing(f"`verification.{module}`")
    return import_module(f"verification.{module}")


def is_clone() -> bool:
    return (VERIFICATION / "__init__.py").is_file()


def missing(what: str) -> InputError:
    return InputError(
        f"{what} belongs to the repository and is no part of the installed package",
        hint="clone the repository; `make explore` sets it up",
    )


@dataclass(frozen=True)
class Missing:
    """Stands for a command of the repository where there is none."""

    name: str
    SUMMARY: str = "of the repository: not in the installed package"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.prefix_chars = "\0"  # whatever follows is no option, so that `run` is reached
        parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)

    def run(self, arguments: argparse.Namespace) -> int:
        raise missing(f"`explorer {self.name}`")
