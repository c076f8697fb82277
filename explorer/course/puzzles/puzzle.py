"""What all puzzles share: a state that is one's own, a score against a proven optimum, and a link.

    puzzle = puzzles.fit_it(student=17)
    puzzle.play({"a": 0, "b": 64, ...})        the goal bar: aim, yours, optimum
    puzzle.link                                "explorer-puzzle:fit-it?student=17&state=..."
    puzzles.open_link(link)                    the same puzzle in the same state

A score is optimum / yours, in bytes, launches, predicted microseconds, cycles or probes, never in
measured time: the same moves have the same score on every machine. A link has the moves and no
score: whoever opens it plays them again.
"""

from __future__ import annotations

import base64
import html
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from explorer.errors import InputError

SCHEME = "explorer-puzzle"
MAX_LINK_CHARACTERS = 64 << 10
MAX_STUDENT = (1 << 31) - 1


@dataclass(frozen=True)
class Standing:
    """What a state is worth."""

    value: float | None
    """In the puzzle's unit, less is better; None where the state is no solution."""
    message: str
    picture: object = None
    """What is shown below the goal bar."""


class Puzzle(ABC):
    """A puzzle of one student.

    Raises:
        InputError: for a number of a student that is none.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[str]

    def __init__(self, student: int = 0) -> None:
        is_number = isinstance(student, int) and not isinstance(student, bool)
        if not is_number or not 0 <= student <= MAX_STUDENT:
            raise InputError(
                f"{student!r} is no number of a student", hint=f"a number from 0 to {MAX_STUDENT}"
            )
        self.student = student
        self.state: Any = None
        """What was played last, as JSON; None before the first move."""
        self.standing = Standing(None, "nothing played yet")
        """What that is worth."""

    @property
    @abstractmethod
    def task(self) -> str:
        """What is asked for, in some sentences."""

    @property
    @abstractmethod
    def moves(self) -> str:
        """How it is played in a cell."""

    @cached_property
    @abstractmethod
    def optimum(self) -> float:
        """The least possible value, which `proof` explains."""

    @property
    @abstractmethod
    def proof(self) -> str:
        """Why nothing is better than the optimum."""

    @property
    def aim(self) -> float:
        """The value that solves the puzzle; the optimum is better or equal."""
        return self.optimum

    @abstractmethod
    def judged(self, state: Any) -> Standing:
        """What a state is worth. InputError says what is wrong with one of another form."""

    def play(self, state: Any) -> Puzzle:
        """Takes a state as one's own.

        Raises:
            InputError: it is of another form; the state before it stays.
        """
        standing = self.judged(state)
        self.state = state
        self.standing = standing
        return self

    @property
    def yours(self) -> float | None:
        return self.standing.value

    @property
    def score(self) -> float:
        """optimum / yours, from 0 to 1; 0 without a solution."""
        return 0.0 if not self.yours else min(1.0, self.optimum / self.yours)

    @property
    def is_solved(self) -> bool:
        return self.yours is not None and self.yours <= self.aim

    @property
    def link(self) -> str:
        """The puzzle with one's own state as a text."""
        text = json.dumps(self.state, separators=(",", ":"), ensure_ascii=False)
        state = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return f"{SCHEME}:{self.name}?student={self.student}&state={state}"

    def amount(self, value: float) -> str:
        return f"{value:,.4g} {self.unit}" if value % 1 else f"{int(value):,} {self.unit}"

    def __repr__(self) -> str:
        own = self.amount(self.yours) if self.yours is not None else "none yet"
        goal = f"aim {self.amount(self.aim)} · yours {own} · optimum {self.amount(self.optimum)}"
        head = f"{self.title} (student {self.student})\n{self.task}\n{self.moves}"
        return f"{head}\n{goal}\n{self.standing.message}"

    def _repr_html_(self) -> str:
        head = f"<b>{html.escape(self.title)}</b> <small>student {self.student}</small>"
        task = f"<div>{html.escape(self.task)}<br>{html.escape(self.moves)}</div>"
        return f"<div style='max-width:46em'>{head}{task}</div>{self.standing_html()}"

    def standing_html(self) -> str:
        """The goal bar, and the picture of one's own state below it."""
        rich = getattr(self.standing.picture, "_repr_html_", None)
        below = str(rich()) if callable(rich) else ""
        return f"<div style='max-width:46em'>{goal_bar(self)}</div>{below}"


def goal_bar(puzzle: Puzzle) -> str:
    """A bar from the optimum on, with a mark at the aim, as HTML."""
    yours = puzzle.yours
    worst = max(puzzle.aim, yours or 0) * 1.25 or 1.0
    width = 100 * (yours or 0) / worst
    colour = "#3a8f4d" if puzzle.is_solved else "#c67a1e"
    own = puzzle.amount(yours) if yours is not None else "none yet"
    score = f" · score {puzzle.score:.2f}" if yours is not None else ""
    marks = f"<i style='{_mark(100 * puzzle.aim / worst)}'></i>"
    words = (
        f"aim {puzzle.amount(puzzle.aim)} · yours <b>{own}</b> · "
        f"optimum {puzzle.amount(puzzle.optimum)}{score}"
    )
    return (
        "<div role='meter' style='position:relative;height:12px;margin:4px 0;"
        "background:#8884;border-radius:3px'>"
        f"<div style='width:{width:.1f}%;height:100%;background:{colour};border-radius:3px'></div>"
        f"{marks}</div><small>{words}<br>{html.escape(puzzle.standing.message)}</small>"
    )


def _mark(percent: float) -> str:
    return f"position:absolute;left:{percent:.1f}%;top:-2px;width:2px;height:16px;background:#d33"


def parts_of(link: str) -> tuple[str, int, Any]:
    """Name, student and state of a link. InputError says what is wrong with it."""
    hint = "`puzzle.link` gives one"
    if not isinstance(link, str) or len(link) > MAX_LINK_CHARACTERS:
        raise InputError("a link is a text of at most 64 KiB", hint=hint)
    parts = urlsplit(link.strip())
    if parts.scheme != SCHEME:
        raise InputError(f"a link begins with {SCHEME}:", hint=hint)
    query = parse_qs(parts.query)
    try:
        encoded = query["state"][0]
        text = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        return parts.path, int(query["student"][0]), json.loads(text)
    except (KeyError, ValueError, RecursionError):
        raise InputError("this link is damaged", hint=hint) from None
