"""The functions of `search.py`, compiled by numba: the same plans, some hundred times as fast.

numba keeps what it compiles next to `search.py`, by the processor and by the file's time, or in
the user's folder for caches where that cannot be written; where no folder can be, it compiles
once per process.
"""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

from explorer.memory.exact import search as plain
from explorer.memory.exact.search import *  # noqa: F403  (the constants that the functions name)

FUNCTIONS = (
    "note",
    "take_away",
    "undo",
    "rank_members",
    "move_in_line",
    "change_line",
    "restore_line",
    "open_frame",
    "is_same_plan",
    "pass_over",
    "most_live",
    "find_candidate",
    "is_full",
    "put",
    "find_witness",
    "has_witness",
    "is_possible",
    "is_connected",
    "split",
    "begin_search",
    "search",
)
"""What is called stands before what calls it."""


def find_key(keys, key, first, end):
    """`bisect_left`, of which numba has none."""
    while first < end:
        middle = (first + end) // 2
        if keys[middle] < key:
            first = middle + 1
        else:
            end = middle
    return first


@cache
def compiled_functions() -> tuple[Any, Any] | None:
    """`begin_search` and `search`, or None where numba is not installed."""
    try:
        import numba  # pyright: ignore[reportMissingImports]  (an extra)
    except ImportError:
        return None
    names = globals()
    names["bisect_left"] = numba.njit(find_key)
    for name in FUNCTIONS:
        function = FunctionType(getattr(plain, name).__code__, names, name)
        try:
            names[name] = numba.njit(cache=True)(function)
        except RuntimeError:  # no folder for its cache can be written
            names[name] = numba.njit(function)
    return names["begin_search"], names["search"]
