"""Entries of the program cache that tests store, and how they look at it."""

import dataclasses

from explorer.runtime.cache import Entry, FoundEntry, Missed, ProgramCache, ProgramKey

SOURCE = "int explorer_run(void) { return 42; }\n"
KEY = ProgramKey(
    language="c",
    source=SOURCE,
    options=("-O2", "-std=c11"),
    compiler="/usr/bin/cc (gcc 12)",
    device="a processor",
    name="net",
)


def entry_of(key: ProgramKey = KEY, payload: bytes = b"\x7fELF and more", **more: object) -> Entry:
    made = Entry.of(key, payload, headers={}, build_seconds=0.5, made_at="2020-01-01T00:00:00")
    return dataclasses.replace(made, **more)


def reopened(cache: ProgramCache) -> ProgramCache:
    """As another process sees it."""
    return ProgramCache(cache.folder, cache.limit_bytes)


def reason_of(found: FoundEntry | Missed) -> str:
    assert isinstance(found, Missed), found
    return found.reason
