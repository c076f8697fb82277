"""Knobs: decisions that a person may take otherwise, each with the values that are legal for it.

    Knob("schedule-loops/conv_1/pixels", 14, (1, 2, ..., 56), "29 of 32 registers, ...")

`compilation.fork(decisions={knob.address: choice})` compiles with another value. What is legal
depends on the decisions before it: other values of an earlier knob may allow more, or less.
"""

from __future__ import annotations

from dataclasses import dataclass

ListValue = tuple[str | tuple[str, int | str], ...]
"""Names of passes, or of buffers with their bytes or memories."""

KnobValue = bool | int | float | str | ListValue | None
"""Numbers are finite: JSON has no infinity, and its name is a text."""


@dataclass(frozen=True)
class Knob:
    """One decision: its value in this compilation, and what else it may be."""

    address: str
    """`pass/rule/operation`, `pass/rule`, `pass`, or a part of the settings (`target`)."""
    value: KnobValue
    choices: tuple[KnobValue, ...]
    """All legal values, this one included; empty where any number goes, or none at all (None),
    and for lists."""
    why: str
    """The reason for the value, for people."""
