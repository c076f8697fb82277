"""The functions of `search.py` and `moves.py`, compiled by numba: the same plans, some hundred
times as fast.

numba keeps what it compiles next to these files, by the processor and by the file's time, or in
the user's folder for caches where that cannot be written; where no folder can be, it compiles
once per process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from explorer.memory.exact import moves, search

SEARCH = (
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
"""What is called comes before what calls it."""
EJECTION = (
    "draw",
    "insert_key",
    "remove_key",
    "put",
    "take_out",
    "take_waiting",
    "keep_neighbours",
    "round_down",
    "find_cheapest",
    "eject",
)


def find_key(keys, key, first, end):
    """`bisect_left`, of which numba has none."""
    while first < end:
        middle = (first + end) // 2
        if keys[middle] < key:
            first = middle + 1
        else:
            end = middle
    return first


def find_first_key(keys, key, count):
    """`moves.find_key` for arrays."""
    return np.searchsorted(keys[:count], key)


@cache
def compiled_functions() -> tuple[Any, Any] | None:
    """`begin_search` and `search`, or None where numba is not installed."""
    found = compiled(search, SEARCH, {"bisect_left": find_key})
    return (found["begin_search"], found["search"]) if found else None


@cache
def compiled_eject() -> Any:
    """`eject`, or None where numba is not installed."""
    found = compiled(moves, EJECTION, {"find_key": find_first_key})
    return found["eject"] if found else None


def compiled(
    module: ModuleType, functions: Sequence[str], replaced: Mapping[str, FunctionType]
) -> dict[str, Any] | None:
    """The names of a module, of which these functions are compiled."""
    try:
        import numba  # pyright: ignore[reportMissingImports]  (an extra)
    except ImportError:
        return None
    names = dict(vars(module)) | {name: numba.njit(function) for name, function in replaced.items()}
    for name in functions:
        function = FunctionType(getattr(module, name).__code__, names, name)
        try:
            names[name] = numba.njit(cache=True)(function)
        except RuntimeError:  # no folder for its cache can be written
            names[name] = numba.njit(function)
    return names
