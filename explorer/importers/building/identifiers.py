"""Short names of values from the names in a file, which may hold anything.

    "/stage1/block0/conv1"   -> conv        (numbered by `Names`: conv1, conv2 ...)
    "input.1", "past_0"      -> input1, past0
    "<script>"               -> script

xDSL drops a trailing `_1` from names, and `name.1` is an operation's second result, so neither may
appear in what stands here.
"""

from __future__ import annotations

import re

_LONGEST = 32


def argument_name(name: str, taken: set[str]) -> str:
    """An unused name for a function argument, close to the input's own."""
    base = identifier(name) or "input"
    base = re.sub(r"_+(\d+)$", r"\1", base)
    if base[0].isdigit():
        base = f"input{base}"
    chosen, number = base, 1
    while chosen in taken:
        number += 1
        chosen = f"{base}x{number}"
    return chosen


def stem_of(name: str, default: str) -> str:
    """What an operation is called before its number: the last part of the name."""
    parts = name.split("/")
    last = parts[-1] if parts[-1].strip("0123456789_ ") else name
    if "." in last:
        last = "_".join(last.split(".")[-2:])
    stem = re.sub(r"[_\d]+$", "", identifier(last))
    if not stem or stem[0].isdigit():
        stem = identifier(default)
    return stem.lower() if stem.lower() == default.lower() else stem


def identifier(text: str) -> str:
    """Letters, digits and underscores of ASCII; not longer than a person reads."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[-_LONGEST:].strip("_")
