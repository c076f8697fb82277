"""What the notebooks of the course ask with: predictions made before a cell runs, and exercises.

    guess = predict("How many operations will be left?", 9)      before
    guess.check(c["fold-batch-norm"].after.operation_count)      ✗ you said 9; the compiler says 12
    check(answer, exercises.least_fuel(c), "what burns fuel?")   ✗ with fuel 9 only 7 are folded

A prediction comes first. In a notebook `predict` shows choices or a field, and locks what was
chosen; until then, or `skip()`, the cell that answers stops with one line. A locked prediction is
noted in `predictions.jsonl` next to the lesson. Elsewhere, and with EXPLORER_COURSE=open, nothing
raises: a lesson runs from top to bottom with all its questions open.

An exercise never tells its answer but to `give_up()`: it says what is wrong with the one that was
given, then gives a hint, then a place to look. Three dots, `...`, stand for an answer that was not
given yet.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from explorer.course import locking

State = Literal["right", "wrong", "skipped", "not answered yet"]

_SIGNS: dict[State, str] = {"right": "✓", "wrong": "✗", "skipped": "→", "not answered yet": "○"}
MIN_FACTOR = 1.5
"""Numbers that are further apart are compared by their ratio."""
_MAX_SHOWN = 120
"""Characters of an answer that are repeated."""


@dataclass(frozen=True)
class Verdict:
    """What became of an answer. Shows itself; `is_right` is for programs."""

    state: State
    message: str
    evidence: object = None
    """Shown below the message: what the message is about."""

    @property
    def is_right(self) -> bool:
        return self.state == "right"

    def __str__(self) -> str:
        line = f"{_SIGNS[self.state]} {self.message}"
        return line if self.evidence is None else f"{line}\n\n{self.evidence}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython's own printer
        printer.text("..." if cycle else str(self))

    def _repr_html_(self) -> str:
        line = _line(_SIGNS[self.state], self.message)
        return line if self.evidence is None else line + _html_of(self.evidence)


class Skipped:
    """Stands for a prediction that somebody would rather not make."""

    def __repr__(self) -> str:
        return "skip()"


class GivenUp:
    """In the place of an answer: the right one is asked for."""

    def __repr__(self) -> str:
        return "give_up()"


def give_up() -> GivenUp:
    """In the place of an answer: the right one is shown, and noted; it gets no points."""
    return GivenUp()


def skip() -> Skipped:
    """In the place of a prediction: the compiler's answer is shown without one."""
    return Skipped()


