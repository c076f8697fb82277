"""Lines of a program before and after, in rows: beside each other, or one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

CONTEXT = 2
"""Lines around what changed, on either side."""
MANY_LINES = 2000
"""Of longer texts, lines that stand there very often are no landmarks (difflib's `autojunk`)."""


@dataclass(frozen=True)
class Row:
    """A line before and a line after; `kind` is "", changed, added, removed or fold."""

    kind: str
    before: str | None = None
    after: str | None = None
    count: int = 0
    """Of a fold: how many equal lines it stands for."""


def line_difference(before: Sequence[str], after: Sequence[str]) -> Iterator[Row]:
    """The rows of two texts; equal lines far from any that differs are folded."""
    is_long = max(len(before), len(after)) > MANY_LINES
    matcher = SequenceMatcher(None, before, after, autojunk=is_long)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag != "equal":
            yield from _replaced(before[a:a_end], after[b:b_end])
            continue
        head = 0 if a == 0 else CONTEXT  # there is nothing before the first line
        tail = 0 if a_end == len(before) else CONTEXT
        hidden = a_end - a - head - tail
        lines = before[a:a_end]
        if hidden < 2:
            yield from (Row("", line, line) for line in lines)
            continue
        yield from (Row("", line, line) for line in lines[:head])
        yield Row("fold", count=hidden)
        yield from (Row("", line, line) for line in lines[len(lines) - tail :])


def _replaced(gone: Sequence[str], new: Sequence[str]) -> Iterator[Row]:
    """Lines in the place of others, beside each other as far as both go."""
    shared = min(len(gone), len(new))
    yield from (Row("changed", a, b) for a, b in zip(gone, new, strict=False))
    yield from (Row("removed", line, None) for line in gone[shared:])
    yield from (Row("added", None, line) for line in new[shared:])


Line = tuple[str, str]
"""(identity, text)"""


def paired(
    gone: Sequence[Line], new: Sequence[Line]
) -> Iterator[tuple[Line, Line] | tuple[Line, None] | tuple[None, Line]]:
    """What went beside what came, where both are the same operation, the most alike first."""
    left = dict.fromkeys(range(len(gone)))
    beside: dict[int, int] = {}
    for number, (_, text) in enumerate(new):
        alike = [i for i in left if _operation(gone[i][1]) == _operation(text)]
        if alike:
            best = max(alike, key=lambda i: SequenceMatcher(None, gone[i][1], text).quick_ratio())
            del left[best]
            beside[number] = best
    yield from ((gone[i], None) for i in left)
    for number, line in enumerate(new):
        yield (gone[beside[number]], line) if number in beside else (None, line)


def _operation(text: str) -> str:
    return text.partition(" = ")[2].split("(", 1)[0]


def function_lines(lines: Sequence[str], name: str) -> list[str]:
    """Those of the function of that name, from its head to its closing bracket; none without."""
    head = f"func.func @{name}("
    for start, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.startswith((head, head.replace("func @", "func private @")), indent):
            end = next(
                (i for i in range(start + 1, len(lines)) if lines[i] == f"{' ' * indent}}}"), start
            )
            return [text[indent:] for text in lines[start : end + 1]]
    return []
