"""Chunks that are made when somebody asks for them: who waits for which, until the worker answers.

    later.want(branch, "text/7", show)      show(MadeChunk("text/7", text)) when it is there
    later.awaited(branch, "text/7")         the text; for threads that can wait

A branch's chunks are all there when its stage `texts` is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from explorer.app.branches import Branch
from explorer.app.protocol import COMPUTED, TEXTS, MadeChunk

WAIT_SECONDS = 60.0
"""How long a comparison waits for what it compares."""

Take = Callable[[MadeChunk], None]
"""Is called once: with a chunk, or why there is none."""


class LaterChunks:
    """What one page waits for; safe to use from several threads."""

    def __init__(self, ask: Callable[[Branch, str], bool]) -> None:
        """`ask` has the worker make a chunk of a branch; False where there is no worker."""
        self._ask = ask
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], list[Take]] = {}

    def want(self, branch: Branch, key: str, take: Take) -> None:
        """Gives the chunk to `take`: now where it is there, else from another thread."""
        text = branch.trace.chunks.get(key)
        is_all = TEXTS in branch.trace.stages and not key.startswith(COMPUTED)
        if text is not None or is_all:
            take(MadeChunk(key, text))
            return
        place = (branch.key, key)
        with self._lock:
            is_first = place not in self._waiting
            self._waiting.setdefault(place, []).append(take)
        if is_first and not self._ask(branch, key):
            self._give(branch.key, MadeChunk(key, None))

    def awaited(self, branch: Branch, key: str) -> str:
        """The chunk, when it is there. KeyError where it never will be."""
        is_there = threading.Event()
        found: list[str | None] = []

        def take(made: MadeChunk) -> None:
            found.append(made.text)
            is_there.set()

        self.want(branch, key, take)
        if not is_there.wait(WAIT_SECONDS) or found[0] is None:
            raise KeyError(key)
        return found[0]

    def arrived(self, branch: Branch | None, key: str, made: MadeChunk) -> None:
        """A chunk of the branch of that key; the branch itself, where it is open, keeps it."""
        if branch is not None and made.text is not None:
            branch.trace.chunks[made.key] = made.text
        self._give(key, made)

    def ask_again(self, named: Callable[[str], Branch | None]) -> None:
        """Another worker has taken over; `named` gives the branch of a key."""
        with self._lock:
            places = list(self._waiting)
        for key, chunk in places:
            branch = named(key)
            if branch is None or not self._ask(branch, chunk):
                self._give(key, MadeChunk(chunk, None))

    def give_up(self, branch: str | None = None) -> None:
        """Nobody will answer for a branch any more, or for any."""
        with self._lock:
            places = [place for place in self._waiting if branch in (None, place[0])]
        for key, chunk in places:
            self._give(key, MadeChunk(chunk, None))

    def _give(self, branch: str, made: MadeChunk) -> None:
        with self._lock:
            waiting = self._waiting.pop((branch, made.key), [])
        for take in waiting:
            take(made)