@dataclass(frozen=True)
class Prediction:
    """A question about what the compiler will do, and the answer that was given beforehand."""

    question: str
    answer: object
    choices: tuple[object, ...] = ()
    """The answers to choose from; empty: any."""

    def require(self) -> None:
        """Ends a cell that goes on to show the answer, where no prediction was made.

        Raises:
            FirstPredict: in a notebook, without a prediction.
        """
        if self.answer is ... and locking.is_locking():
            locking.stop(self.question)

    def check(
        self,
        truth: object,
        why: str = "",
        *,
        within: float = 0.0,
        also: Collection[object] = (),
        evidence: object = None,
        tempting: Mapping[object, str] | None = None,
    ) -> Verdict:
        """Says what the compiler's state is, and whether it was foreseen; `why` explains it.

        within: how far from the truth a number still counts as right, for what was measured.
        also: other answers that are as good. evidence: shown below. Without a prediction, or with
        one of another kind than the truth, nothing of all this is shown. tempting: why a wrong
        answer is a likely one, by that answer.

        Raises:
            FirstPredict: in a notebook, without a prediction.
        """
        verdict = self._verdict(truth, why, within, also, evidence, tempting or {})
        if verdict.state != "not answered yet":
            locking.note(self.question, self.answer, truth, verdict.state)
        else:
            self.require()
        return verdict

    def _verdict(
        self,
        truth: object,
        why: str,
        within: float,
        also: Collection[object],
        evidence: object,
        tempting: Mapping[object, str],
    ) -> Verdict:
        if self.answer is ...:
            return Verdict("not answered yet", "first your prediction, or skip()")
        if isinstance(self.answer, Skipped):
            told = f"the compiler says {_shown(truth)}"
            return Verdict("skipped", _joined(told, why), evidence)
        if reason := self._unfit(truth):
            return Verdict("not answered yet", reason)
        if _are_same(self.answer, truth, within) or any(_are_same(self.answer, a) for a in also):
            told = f"as you said: {_shown(self.answer)}"
            if not _are_same(self.answer, truth):
                told = f"{told}; the compiler says {_shown(truth)}"
            return Verdict("right", _joined(told, why), evidence)
        told = f"you said {_shown(self.answer)}; the compiler says {_shown(truth)}"
        told += _off_by(self.answer, truth)
        lure = next((text for a, text in tempting.items() if _are_same(self.answer, a)), "")
        return Verdict("wrong", _joined(_joined(told, lure), why), evidence)

    def _unfit(self, truth: object) -> str:
        """Why the answer cannot be one to this question; empty where it can."""
        if self.choices and not any(_are_same(self.answer, choice) for choice in self.choices):
            return f"one of these: {', '.join(map(repr, self.choices))}"
        return why_unfit(self.answer, truth)

    def __str__(self) -> str:
        if self.answer is ...:
            return f"? {self.question} (Replace the dots with your answer.)"
        if isinstance(self.answer, Skipped):
            return f"? {self.question} (skipped)"
        return f"? {self.question} You say {_shown(self.answer)}."

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython's own printer
        printer.text("..." if cycle else str(self))

    def _repr_html_(self) -> str:
        return _line("?", str(self)[2:])

    def _mime_(self) -> tuple[str, str]:  # marimo's own
        return "text/html", locking.shown_in_marimo(self.question) or self._repr_html_()


def predict(question: str, answer: object = ..., *, choices: Collection[object] = ()) -> Prediction:
    """Notes a prediction, to be checked after the cell that tells.

    The answer is a number, a name, True or False, a set of names, or `skip()`. With three dots a
    notebook shows the choices, a slider where they are a `range`, or a field, and a button that
    locks what was chosen.
    """
    if answer is ... and os.environ.get(locking.COURSE) == locking.ANSWERS:
        answer = Skipped()
    elif answer is ... and locking.is_locking():
        answer = locking.locked_answer(question, choices)
    return Prediction(question, answer, tuple(choices))


Judge = Callable[[Any], bool | str]
"""Says of an answer, whatever it is, whether it is right: True, or a text that says why not. Its
attribute `truth`, where there is one right answer, is what `give_up()` shows."""


def with_truth(judge: Judge, truth: object) -> Judge:
    """A judge of which the only right answer is known."""
    judge.truth = truth  # pyright: ignore[reportFunctionMemberAccess]
    return judge


def check(answer: object, truth: object | Judge, hint: str = "", look: str = "") -> Verdict:
    """Checks the answer to an exercise, and never tells the right one.

    truth: the right answer, or a function that judges it. Numbers are equal within rounding
    (1e-6, relative), sets in any order. What a judge raises counts as wrong, and is shown. In a
    notebook the first wrong answer gets what is wrong with it, the second one the `hint`,
    and the third one where to `look`; elsewhere all of it is shown at once.
    """
    if answer is ...:
        return Verdict("not answered yet", _joined("not answered yet", hint))
    if answer is None:
        return Verdict("wrong", _joined("None is no answer", hint))
    if isinstance(answer, GivenUp):
        return _given_up(truth, _joined(hint, look) if hint and look else hint or look)
    if not callable(truth):
        if _are_same(answer, truth):
            return Verdict("right", f"right: {_shown(answer)}")
        told = why_unfit(answer, truth) or f"it is not {_shown(answer)}"
        return Verdict("wrong", _joined(told, _help(hint, look)))
    try:
        judgement = truth(answer)
    except Exception as error:  # the answer may be of any kind; the learner sees what happened
        told = f"this answer cannot be checked: {type(error).__name__}: {error}"
        return Verdict("wrong", _joined(told, hint))
    if judgement is True:
        return Verdict("right", "right")
    told = judgement if isinstance(judgement, str) and judgement else "not right yet"
    return Verdict("wrong", _joined(told, _help(hint, look)))


