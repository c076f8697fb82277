"""Lines of generated code with their owners, while they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from explorer.ir.structure import walk_inside

INDENT = "    "
WIDTH = 100
# A blank behind a comma, or before an operator that joins what stands on its two sides.
BREAK = re.compile(r"(?<=,) | (?=[-+?:&|] )")


class SourceLines:
    """Grows line by line; `owners[i]` are the tags that line i comes from."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.owners: list[tuple[str, ...]] = []

    def add(self, depth: int, text: str, tags: Sequence[str] = ()) -> None:
        self.lines.append(INDENT * depth + text if text else "")
        self.owners.append(tuple(dict.fromkeys(tags)))

    def add_wrapped(self, depth: int, text: str, tags: Sequence[str] = ()) -> None:
        """A statement, continued on further lines (one step deeper) where it is too long.

        Lines end behind a comma or before a sign, so that they read on like prose.
        """
        is_continued = False
        while len(INDENT) * depth + len(text) > WIDTH:
            room = WIDTH - len(INDENT) * depth
            breaks = [match.start() for match in BREAK.finditer(text, 0, room + 1)]
            if not breaks:
                break
            self.add(depth, text[: breaks[-1]], tags)
            text = text[breaks[-1] + 1 :]
            if not is_continued:
                depth, is_continued = depth + 1, True
        self.add(depth, text, tags)

    def add_list(
        self, depth: int, items: Sequence[str], ending: str, tags: Sequence[str] = ()
    ) -> None:
        """Items separated by commas, as many on a line as fit, `ending` behind the last."""
        room = WIDTH - len(INDENT) * depth
        line = ""
        for number, item in enumerate(items):
            text = item + ("," if number + 1 < len(items) else ending)
            if line and len(line) + 1 + len(text) > room:
                self.add(depth, line, tags)
                line = text
            else:
                line = f"{line} {text}" if line else text
        if line:
            self.add(depth, line, tags)


def tags_of(operation: Operation) -> tuple[str, ...]:
    """The statements that an operation comes from, by its location: ("conv_1/main",)."""
    return tuple(dict.fromkeys(_location_tags(operation.location)))


def tags_within(operation: Operation) -> tuple[str, ...]:
    """The statements of an operation and of all that it contains, in program order."""
    # The operations of a statement share one location: asking each for its tags takes longer.
    locations = {id(op.location): op.location for op in walk_inside(operation)}
    return tuple(dict.fromkeys(t for place in locations.values() for t in _location_tags(place)))


def _location_tags(location: Attribute) -> list[str]:
    match location:
        case NameLoc():
            return [location.desc.data]
        case FusedLoc(locations=ArrayAttr(data=parts)):
            return [tag for part in parts for tag in _location_tags(part)]
        case _:
            return []
