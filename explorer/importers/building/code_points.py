"""Strings as numbers: rows of Unicode code points, filled up with zeros.

    ["to", "be"]  ->  [[116, 111], [98, 101]]        (2) strings  ->  (2, 2) of int32
    ["a", ""]     ->  [[97], [0]]

Rows have a power of two places, so that strings of similar lengths have one shape. A string with
U+0000 in it has no such form.
"""

from __future__ import annotations

import numpy as np

from explorer.errors import InputError

LARGEST = 0x10FFFF
"""The last code point of Unicode."""
DOMAIN = "explorer.strings"
"""Of the two operators by which strings enter and leave a program: FromCodes and ToCodes."""
SUFFIX = ".codes"
"""What the code points of an input or output are called, behind its own name."""


def is_strings(array: np.ndarray) -> bool:
    return array.dtype.kind in "OUS"


def encoded(array: np.ndarray, name: str = "") -> np.ndarray:
    """(...) of strings -> (..., places) of int32; InputError for what is no string."""
    texts = [_text(item, name) for item in array.reshape(-1).tolist()]
    longest = max(map(len, texts), default=0)
    places = 1 << max(longest - 1, 0).bit_length()
    wide = np.array(texts, f"<U{places}")
    return wide.view(np.int32).reshape(*array.shape, places).copy()


def decoded(codes: np.ndarray) -> np.ndarray:
    """(..., places) of int32 -> (...) of strings, an array of objects."""
    places = codes.shape[-1]
    if not places or not codes.size:
        return np.full(codes.shape[:-1], "", object)
    flat = np.ascontiguousarray(codes.astype(np.int32)).reshape(-1, places)
    return flat.view(f"<U{places}").reshape(codes.shape[:-1]).astype(object)


def widened(codes: np.ndarray, places: int) -> np.ndarray:
    """The same strings with more zeros behind them."""
    missing = places - codes.shape[-1]
    return np.pad(codes, [*[(0, 0)] * (codes.ndim - 1), (0, missing)])


def _text(item: object, name: str) -> str:
    if isinstance(item, bytes):
        item = item.decode("utf-8", "replace")
    if not isinstance(item, str):
        raise InputError(f"{name or 'an input'} holds {item!r}, a string is expected", node=name)
    if "\0" in item:
        raise InputError(
            f"a string of {name or 'an input'} contains the character U+0000",
            node=name,
            hint="take it out: it marks the end of a string here",
        )
    return item
