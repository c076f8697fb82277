"""The puzzles of the course, each scored against an optimum that is proven.

from explorer.course import puzzles
puzzles.fit_it(student=17)                  places buffers by hand
puzzles.NAMES                               all of them
"""

from __future__ import annotations

from explorer.course.puzzles.array import FeedTheArray
from explorer.course.puzzles.fit import FitIt
from explorer.course.puzzles.fusing import OneRewriteTooMany
from explorer.course.puzzles.hunting import TreasureHunt
from explorer.course.puzzles.probing import FindTheBrokenPass
from explorer.course.puzzles.puzzle import Puzzle, Standing, parts_of
from explorer.course.puzzles.tiling import FourSteps
from explorer.errors import InputError
from explorer.results.names import near_name

KINDS: dict[str, type[Puzzle]] = {
    kind.name: kind
    for kind in (
        OneRewriteTooMany,
        FindTheBrokenPass,
        FitIt,
        FourSteps,
        TreasureHunt,
        FeedTheArray,
    )
}
NAMES = tuple(KINDS)

one_rewrite_too_many = OneRewriteTooMany
find_the_broken_pass = FindTheBrokenPass
fit_it = FitIt
four_steps = FourSteps
treasure_hunt = TreasureHunt
feed_the_array = FeedTheArray


def open_puzzle(name: str, student: int = 0) -> Puzzle:
    """A puzzle by its name. InputError names near ones."""
    if name not in KINDS:
        raise InputError(f"there is no puzzle {name!r}", hint=near_name(name, NAMES))
    return KINDS[name](student)


def open_link(link: str) -> Puzzle:
    """The puzzle of a link, in its state, judged anew."""
    name, student, state = parts_of(link)
    puzzle = open_puzzle(name, student)
    return puzzle if state is None else puzzle.play(state)


__all__ = [
    "FeedTheArray",
    "FindTheBrokenPass",
    "FitIt",
    "FourSteps",
    "KINDS",
    "NAMES",
    "OneRewriteTooMany",
    "Puzzle",
    "Standing",
    "TreasureHunt",
    "feed_the_array",
    "find_the_broken_pass",
    "fit_it",
    "four_steps",
    "one_rewrite_too_many",
    "open_link",
    "open_puzzle",
    "treasure_hunt",
]
