"""What the notebooks of the course ask with: predictions made before a cell runs, and exercises.

    guess = predict("How many operations will be left?", 9)      before
    guess.check(c["fold-batch-norm"].after.operation_count)      ✗ you said 9; the compiler says 12

    check(answer, c.memory.bound_bytes, "add up what lives")     exercises

An answer is compared with the compiler's state, not with a text. Three dots, `...`, stand for an
answer that was not given yet. Nothing here raises: being wrong is a part of learning.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

State = Literal["right", "wrong", "not answered yet"]

_SIGNS: dict[State, str] = {"right": "✓", "wrong": "✗", "not answered yet": "○"}


@dataclass(frozen=True)
class Verdict:
    """What became of an answer. Shows itself; `is_right` is for programs."""

    state: State
    message: str

    @property
    def is_right(self) -> bool:
        return self.state == "right"

    def __str__(self) -> str:
        return f"{_SIGNS[self.state]} {self.message}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython's own printer
        printer.text("..." if cycle else str(self))

    def _repr_html_(self) -> str:
        return _line(_SIGNS[self.state], self.message)


@dataclass(frozen=True)
class Prediction:
    """A question about what the compiler will do, and the answer that was given beforehand."""

    question: str
    answer: object

    def check(self, truth: object, why: str = "") -> Verdict:
        """Says what the compiler's state is, and whether it was foreseen; `why` explains it."""
        if self.answer is ...:
            told = f"no prediction; the compiler says {_shown(truth)}"
            return Verdict("not answered yet", _joined(told, why))
        if _are_same(self.answer, truth):
            return Verdict("right", _joined(f"as you said: {_shown(truth)}", why))
        told = f"you said {_shown(self.answer)}; the compiler says {_shown(truth)}"
        return Verdict("wrong", _joined(told, why))

    def __str__(self) -> str:
        if self.answer is ...:
            return f"? {self.question} (Put your answer in the place of the dots.)"
        return f"? {self.question} You say {_shown(self.answer)}."

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython's own printer
        printer.text("..." if cycle else str(self))

    def _repr_html_(self) -> str:
        return _line("?", str(self)[2:])


def predict(question: str, answer: object = ...) -> Prediction:
    """Notes a prediction, to be checked after the cell that tells.

    The answer is a number, a name, True or False, or a set of names.
    """
    return Prediction(question, answer)


Judge = Callable[[Any], bool | str]
"""Says of an answer, whatever it is, whether it is right: True, or a text that says why not."""


def check(answer: object, truth: object | Judge, hint: str = "") -> Verdict:
    """Checks the answer to an exercise.

    truth: the right answer, or a function that judges it. Numbers are equal within rounding
    (1e-6, relative), sets in any order. `hint` is shown until the answer is right. What a judge
    raises counts as wrong, and is shown.
    """
    if answer is ...:
        return Verdict("not answered yet", _joined("not answered yet", hint))
    if not callable(truth):
        if _are_same(answer, truth):
            return Verdict("right", f"right: {_shown(answer)}")
        told = f"you say {_shown(answer)}; the compiler says {_shown(truth)}"
        return Verdict("wrong", _joined(told, hint))
    try:
        judgement = truth(answer)
    except Exception as error:  # the answer may be of any kind; the learner sees what happened
        told = f"this answer cannot be checked: {type(error).__name__}: {error}"
        return Verdict("wrong", _joined(told, hint))
    if judgement is True:
        return Verdict("right", "right")
    told = judgement if isinstance(judgement, str) and judgement else "not right yet"
    return Verdict("wrong", _joined(told, hint))


def _are_same(answer: object, truth: object) -> bool:
    both = (answer, truth)
    if any(isinstance(value, bool | np.bool_) for value in both):  # True is no 1 here
        return all(isinstance(value, bool | np.bool_) for value in both) and bool(answer == truth)
    if isinstance(truth, int | float | np.number):
        return isinstance(answer, int | float | np.number) and bool(
            np.isclose(float(answer), float(truth), rtol=1e-6, atol=0)
        )
    if isinstance(truth, set | frozenset):
        return _is_collection(answer) and set(answer) == truth  # pyright: ignore[reportArgumentType]
    if isinstance(truth, list | tuple):
        return _is_collection(answer) and list(answer) == list(truth)  # pyright: ignore[reportArgumentType]
    return answer == truth


def _is_collection(answer: object) -> bool:
    return isinstance(answer, Collection) and not isinstance(answer, str | bytes)


def _shown(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(map(str, value))) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    return str(value)


def _joined(message: str, more: str) -> str:
    return f"{message}. {more}" if more else message


def _line(sign: str, text: str) -> str:
    """One line with a rule at its left; inline styles, as notebooks may strip all others."""
    return (
        '<div style="border-left:3px solid #4c78a8;padding:2px 0 2px 10px;margin:2px 0">'
        f"<b>{sign}</b>&ensp;{html.escape(text)}</div>"
    )
