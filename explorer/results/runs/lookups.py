"""Where compiled programs came from, and why one had to be built."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.displayed import Displayed

TIERS = ("memory", "folder", "shipped", "source")
"""Where a program is looked for, in this order; source: it was built."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ProgramLookup(Displayed):
    """What became of one program that was asked for."""

    name: str
    """Of the model."""
    digest: str
    """Of the key: 64 hexadecimal digits."""
    tier: str
    """Of `TIERS`."""
    reason: str
    """Why it was built; empty where it was found."""
    seconds: float
    """Until it was there, building included."""
    key: tuple[tuple[str, str], ...] = ()
    """(field, value) of what the program depends on; the source stands as its digest."""
