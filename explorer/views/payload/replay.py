"""Rewrites one by one, as data for the explorer: a list of all, and what each of them changed.

    rewrites    all events of all passes, without what they changed
    film/3/0    the first FRAMES_PER_PAGE frames of pass 3: {"frames": [{"rows", "drawing", ...}]}
    film/3/all  the lines of the program before and after pass 3: {"rows", "hidden"}

A row is [kind, line before, line after, ranges that are gone, ranges that are new]; a fold is
["fold", number of lines].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

from explorer.results import Trace
from explorer.views.payload.difference import drawing_of_difference
from explorer.views.payload.text import Json
from explorer.views.replay.lines import Row
from explorer.views.replay.marks import marks
from explorer.views.replay.states import Frame, Replay

FRAMES_PER_PAGE = 8
MAX_FRAMES_SAVED = 240
"""A saved page holds this many frames: those of all passes in turn, the first of each first."""
MAX_ROWS = 1500
MAX_ROWS_OF_FRAME = 400
WHOLE = "all"


def rewrites_payload(trace: Trace) -> Json:
    """Rules and reasons by number; a row is [pass, event, rule, applied, site, reason, made]."""
    rules: dict[str, int] = {}
    reasons: dict[str, int] = {"": 0}
    rows = [
        [
            index,
            number,
            rules.setdefault(event.rule, len(rules)),
            event.applied,
            event.site,
            reasons.setdefault(event.reason, len(reasons)),
            list(event.produced[:3]),
        ]
        for index, record in enumerate(trace.passes)
        for number, event in enumerate(record.events)
    ]
    return {"rules": list(rules), "reasons": list(reasons), "rows": rows}


def replay_makers(trace: Trace) -> dict[str, Callable[[], Json]]:
    """The chunks of all passes by key."""
    films = cache(partial(Replay, trace))
    makers: dict[str, Callable[[], Json]] = {"rewrites": partial(rewrites_payload, trace)}
    for index, record in enumerate(trace.passes):
        for page in range(-(-len(record.events) // FRAMES_PER_PAGE)):
            makers[f"film/{index}/{page}"] = partial(_page, films, index, page)
        if record.changed:
            makers[f"film/{index}/{WHOLE}"] = partial(_whole, films, index)
    return makers


def saved_keys(keys: Iterable[str]) -> list[str]:
    """The chunks that a saved page holds: all but the frames beyond MAX_FRAMES_SAVED."""
    everything = list(keys)
    frames = [key for key in everything if _page_of(key) is not None]
    first = sorted(frames, key=lambda key: _page_of(key) or 0)  # stable: passes stay in order
    left_out = set(first[MAX_FRAMES_SAVED // FRAMES_PER_PAGE :])
    return [key for key in everything if key not in left_out]


def _page_of(key: str) -> int | None:
    kind, _, rest = key.partition("/")
    page = rest.rpartition("/")[2]
    return int(page) if kind == "film" and page != WHOLE else None


def _page(films: Callable[[int], Replay], index: int, page: int) -> Json:
    first = page * FRAMES_PER_PAGE
    return {"frames": [_frame(frame) for frame in films(index)[first : first + FRAMES_PER_PAGE]]}


def _frame(frame: Frame) -> Json:
    is_drawn = frame.before.nodes or frame.after.nodes
    return {
        "rows": [_row(row) for row in frame.rows[:MAX_ROWS_OF_FRAME]],
        "hidden": max(0, len(frame.rows) - MAX_ROWS_OF_FRAME),
        "drawing": drawing_of_difference(frame.before, frame.after) if is_drawn else None,
        "leftOut": frame.left_out,
    }


def _whole(films: Callable[[int], Replay], index: int) -> Json:
    rows = films(index).whole
    return {
        "rows": [_row(row) for row in rows[:MAX_ROWS]],
        "hidden": max(0, len(rows) - MAX_ROWS),
    }


def _row(row: Row) -> Json:
    if row.kind == "fold":
        return ["fold", row.count]
    if row.before is None or row.after is None or not row.kind:
        return [row.kind, row.before, row.after, [], []]
    gone, new = marks(row.before, row.after)
    return [row.kind, row.before, row.after, [list(r) for r in gone], [list(r) for r in new]]
