"""What a page wants saved, checked: whatever no page of ours would send is no order."""

from __future__ import annotations

from pathlib import Path

from explorer.app.protocol import Cell, CompileRequest, SaveOrder
from explorer.app.state.messages import PageMessage
from explorer.app.state.page_state import PageState
from explorer.app.state.saved import MAX_PLACE
from explorer.app.view_files import FORMS
from explorer.traces.tables import FRAMES
from explorer.views.register import VIEWS

IR, SAMPLES, PACKAGE, MODEL = "ir", "samples", "package", "model"
VIEW, TRIES = "view", "tries"
FILES = (
    "page", "trace", "source", PACKAGE, MODEL, "report", "report page", IR, SAMPLES, VIEW, TRIES,
)  # fmt: skip
MAX_CELLS = 20_000
MAX_CELL = 4_000
"""Characters of a cell of a table that the page sends."""


def save_order(state: PageState, message: PageMessage) -> tuple[CompileRequest, SaveOrder] | None:
    """Of the branch that is looked at; None where there is none, or for what is no order."""
    branch = state.branch
    what, form, place = message.get("what"), message.get("form", FORMS[0]), message.get("place", "")
    if branch is None or what not in (*FILES, *FRAMES) or form not in FORMS:
        return None
    if form not in FORMS[:2] and what != VIEW:
        return None
    rows = _rows(message.get("rows", ())) if what == TRIES else ()
    view = str(message.get("view", "")) if what == VIEW else ""
    if rows is None or (what == VIEW and view not in {one.name for one in VIEWS}):
        return None
    if not isinstance(place, str) or len(place) > MAX_PLACE:
        return None
    after = str(message.get("after", ""))
    if what in (SAMPLES, PACKAGE, MODEL) and branch.request.is_trace:
        return None
    if what == IR and (branch.request.is_trace or after not in branch.pass_names):
        return None
    choice = state.choice(branch.request.path)
    order = SaveOrder(
        what=what,
        form=form,
        stages=branch.trace.stages,
        name=Path(choice.label).stem if choice else "",
        label=branch.name or branch.request.label,
        place=place,
        after=after,
        view=view,
        rows=rows,
    )
    return branch.request, order


def _rows(sent: object) -> tuple[tuple[Cell, ...], ...] | None:
    """A table with the names of its columns first; None where it is none."""
    if not isinstance(sent, list) or not sent or not all(isinstance(row, list) for row in sent):
        return None
    head = sent[0]
    if len(set(map(str, head))) != len(head) or sum(map(len, sent)) > MAX_CELLS:
        return None
    for row in sent:
        if len(row) != len(head) or not all(_is_cell(cell) for cell in row):
            return None
    return (tuple(map(str, head)), *(tuple(row) for row in sent[1:]))


def _is_cell(cell: object) -> bool:
    if isinstance(cell, str):
        return len(cell) <= MAX_CELL
    return cell is None or isinstance(cell, int | float)
