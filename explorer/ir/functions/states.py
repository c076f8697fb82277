"""Where functions of devices read and write the states of a program."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from explorer.ir.evaluation import entry_function, input_names, output_names
from explorer.ir.functions.calls import calls_of, returned_values
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.states import states_of


@dataclass(frozen=True)
class StatePlace:
    """A state of a device function: which argument, and which of the values that it returns."""

    name: str
    argument: int
    result: int


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
