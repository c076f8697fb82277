"""Puzzles of the course as a page: what is played, the goal bar, and the link of the state.

    serve_puzzle(open_puzzle("fit-it", student=17))         until it is interrupted

The page is guarded as the explorer's is. It runs nothing that a visitor sends: a state is checked
by its puzzle.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import panel as pn

from explorer.app.server.application import run_pages
from explorer.app.server.serving import ending_by_signals, usable_port
from explorer.app.upload_folder import upload_folder
from explorer.course.puzzles import (
    FeedTheArray,
    FindTheBrokenPass,
    FitIt,
    FourSteps,
    OneRewriteTooMany,
    Puzzle,
    TreasureHunt,
    open_link,
)
from explorer.errors import ExplorerError, InputError

ADDRESS = "127.0.0.1"
STYLE = "body { font: 15px/1.5 sans-serif; max-width: 960px; margin: 24px auto; }"
WIDTH = 620


def serve_puzzle(puzzle: Puzzle, port: int = 0, open_browser: bool = True) -> None:
    """Serves one puzzle on this machine. Each page that is opened begins in the puzzle's state."""
    link = puzzle.link
    chosen = usable_port(ADDRESS, port)
    with ending_by_signals(), upload_folder() as folder:
        run_pages(
            ADDRESS,
            chosen,
            secrets.token_urlsafe(24),
            lambda: puzzle_page(open_link(link)),
            folder if open_browser else None,
            title=puzzle.title,
        )


def puzzle_page(puzzle: Puzzle) -> pn.viewable.Viewable:
    """The page of one visitor."""
    document = pn.state.curdoc
    if document is not None:
        document.template_variables["app_favicon"] = "data:,"  # none, and none is asked for
    pn.config.raw_css = [STYLE]
    shown = pn.pane.HTML(sizing_mode="stretch_width")
    link = pn.widgets.TextInput(label="link to this state", disabled=True, width=WIDTH)
    problem = pn.pane.Str("", styles={"color": "#b3261e", "white-space": "pre-wrap"})

    def show() -> None:
        shown.object = puzzle.standing_html()
        link.value = puzzle.link

    def play(state: Any) -> None:
        """Plays a state; what is wrong with it is said below, and the last one stays."""
        try:
            puzzle.play(state)
            problem.object = ""
        except ExplorerError as error:
            problem.object = str(error)
        show()

    show()
    head = pn.pane.Markdown(f"## {puzzle.title}\n\n{puzzle.task}", width=WIDTH)
    return pn.Column(head, *_controls(puzzle, play, problem), problem, shown, link)


Play = Callable[[Any], None]


def _controls(puzzle: Puzzle, play: Play, problem: pn.pane.Str) -> Sequence[pn.viewable.Viewable]:
    """The widgets with which a kind of puzzle is played."""
    if isinstance(puzzle, FitIt):
        return _addresses(puzzle, play)
    if isinstance(puzzle, OneRewriteTooMany):
        chosen = pn.widgets.CheckBoxGroup(
            label="declined", options=list(puzzle.rewrites), value=list(puzzle.state or [])
        )
        chosen.param.watch(lambda event: play(event.new), "value")
        return [chosen]
    if isinstance(puzzle, FourSteps | FeedTheArray):
        return _choices(puzzle.choices, _chosen(puzzle), play)
    if isinstance(puzzle, FindTheBrokenPass):
        return _probes(puzzle, play, problem)
    if isinstance(puzzle, TreasureHunt):
        return _looks(puzzle, play, problem)
    raise InputError(f"{puzzle.title} has no page")


def _addresses(puzzle: FitIt, play: Play) -> Sequence[pn.viewable.Viewable]:
    end = sum(buffer.size_bytes for buffer in puzzle.buffers)
    sliders = {
        b.id: pn.widgets.IntSlider(
            label=f"{b.id}: {b.size_bytes} bytes, steps {b.first} to {b.last - 1}",
            start=0,
            end=end,
            step=b.alignment_bytes,
            value=int(puzzle.offsets.get(b.id, 0)),
            width=WIDTH // 2,
        )
        for b in puzzle.buffers
    }
    for slider in sliders.values():
        slider.param.watch(
            lambda _: play({name: one.value for name, one in sliders.items()}), "value"
        )
    return [pn.GridBox(*sliders.values(), ncols=2)]


def _chosen(puzzle: FourSteps | FeedTheArray) -> Mapping[str, object]:
    """The values that the fields begin with."""
    start = puzzle.start if isinstance(puzzle, FourSteps) else {}
    return {**start, **(puzzle.state or {})}


def _choices(
    choices: Mapping[str, Sequence[object]], state: Mapping[str, object], play: Play
) -> Sequence[pn.viewable.Viewable]:
    fields = {
        name: pn.widgets.RadioButtonGroup(
            label=name, options=list(values), value=state.get(name, values[0])
        )
        for name, values in choices.items()
    }
    for field in fields.values():
        field.param.watch(lambda _: play({n: f.value for n, f in fields.items()}), "value")
    return [pn.Row(pn.pane.Str(name, width=120), field) for name, field in fields.items()]


def _probes(
    puzzle: FindTheBrokenPass, play: Play, problem: pn.pane.Str
) -> Sequence[pn.viewable.Viewable]:
    count = len(puzzle.rewrites)
    done = pn.widgets.IntInput(label="rewrites done", value=count // 2, start=0, end=count)
    answer = pn.widgets.IntInput(label="the wrong one", value=1, start=1, end=count)
    log = pn.pane.Str("\n".join(f"{probe} probed before" for probe in puzzle.probes))

    def probe(_: object) -> None:
        try:
            log.object += f"\nafter {done.value} rewrites: {puzzle.probe(done.value or 0)}"
        except ExplorerError as error:
            problem.object = str(error)

    return [
        pn.Row(done, _button("probe", probe)),
        log,
        pn.Row(answer, _button("that one", lambda _: play(answer.value))),
    ]


def _looks(
    puzzle: TreasureHunt, play: Play, problem: pn.pane.Str
) -> Sequence[pn.viewable.Viewable]:
    what = pn.widgets.TextInput(label="what", value=puzzle.start)
    answer = pn.widgets.TextInput(label="the node", placeholder="/stage1/...")
    log = pn.pane.Str("")

    def look(_: object) -> None:
        try:
            seen = ", ".join(puzzle.look(what.value)) or "nothing"
            log.object += f"\n{what.value} comes from {seen}"
        except ExplorerError as error:
            problem.object = str(error)

    return [
        pn.Row(what, _button("look", look)),
        log,
        pn.Row(answer, _button("that one", lambda _: play(answer.value.removeprefix("node ")))),
    ]


def _button(name: str, pressed: Callable[[object], None]) -> pn.widgets.Button:
    button = pn.widgets.Button(label=name, align="end")
    button.on_click(pressed)
    return button
