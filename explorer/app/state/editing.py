"""IR text that the page sends edited: a branch more, compiled from it.

The page sends a file "fuse-activation.mlir" for the purpose `EDIT`; the passes behind
fuse-activation run on its text. Rules are Python and are not taken here: a page is not whoever has
the process (docs/architecture.md).
"""

from __future__ import annotations

from dataclasses import replace

from explorer.app.state.compiling import Step, compile_request, refuse
from explorer.app.state.messages import Compile, Effect, RemoveUpload
from explorer.app.state.page_state import PageState
from explorer.app.uploads import EDIT_SUFFIX, Upload

NOT_EDITED = "the text was not taken"


def take_edit(state: PageState, upload: Upload) -> Step:
    """What is looked at, continued from the text that stands behind one of its passes."""
    state = replace(state, upload=None)
    branch = state.branch
    after = upload.label.removesuffix(EDIT_SUFFIX)
    effects: list[Effect] = [RemoveUpload(upload.path)]
    if branch is None or branch.request.is_trace:
        return refuse(state, "a saved trace is not compiled again", what=NOT_EDITED), effects
    if after not in branch.pass_names:
        return refuse(state, f"{after!r} is no pass of this branch", what=NOT_EDITED), effects
    request = replace(branch.request, edit=(after, str(upload.path)))
    state, effects = compile_request(state, request)
    if any(isinstance(effect, Compile) and effect.key == state.count for effect in effects):
        state = replace(state, forked_from={**state.forked_from, state.count: state.current})
    return state, effects
