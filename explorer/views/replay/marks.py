"""What differs inside a line, as ranges of its characters.

    conv(%x, %w) {pads = (1, 1)} : 1x16x8x8 f32
    conv(%x, %w) {activation = relu, pads = (1, 1)} : 1x16x8x8 f32
                  ~~~~~~~~~~~~~~~~~~

Lines are compared word by word: a name that differs in one letter is another name.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

Ranges = tuple[tuple[int, int], ...]
"""[begin, end) of characters, in order."""

MAX_CHARACTERS = 4000
"""Longer lines (a constant written out) are not taken apart."""
MIN_SIMILARITY = 0.3
"""Lines that have less in common are other lines: marking words says nothing."""
_WORD = re.compile(r"%?[\w.$-]+|\s+|.", re.DOTALL)


def marks(before: str, after: str) -> tuple[Ranges, Ranges]:
    """What of the line before is gone, and what of the line after is new.

    Both are empty where the lines have too little in common, or are very long.
    """
    if before == after or max(len(before), len(after)) > MAX_CHARACTERS:
        return (), ()
    words = [_WORD.findall(line) for line in (before, after)]
    matcher = SequenceMatcher(None, *words, autojunk=False)
    if matcher.ratio() < MIN_SIMILARITY:
        return (), ()
    gone: list[tuple[int, int]] = []
    new: list[tuple[int, int]] = []
    at = [0, 0]
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        sizes = len("".join(words[0][a:a_end])), len("".join(words[1][b:b_end]))
        if tag != "equal":
            for ranges, begin, size in zip((gone, new), at, sizes, strict=True):
                if size:
                    ranges.append((begin, begin + size))
        at = [begin + size for begin, size in zip(at, sizes, strict=True)]
    return tuple(gone), tuple(new)
