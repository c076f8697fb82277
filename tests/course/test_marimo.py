"""Predictions in a notebook of marimo: its elements lock an answer, its `stop` ends a cell.

marimo itself is not installed here; a small copy of its interface replaces it.
"""

import json
import sys
from types import SimpleNamespace

import pytest

from explorer.course import locking
from explorer.course.predictions import predict


class Stopped(Exception):
    pass


class Element:
    def __init__(self, kind, options):
        self.kind, self.options, self.text = kind, options, f"<{kind}>"

    def form(self, submit_button_label, on_change):
        self.press = on_change
        return self


def stack(parts):
    return SimpleNamespace(text="".join(part.text for part in parts))


def stop(predicate, output):
    assert predicate
    raise Stopped(output.text)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The elements in the order in which they were made."""
    elements = []

    def element(kind):
        def make(*options, **named):
            elements.append(Element(kind, options))
            return elements[-1]

        return make

    marimo = SimpleNamespace(
        running_in_notebook=lambda: True,
        ui=SimpleNamespace(slider=element("slider"), radio=element("radio"), text=element("text")),
        md=lambda text: SimpleNamespace(text=text),
        vstack=stack,
        stop=stop,
    )
    monkeypatch.setitem(sys.modules, "marimo", marimo)
    monkeypatch.delenv(locking.COURSE, raising=False)
    monkeypatch.chdir(tmp_path)
    for state in ("_locked", "_shown"):
        monkeypatch.setattr(locking, state, {})
    return elements


@pytest.mark.parametrize(
    ("question", "choices", "kind", "pressed", "answer"),
    [
        ("How many of marimo?", (), "text", "7", 7),
        ("Which of marimo?", ("pack", "unroll"), "radio", "unroll", "unroll"),
        ("Is it marimo (True or False)?", (), "radio", False, False),
        ("How much of marimo?", range(0, 10, 2), "slider", 4, 4),
    ],
)
def test_a_cell_stops_until_an_answer_is_locked(
    made, question, choices, kind, pressed, answer, tmp_path
):
    asked = predict(question, ..., choices=choices)
    (element,) = made
    assert element.kind == kind and f"<{kind}>" in asked._mime_()[1]
    with pytest.raises(Stopped, match="first your prediction"):
        asked.check(answer)
    with pytest.raises(Stopped, match="first your prediction"):
        asked.require()
    element.press(None)
    element.press("")
    assert predict(question, ..., choices=choices).answer is ...  # nothing was chosen
    element.press(pressed)
    element.press("another")
    again = predict(question, ..., choices=choices)
    again.require()  # goes on
    assert again.check(answer).is_right and len(made) == 1
    assert "You say" in again._mime_()[1]
    noted = json.loads((tmp_path / locking.LEDGER).read_text())
    assert (noted["question"], noted["answer"]) == (question, answer)
