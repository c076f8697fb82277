"""How the open models and their branches stood after an action: what undo goes back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.app.branches import Branch
from explorer.app.catalog import Choice

Look = str | int | float
"""A theme's name, a pane's size in pixels."""


@dataclass(frozen=True)
class Point:
    """After an action; the branches are asleep."""

    words: str
    """What was done."""
    choices: tuple[Choice, ...]
    branches: tuple[Branch, ...]
    current: str
    last: Mapping[str, str] = field(default_factory=dict)
    is_look: bool = False
    """Whether nothing was changed but what is looked at."""
