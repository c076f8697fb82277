"""What the cache has to know of a language whose finished programs are kept.

A program is kept with its circumstances and started where they are the same again. Those of every
program are looked up in `circumstances`; a language names which count, and has some of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from explorer.runtime.cache.entries import Entry

OF_ALL = ("explorer", "packages", "tuned schedules", "processor")
"""Circumstances of every language."""


@dataclass(frozen=True, kw_only=True)
class SavedLanguage:
    own: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """Circumstances of this language alone: each says how it is now, `place (details)`."""
    try_binary: Callable[[Entry], str] | None = None
    """Tries a binary in a process of its own: why it is of no use, or nothing. None where whoever
    opens the program does that."""
    needs_source: bool = False
    """Whether a program cannot be started without its source."""

    @property
    def circumstances(self) -> tuple[str, ...]:
        return (*OF_ALL, *self.own)


KeptLanguages = Callable[[str], SavedLanguage | None]
"""By name; None for a language of which nothing is kept."""