def _given_up(truth: object | Judge, advice: str) -> Verdict:
    """The right answer where there is one; else what helps to find one of many."""
    only = getattr(truth, "truth", None) if callable(truth) else truth
    locking.note(advice, "give_up()", only, "gave up")
    if only is None:
        told = "there are many right answers, and teachers have one in notebooks/solutions"
        return Verdict("skipped", _joined(told, advice))
    return Verdict("skipped", _joined(f"it is {_shown(only)}", advice))


def _help(hint: str, look: str) -> str:
    """What a wrong answer is shown besides what is wrong with it."""
    tries = locking.count_try(hint + look) if locking.is_locking() else 3
    if tries == 1:
        return "The next try gets a hint." if hint else ""
    return _joined(hint, look) if tries > 2 and look else hint


def why_unfit(answer: object, truth: object) -> str:
    """What kind of answer is asked for, where this one is of another; empty where it fits."""
    if answer is None:
        return "None is no answer"
    if _is_bool(truth):
        return "" if _is_bool(answer) else "True or False, without quotes"
    if _is_number(truth):
        return "" if _is_number(answer) else _number_asked(answer)
    if isinstance(truth, str):
        return "" if isinstance(answer, str) else "a name, in quotes"
    if isinstance(truth, set | frozenset | list | tuple):
        return "" if _is_collection(answer) else "several answers, in brackets"
    return ""


def _number_asked(answer: object) -> str:
    return "a number, without quotes" if isinstance(answer, str) else "a number"


def _off_by(answer: object, truth: object) -> str:
    """` (off by 2)`, or by a factor where numbers are not whole or far apart."""
    if not _is_number(answer) or not _is_number(truth):
        return ""
    said, is_ = float(answer), float(truth)  # pyright: ignore[reportArgumentType]
    ratio = max(said / is_, is_ / said) if said * is_ > 0 else 0.0
    if ratio >= MIN_FACTOR:
        return f" (off by a factor of {ratio:.2g})"
    return f" (off by {_shown(abs(said - is_) if said % 1 or is_ % 1 else int(abs(said - is_)))})"


def _is_bool(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not _is_bool(value)


def _are_same(answer: object, truth: object, within: float = 0.0) -> bool:
    both = (answer, truth)
    if any(_is_bool(value) for value in both):  # True is no 1 here
        return all(_is_bool(value) for value in both) and bool(answer == truth)
    if isinstance(truth, int | float | np.number):
        return isinstance(answer, int | float | np.number) and bool(
            np.isclose(float(answer), float(truth), rtol=1e-6, atol=within)
        )
    if isinstance(truth, set | frozenset):
        return _is_collection(answer) and set(answer) == truth  # pyright: ignore[reportArgumentType]
    if isinstance(truth, list | tuple):
        return _is_collection(answer) and list(answer) == list(truth)  # pyright: ignore[reportArgumentType]
    return type(answer) is type(truth) and bool(answer == truth)


def _is_collection(answer: object) -> bool:
    return isinstance(answer, Collection) and not isinstance(answer, str | bytes)


def _shown(value: object) -> str:
    if _is_bool(value):
        return "yes" if value else "no"
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(map(str, value))) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    text = str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _joined(message: str, more: str) -> str:
    stop = "" if message.endswith((".", "!", "?")) else "."
    return f"{message}{stop} {more}" if more else message


def _line(sign: str, text: str) -> str:
    """One line with a rule at its left; inline styles, as notebooks may strip all others."""
    return (
        '<div style="border-left:3px solid #4c78a8;padding:2px 0 2px 10px;margin:2px 0">'
        f"<b>{sign}</b>&ensp;{html.escape(text)}</div>"
    )


def _html_of(evidence: object) -> str:
    """A rich object as it shows itself, all else as text."""
    rich = getattr(evidence, "_repr_html_", None)
    return str(rich()) if callable(rich) else f"<pre>{html.escape(str(evidence))}</pre>"
