"""Predictions in a notebook: widgets that lock an answer, and cells that stop without one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

LEDGER = "predictions.jsonl"
YES_OR_NO = "True or False"
"""Part of a question that has these two answers."""
COURSE = "EXPLORER_COURSE"
"""Environment variable, with which a lesson runs to its end."""
OPEN, ANSWERS = "open", "answers"
"""Its values: questions stay open, or are answered as if they were skipped."""
_locked: dict[str, object] = {}
_shown: dict[str, tuple[Any, Any]] = {}
"""What marimo shows for a question, and its form, which hears no press if nothing refers to it."""
_noted: set[tuple[str, str]] = set()
_tries: dict[str, int] = {}


class FirstPredict(Exception):
    """A cell that answers a question without a prediction. Shown as one line."""

    def __init__(self) -> None:
        super().__init__("first your prediction, or skip() in its place")

    def _render_traceback_(self) -> list[str]:
        """IPython's hook."""
        return [f"○ {self}"]


def is_locking() -> bool:
    """Whether this is a notebook in which predictions come first."""
    if os.environ.get(COURSE, "") in (OPEN, ANSWERS):
        return False
    if _marimo() is not None:
        return True
    interpreter = sys.modules.get("IPython")  # not imported here: elsewhere there are no cells
    shell = interpreter.get_ipython() if interpreter else None
    return getattr(shell, "kernel", None) is not None


def _marimo() -> Any:
    """The module, in a notebook of marimo; else None."""
    marimo = sys.modules.get("marimo")
    return marimo if marimo is not None and marimo.running_in_notebook() else None


def locked_answer(question: str, choices: Collection[object]) -> object:
    """What was locked for a question, or three dots and a widget that asks for it."""
    if question in _locked:
        return _locked[question]
    given = choices if isinstance(choices, range) else tuple(choices)
    marimo = _marimo()
    if marimo is None:
        _show_widget(question, given)
    elif question not in _shown:
        _make_for_marimo(marimo, question, given)
    return ...


def shown_in_marimo(question: str) -> str:
    """What asks for an answer there, as HTML; empty elsewhere, and where it was answered."""
    if question in _locked or question not in _shown:
        return ""
    return _shown[question][0].text


def stop(question: str) -> NoReturn:
    """Ends a cell that answers a question without a prediction."""
    marimo = _marimo()
    if marimo is not None and question in _shown:
        line = marimo.md(f"○ {FirstPredict()}")
        marimo.stop(True, marimo.vstack([_shown[question][0], line]))
    raise FirstPredict


def _make_for_marimo(marimo: Any, question: str, choices: tuple[object, ...] | range) -> None:
    """As `_show_widget`, of marimo's own elements."""
    if isinstance(choices, range) and choices:
        field = marimo.ui.slider(choices[0], choices[-1], step=choices.step, show_value=True)
    elif choices or YES_OR_NO in question:
        field = marimo.ui.radio({str(choice): choice for choice in choices or (True, False)})
    else:
        field = marimo.ui.text(placeholder="your prediction")

    def press(value: object) -> None:
        answer = parsed(value) if isinstance(value, str) and not choices else value
        if answer is not None and answer != "":
            lock(question, answer)

    form = field.form(submit_button_label="lock", on_change=press)
    hint = "Press *lock*, run this cell again, then the next one."
    _shown[question] = marimo.vstack([marimo.md(f"**{question}** {hint}"), form]), form


def lock(question: str, answer: object) -> None:
    """Notes an answer, which stays."""
    _locked.setdefault(question, answer)


def count_try(key: str) -> int:
    """How many wrong answers an exercise got, this one included."""
    _tries[key] = _tries.get(key, 0) + 1
    return _tries[key]


def note(question: str, answer: object, truth: object, state: str) -> None:
    """Adds a line to the ledger, once for each answer to a question, in a notebook only."""
    key = question, repr(answer)
    if not is_locking() or key in _noted:
        return
    _noted.add(key)
    entry = {"question": question, "answer": plain(answer), "truth": plain(truth), "state": state}
    line = json.dumps(entry, ensure_ascii=False, default=str)
    with suppress(OSError), (Path.cwd() / LEDGER).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def plain(value: object) -> object:
    """An answer as JSON has it."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    item = getattr(value, "item", None)  # a number of NumPy
    return item() if callable(item) else str(value)


def parsed(text: str) -> object:
    """What was typed into a field: a number, True or False, several names, or a name."""
    text = text.strip()
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if "," in text:
        return {part.strip() for part in text.split(",") if part.strip()}
    return text


def _show_widget(question: str, choices: tuple[object, ...] | range) -> None:
    """Choices, a slider for a range of numbers, or a field; and a button.

    Without ipywidgets the question alone is shown.
    """
    try:
        import ipywidgets
        from IPython.display import display
    except ImportError:
        return
    if isinstance(choices, range) and choices:
        first, last = choices[0], choices[-1]
        field: Any = ipywidgets.IntSlider(
            min=first, max=last, step=choices.step, value=choices[len(choices) // 2]
        )
    elif choices or YES_OR_NO in question:
        options: Any = [(str(choice), choice) for choice in choices or (True, False)]
        field = ipywidgets.RadioButtons(options=options, value=None, description="")
    else:
        field = ipywidgets.Text(placeholder="your prediction", continuous_update=False)
    button = ipywidgets.Button(description="lock", tooltip="lock the prediction: it stays")
    said = ipywidgets.HTML("")

    def press(_: object) -> None:
        value = parsed(field.value) if isinstance(field, ipywidgets.Text) else field.value
        if value is None or value == "":
            said.value = "choose first"
            return
        lock(question, value)
        field.disabled = button.disabled = True
        said.value = "locked; run this cell again, then the next one"

    button.on_click(press)
    display(ipywidgets.VBox([ipywidgets.Label(question), field, ipywidgets.HBox([button, said])]))
