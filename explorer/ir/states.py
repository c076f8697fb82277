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
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import BlockArgument

from explorer.ir.evaluation import entry_function, input_names, output_names
from explorer.ir.functions.calls import calls_of, returned_values
from explorer.ir.open_sizes import sizes_of_function

STATES = "states"
"""Attribute of the entry function."""


@dataclass(frozen=True)
class StateRecord:
    """A state of the program, by the source model's names."""

    input: str
    output: str
    initial: str = "zeros"
    """What it holds at first: zeros, or contents that come with the model."""


@dataclass(frozen=True)
class StatePlace:
    """A state of a device function: which argument, and which of the values that it returns."""

    name: str
    argument: int
    result: int


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


def device_states(module: ModuleOp) -> dict[str, tuple[StatePlace, ...]]:
    """The states that one function of a device reads and writes, by the function's name.

    A state that one function reads and another one writes goes from part to part.
    """
    entry = entry_function(module)
    states = states_of(entry)
    if not states:
        return {}
    inputs, outputs = input_names(entry), output_names(entry)
    returned = dict(zip(outputs, returned_values(module), strict=True))
    arguments = dict(zip(inputs, entry.body.block.args, strict=True))
    found: dict[str, tuple[StatePlace, ...]] = {}
    for call in calls_of(module):
        places = []
        for state in states:
            given: BlockArgument | None = arguments.get(state.input)
            made = returned.get(state.output)
            if given in call.operands and made in call.results:
                argument, result = call.operands.index(given), call.results.index(made)
                places.append(StatePlace(state.input, argument, result))
        found[call.function.sym_name.data] = tuple(places)
    return found


def call_arguments(function: func.FuncOp) -> list[BlockArgument]:
    """The arguments of a device function that hold numbers and masks of a call (`keep-sizes`).

    They keep them to the end, where the next call of the same sizes finds them.
    """
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    entry = entry_function(module)
    sizes = sizes_of_function(entry)
    if sizes is None:
        return []
    named = zip(input_names(entry), entry.body.block.args, strict=True)
    added = {argument for name, argument in named if name in sizes.added}
    return [
        argument
        for call in calls_of(module)
        if call.function is function
        for argument, operand in zip(function.body.block.args, call.operands, strict=True)
        if operand in added
    ]


def _text(attribute: object) -> str:
    assert isinstance(attribute, StringAttr)
    return attribute.data
