"""What a page wants saved, checked: whatever no page of ours would send is no order."""

from __future__ import annotations

from pathlib import Path

from explorer.app.protocol import CompileRequest, SaveOrder
from explorer.app.state.messages import PageMessage
from explorer.app.state.page_state import PageState
from explorer.app.state.saved import MAX_PLACE
from explorer.traces.tables import FRAMES

IR, SAMPLES, PACKAGE, MODEL = "ir", "samples", "package", "model"
FILES = ("page", "trace", "source", PACKAGE, MODEL, "report", "report page", IR, SAMPLES)
FORMS = ("csv", "parquet")


def save_order(state: PageState, message: PageMessage) -> tuple[CompileRequest, SaveOrder] | None:
    """Of the branch that is looked at; None where there is none, or for what is no order."""
    branch = state.branch
    what, form, place = message.get("what"), message.get("form", FORMS[0]), message.get("place", "")
    if branch is None or what not in (*FILES, *FRAMES) or form not in FORMS:
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
    )
    return branch.request, order
