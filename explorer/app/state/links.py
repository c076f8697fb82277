"""What a shared link says about the app's side: which model, with which decisions.

{"model": "net.onnx", "settings": {...}}    ->    CompileRequest(...), ""
{"model": "gone.onnx"}                      ->    the first model's, and what to tell the person

Pass, selection and tabs stand in the link too; they belong to the page (state.js).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.app.decisions import request_of
from explorer.app.protocol import CompileRequest
from explorer.app.state.page_state import PageState

MAX_NAME = 120


def followed(link: object, state: PageState, target: str) -> tuple[CompileRequest, str]:
    """What is to be opened, and what of the link could not be restored (or "").

    `target` is taken where the link names none.
    """
    if not isinstance(link, Mapping) or not isinstance(link.get("model"), str):
        return state.wanted, ""
    label = link["model"]
    choice = next((choice for choice in state.choices if choice.label == label), None)
    if choice is None:
        name = label if len(label) <= MAX_NAME else f"{label[:MAX_NAME]}…"
        return state.wanted, (
            f"The link is about {name!r}, which is not offered here. If it was opened from a file, "
            "open that file again; files of one page are not reachable from another."
        )
    if choice.kind == "trace":
        return CompileRequest(choice.path, ""), ""
    settings = link.get("settings")
    plain = CompileRequest(choice.path, target)
    request = plain if settings is None else request_of(settings, choice.path, state.targets)
    # A link says nothing of files that were sent: values, edited IR.
    if replace(state.wanted.without_data, edit=()) == request:
        return state.wanted, ""
    if request is None:
        return plain, (
            "The decisions in the link could not be read: the model is shown as it is compiled "
            "by default."
        )
    return request, ""
