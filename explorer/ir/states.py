"""States: values that live from call to call, as an input and an output of the entry function.

    func @main(%h, %x) { ... return %y, %h2 }
        {input_names = ["h", "x"], output_names = ["y", "h:next"],
         states = [{input = "h", output = "h:next", initial = "zeros"}]}

What a call returns for `output` is what the next one is given for `input`. Both have one type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr

STATES = "states"
"""Attribute of the entry function."""


@dataclass(frozen=True)
class StateRecord:
    """A state of the program, by the source model's names."""

    input: str
    output: str
    initial: str = "zeros"
    """What it holds at first: zeros, or contents that come with the model."""


def set_states(function: func.FuncOp, states: Iterable[StateRecord]) -> None:
    """Notes the states on the entry function; none leaves it as it is."""
    found = [
        DictionaryAttr(
            {
                "input": StringAttr(state.input),
                "output": StringAttr(state.output),
                "initial": StringAttr(state.initial),
            }
        )
        for state in states
    ]
    if found:
        function.attributes[STATES] = ArrayAttr(found)


def states_of(function: func.FuncOp) -> tuple[StateRecord, ...]:
    """The states of an entry function."""
    attribute = function.attributes.get(STATES)
    if not isinstance(attribute, ArrayAttr):
        return ()
    return tuple(
        StateRecord(*(_text(entry.data[name]) for name in ("input", "output", "initial")))
        for entry in attribute.data
        if isinstance(entry, DictionaryAttr)
    )


def _text(attribute: object) -> str:
    assert isinstance(attribute, StringAttr)
    return attribute.data
