"""Lines of text shared between the snapshots of a trace: each distinct line travels once.

    text of pass 1   a b c d          pages  [a b c d] [x]
    text of pass 2   a x c d   ->     runs   [0,0,4]; [0,0,1] [1,0,1] [0,2,2]

A run is (page, first line, number of lines). Most passes change few lines, so the texts of
thirty passes take little more than one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.results import SourceText

PAGE_CHARACTERS = 200_000
"""A page of lines is closed beyond this size, so that its message stays far below 1 MB."""

Json = Any  # what `json.dumps` takes: nested lists, dictionaries, strings and numbers


@dataclass
class LineTable:
    """Collects texts; a line is the same when its characters and its owners are."""

    page_characters: int = PAGE_CHARACTERS
    lines: list[list[str]] = field(default_factory=lambda: [[]])
    owners: list[list[list[str]]] = field(default_factory=lambda: [[]])
    _place_of: dict[tuple[str, tuple[str, ...]], tuple[int, int]] = field(default_factory=dict)
    _characters: int = 0

    def add(self, text: SourceText) -> Json:
        """The text as `{"language", "count", "runs"}`, with new lines appended to the pages."""
        runs: list[list[int]] = []
        for line, owners in zip(text.lines, text.owners, strict=True):
            page, index = self._place(line, owners)
            if runs and runs[-1][0] == page and runs[-1][1] + runs[-1][2] == index:
                runs[-1][2] += 1
            else:
                runs.append([page, index, 1])
        return {"language": text.language, "count": len(text.lines), "runs": runs}

    def page(self, index: int) -> Json:
        """One page as `{"lines", "owners"}`."""
        return {"lines": self.lines[index], "owners": self.owners[index]}

    def _place(self, line: str, owners: tuple[str, ...]) -> tuple[int, int]:
        found = self._place_of.get((line, owners))
        if found is not None:
            return found
        if self._characters > self.page_characters:
            self.lines.append([])
            self.owners.append([])
            self._characters = 0
        place = (len(self.lines) - 1, len(self.lines[-1]))
        self.lines[-1].append(line)
        self.owners[-1].append(list(owners))
        self._characters += len(line) + sum(map(len, owners)) + 8
        self._place_of[line, owners] = place
        return place


def expanded_lines(raw: Json, pages: Mapping[int, Json]) -> list[str]:
    """The lines of a text that `LineTable.add` took apart; `pages` by number, as `page` gives."""
    return [
        line
        for page, start, count in raw["runs"]
        for line in pages[page]["lines"][start : start + count]
    ]
