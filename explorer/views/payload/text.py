"""Lines of text shared between the snapshots of a trace: each distinct line travels once.

    text of pass 1   a b c d          pages  [a b c d] [x]
    text of pass 2   a x c d   ->     runs   [0,0,4]; [0,0,1] [1,0,1] [0,2,2]

A run is (page, first line, number of lines). Most passes change few lines, so the texts of
thirty passes take little more than one.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.results import SourceText

PAGE_CHARACTERS = 200_000
"""A page of lines is closed beyond this size, so that its message stays far below 1 MB."""

NAME_CHARACTERS = 16
"""Hexadecimal ones, of a page's name."""

Json = Any  # what `json.dumps` takes: nested lists, dictionaries, strings and numbers


@dataclass
class LineTable:
    """Collects texts; a line is the same when its characters and its owners are."""

    page_characters: int = PAGE_CHARACTERS
    lines: list[list[str]] = field(default_factory=lambda: [[]])
    owners: list[list[list[str]]] = field(default_factory=lambda: [[]])
    _place_of: dict[tuple[str, tuple[str, ...]], tuple[int, int]] = field(default_factory=dict)
    _characters: int = 0
    _names: dict[int, str] = field(default_factory=dict)
    _page_of: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, text: SourceText) -> Json:
        """The text as `{"language", "count", "runs"}`; lines that are new fill further pages."""
        runs: list[list[int]] = []
        for line, owners in zip(text.lines, text.owners, strict=True):
            page, index = self._place(line, owners)
            if runs and runs[-1][0] == page and runs[-1][1] + runs[-1][2] == index:
                runs[-1][2] += 1
            else:
                runs.append([page, index, 1])
        return {"language": text.language, "count": len(text.lines), "runs": runs}

    def add_later(self, text: SourceText) -> Json:
        """As `add`, when pages were given away already: those stay as they are. From any thread.

        Runs count in "pages", the names of those that the text needs, which `named_page` has.
        """
        with self._lock:
            self._close_page()
            raw = self.add(text)
            self._close_page()
            used = sorted({run[0] for run in raw["runs"]})
            place = {page: index for index, page in enumerate(used)}
            runs = [[place[page], start, count] for page, start, count in raw["runs"]]
            return {**raw, "runs": runs, "pages": [self._name(page) for page in used]}

    def named_page(self, name: str) -> Json | None:
        """The page of that name; None where there is none yet."""
        index = self._page_of.get(name)
        return None if index is None else self.page(index)

    def names(self) -> list[str]:
        """Of the pages that texts of `add_later` need, in the order in which they came."""
        return list(self._page_of)

    def _name(self, page: int) -> str:
        """After what the page holds: equal names of two tables are equal pages."""
        if page not in self._names:
            content = json.dumps([self.lines[page], self.owners[page]]).encode()
            name = hashlib.sha256(content).hexdigest()[:NAME_CHARACTERS]
            self._names[page], self._page_of[name] = name, page
        return self._names[page]

    def page(self, index: int) -> Json:
        """One page as `{"lines", "owners"}`."""
        return {"lines": self.lines[index], "owners": self.owners[index]}

    def _place(self, line: str, owners: tuple[str, ...]) -> tuple[int, int]:
        found = self._place_of.get((line, owners))
        if found is not None:
            return found
        if self._characters > self.page_characters:
            self._close_page()
        place = (len(self.lines) - 1, len(self.lines[-1]))
        self.lines[-1].append(line)
        self.owners[-1].append(list(owners))
        self._characters += len(line) + sum(map(len, owners)) + 8
        self._place_of[line, owners] = place
        return place

    def _close_page(self) -> None:
        if self.lines[-1]:
            self.lines.append([])
            self.owners.append([])
            self._characters = 0


def expanded_lines(raw: Json, pages: Mapping[int, Json]) -> list[str]:
    """The lines of a text that `LineTable.add` took apart; `pages` by number, as `page` gives."""
    return [
        line
        for page, start, count in raw["runs"]
        for line in pages[page]["lines"][start : start + count]
    ]
