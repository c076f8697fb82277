"""What is asked before a model is compiled, as one value; `asking.py` takes it further."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OpenDialog:
    """Of one model; `form` is there when the worker has looked at it."""

    model: str
    """Key of the choice."""
    path: str
    form: Mapping[str, Any] | None = None
    is_open: bool = True
    """What was given stays when it is closed, for the next time."""
    files: tuple[tuple[str, str], ...] = ()
    """(name that the person's file has, path) of values and labels."""


def dialog_json(dialog: OpenDialog | None) -> dict[str, Any] | None:
    """As js/branches/open_dialog.js reads it."""
    if dialog is None or not dialog.is_open:
        return None
    return {
        "model": dialog.model,
        "form": None if dialog.form is None else dict(dialog.form),
        "files": [name for name, _ in dialog.files],
    }
