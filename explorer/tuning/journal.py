"""The journal of a search: results as they come, one line each, in a file.

    {"format": "explorer search 2", "key": "3f0c...", "seed": 0}
    {"number": 0, "candidate": {"choices": [...], "measured_us": 48.0, ...}}
    {"number": 1, "candidate": ...}

A search that was killed reads it and goes on behind its last whole line. Nothing in it is
executed; a journal that cannot be read is begun anew.
"""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from pathlib import Path

from explorer.errors import CacheWarning, ModelError
from explorer.files import append_line, reading_file, write_whole
from explorer.results import Candidate
from explorer.results.encoding import from_json, to_json
from explorer.runtime.cache.tuned import TunedKey

FORMAT = "explorer search 2"
SUFFIX = ".search"
FOLDER = "searches"
"""Below the folder of the program cache."""
MAX_BYTES = 64 << 20


class Journal:
    """Results by the candidate's number. `folder` None: they are kept nowhere."""

    def __init__(self, folder: Path | None, key: TunedKey, seed: int):
        self.head = {"format": FORMAT, "key": key.digest(), "seed": seed}
        self.path = None if folder is None else folder / f"{key.digest()[:32]}-{seed}{SUFFIX}"
        self.known: dict[int, Candidate] = {}
        self.confirmed: set[int] = set()
        """Candidates that stayed faster when they were measured again."""

    def read(self) -> None:
        """Fills `known` with what is there; a line that was cut off ends it."""
        if self.path is None:
            return
        try:
            if self.path.stat().st_size > MAX_BYTES:
                return
            lines = self.path.read_bytes().split(b"\n")
        except OSError:
            return
        rows = iter(lines[:-1])  # what follows the last newline was cut off
        with suppress(ModelError), reading_file(self.path, "journal"):
            if json.loads(next(rows, b"null")) != self.head:
                return
            for line in rows:
                row = json.loads(line)
                number = int(row["number"])
                self.known[number] = from_json(Candidate, row["candidate"])
                if row.get("is_confirmed") is True:
                    self.confirmed.add(number)

    def begin(self) -> None:
        """Writes the head and what is known: what a killed search left half is gone then."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            known = sorted(self.known.items())
            lines = [json.dumps(self.head), *(_line(n, c, n in self.confirmed) for n, c in known)]
            write_whole(self.path, ("\n".join(lines) + "\n").encode(), waits=False)
        except OSError as error:
            self._give_up(error)

    def add(self, number: int, candidate: Candidate, is_confirmed: bool = False) -> None:
        """Keeps one result at once; a later one of the same number takes its place."""
        self.known[number] = candidate
        if is_confirmed:
            self.confirmed.add(number)
        if self.path is None:
            return
        try:
            append_line(self.path, _line(number, candidate, is_confirmed), waits=True)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """The search goes on without a journal; that is told once."""
        text = f"the results of this search are kept nowhere: {self.path}: {error.strerror}"
        warnings.warn(text, CacheWarning, stacklevel=4)
        self.path = None


def _line(number: int, candidate: Candidate, is_confirmed: bool) -> str:
    row = {"number": number, "candidate": to_json(candidate)}
    if is_confirmed:
        row["is_confirmed"] = True
    return json.dumps(row, allow_nan=False)
