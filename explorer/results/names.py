"""Names that somebody may have meant: one way to look for them, and one way to say so.

near_name("fuse-bais", passes)        "did you mean 'fuse-bias'?"
near_name("xyz", passes)              "there are import, fuse-bias and others"
suggestion("arhc", fields)            " (did you mean 'arch'?)", to be put behind a sentence
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MAX_LISTED = 24
"""Names that a message lists where none is near."""
_WORD = re.compile(r"[^0-9a-z]+")
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories that a terminal acts upon, or shows as nothing at all."""
SIMILAR = 0.6
"""The ratio from which on names are similar; `difflib`'s own."""


def nearest(
    name: str, known: Iterable[str], count: int = 1, *, similar: float = SIMILAR
) -> Sequence[str]:
    """Up to `count` of the known names that are similar, the most similar one first: those with
    the name as one of their words (`gpu`: `opencl_gpu`), then those with similar letters."""
    names = list(known)
    holding = [n for n in names if name.casefold() in _WORD.split(n.casefold())]
    alike = get_close_matches(name, names, count, similar)
    return list(dict.fromkeys([*holding, *alike]))[:count]


def near_name(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """`did you mean 'x'?`; where no name is similar, `otherwise` or the names there are."""
    names = list(known)
    found = nearest(name, names)
    if found:
        return f"did you mean {found[0]!r}?"
    return f"there are {listed(names)}" if otherwise is None else otherwise


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to write instead, in brackets behind a sentence; or all names there are."""
    names = list(known)
    found = nearest(name, names)
    return f" (did you mean {found[0]!r}?)" if found else f" (known: {', '.join(names)})"


def listed(names: Sequence[str]) -> str:
    """The names one behind the other, `and others` where there are many; `none` of nothing."""
    text = ", ".join(names[:MAX_LISTED]) or "none"
    return text + " and others" * (len(names) > MAX_LISTED)


def printable(text: object) -> str:
    """Text on one line; control and other invisible characters as `\\x1b` or `\\u202e`."""
    return "".join(
        c.encode("unicode_escape").decode("ascii") if unicodedata.category(c) in _INVISIBLE else c
        for c in str(text)
    )
