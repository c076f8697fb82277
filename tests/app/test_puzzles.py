"""Puzzles as a page: widgets play, and what is refused is said. No browser is needed for that."""

from __future__ import annotations

import panel as pn
import pytest

from explorer.app.server.puzzles import puzzle_page
from explorer.course import puzzles

STUDENTS = {"four-steps-to-the-peak": 1, "feed-the-array": 2}


def found(page, kind):
    return list(page.select(kind))


@pytest.mark.parametrize("name", puzzles.NAMES)
def test_every_puzzle_has_a_page_with_its_goal_bar_and_link(name):
    puzzle = puzzles.open_puzzle(name, STUDENTS.get(name, 0))
    page = puzzle_page(puzzle)
    texts = [pane.object for pane in found(page, pn.pane.HTML)]
    assert any("role='meter'" in text for text in texts)
    assert any(field.value == puzzle.link for field in found(page, pn.widgets.TextInput))
    assert len(found(page, pn.widgets.Widget)) > 1


def test_sliders_place_buffers_and_the_link_follows():
    puzzle = puzzles.fit_it(3)
    page = puzzle_page(puzzle)
    sliders = found(page, pn.widgets.IntSlider)
    best = list(puzzle.solution.offsets.values())
    for slider, offset in zip(sliders, best, strict=True):
        slider.value = offset
    assert puzzle.score == 1.0
    (link,) = (f for f in found(page, pn.widgets.TextInput) if f.disabled)
    assert puzzles.open_link(link.value).score == 1.0


def test_a_page_of_a_link_begins_in_its_state():
    puzzle = puzzles.fit_it(3)
    puzzle.play(puzzle.solution.offsets)
    again = puzzle_page(puzzles.open_link(puzzle.link))
    values = [slider.value for slider in found(again, pn.widgets.IntSlider)]
    assert values == list(puzzle.solution.offsets.values())


def test_buttons_probe_and_answer():
    puzzle = puzzles.find_the_broken_pass(2)
    page = puzzle_page(puzzle)
    probe, answer = found(page, pn.widgets.Button)
    done, number = found(page, pn.widgets.IntInput)
    done.value = 6
    probe.clicks += 1
    assert puzzle.probes == [6]
    number.value = 3
    answer.clicks += 1
    assert puzzle.yours is None and puzzle.state["answer"] == 3


def test_what_is_refused_is_said_on_the_page():
    hunt = puzzles.treasure_hunt(0)
    page = puzzle_page(hunt)
    look, answer = found(page, pn.widgets.Button)
    what, node, _link = found(page, pn.widgets.TextInput)
    what.value = "nothing of that name"
    look.clicks += 1
    assert any("nothing is called" in pane.object for pane in found(page, pn.pane.Str))
    node.value = "relu1"
    answer.clicks += 1
    assert any("has no node" in pane.object for pane in found(page, pn.pane.Str))
