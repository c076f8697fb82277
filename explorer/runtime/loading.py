"""What loading a saved program takes, on any device."""

from __future__ import annotations

from explorer.results import ProgramLookup
from explorer.runtime.cache.saved_programs import Startable


def lookup_of(found: Startable, seconds: float) -> ProgramLookup:
    """Where the binary came from, as the cache says of programs that it is asked for."""
    assert found.binary is not None
    key = found.binary.key
    described = tuple(
        (field, " ".join(map(str, value)) if isinstance(value, list) else str(value))
        for field, value in key.items()
    )
    return ProgramLookup(
        name=found.kept.model.name,
        digest=found.kept.binary,
        tier=found.tier,
        reason="",
        seconds=seconds,
        key=described,
    )
