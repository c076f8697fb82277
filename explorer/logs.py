"""Logs: one logger for each package, which says nothing unless it is asked.

    EXPLORER_LOG=info python train.py                   what takes long, with seconds
    EXPLORER_LOG=info,explorer.compilation=debug ...    every pass, too
    explorer compile net.onnx -v                        info; -vv: debug
    logging.getLogger("explorer").setLevel("INFO")      a program that logs by itself

A level is a name of `logging` in any case; without a logger it is that of all of `explorer`.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from warnings import warn

from explorer.errors import InputError
from explorer.results.names import near_name

VARIABLE = "EXPLORER_LOG"
ROOT = "explorer"
LEVELS = ("debug", "info", "warning", "error")
FORM = "%(relativeCreated)8.0f ms  %(levelname)-5s  %(name)s: %(message)s"


def logger(module: str) -> logging.Logger:
    """The logger of the package that a module (its `__name__`) belongs to."""
    _configure_by_environment()
    return logging.getLogger(".".join(module.split(".")[:2]))


def configure(levels: str) -> None:
    """Sets levels, `info,explorer.runtime=debug`, and writes to stderr unless the program has
    handlers of its own. InputError for a level that there is not."""
    for part in filter(None, (part.strip() for part in levels.split(","))):
        name, _, level = part.rpartition("=")
        if level.lower() not in LEVELS:
            known = near_name(level, LEVELS)
            raise InputError(f"there is no level {level!r} for {VARIABLE}", hint=known)
        logging.getLogger(name or ROOT).setLevel(level.upper())
    root = logging.getLogger(ROOT)
    if levels.strip() and not root.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORM))
        root.addHandler(handler)


@cache
def _configure_by_environment() -> None:
    """A wrong level is a warning: it ends no program that only imports this one."""
    try:
        configure(os.environ.get(VARIABLE, ""))
    except InputError as error:
        warn(str(error), stacklevel=3)
