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
    "open_frame",
    "is_same_plan",
    "is_full",
    "put",
    "is_possible",
    "is_connected",
    "split",
    "begin_search",
    "search",
)
"""What is called stands before what calls it."""


@cache
def compiled_functions() -> tuple[Any, Any] | None:
    """`begin_search` and `search`, or None where numba is not installed."""
    try:
        import numba  # pyright: ignore[reportMissingImports]  (an extra)
    except ImportError:
        return None
    names = globals()
    for name in FUNCTIONS:
        function = FunctionType(getattr(plain, name).__code__, names, name)
        try:
            names[name] = numba.njit(cache=True)(function)
        except RuntimeError:  # no folder for its cache can be written
            names[name] = numba.njit(function)
    return names["begin_search"], names["search"]
