"""What a TFLite model remembers comes in inputs and goes out in outputs of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from explorer.errors import ModelError
from explorer.importers.tflite.file.contents import Operator, Subgraph, Tensor
from explorer.importers.tflite.file.states import states_of


def tensor(index: int, name: str, data: Any = None, is_variable: bool = False) -> Tensor:
    kind = "resource" if name.startswith("v") else "float32"
    array = None if data is None else np.asarray(data, np.float32)
    return Tensor(index, name, kind, (2,), (), None, array, is_variable)


def operator(name: str, inputs: list[Tensor], outputs: list[Tensor], **options: Any) -> Operator:
    kind = name.rsplit("_", 1)[0]
    return Operator(name, kind, 1, tuple(inputs), tuple(outputs), options)


def graph(*operators: Operator) -> Subgraph:
    return Subgraph("", (), (), (), operators)


def once() -> Subgraph:
    handle, start = tensor(0, "v"), tensor(1, "start", [1, 2])
    return graph(
        operator("VAR_HANDLE_0", [], [handle], shared_name="state"),
        operator("ASSIGN_VARIABLE_1", [handle, start], []),
    )


def test_a_resource_is_an_input_and_what_is_assigned_last_an_output():
    handle, a, b = tensor(0, "v"), tensor(1, "a"), tensor(2, "b")
    again = tensor(3, "again")
    states = states_of(
        (
            graph(
                operator("CALL_ONCE_0", [], [], init_subgraph_index=1),
                operator("VAR_HANDLE_1", [], [handle], shared_name="state"),
                operator("READ_VARIABLE_2", [handle], [a]),
                operator("NEG_3", [a], [b]),
                operator("ASSIGN_VARIABLE_4", [handle, b], []),
                operator("READ_VARIABLE_5", [handle], [again]),
            ),
            once(),
        )
    )

    (state,) = states.found
    assert (state.input, state.output, state.initial.tolist()) == ("v", "v:next", [1, 2])
    assert states.flows["READ_VARIABLE_2"].inputs == ("v",)
    assert states.flows["ASSIGN_VARIABLE_4"].outputs == ("v:next",)
    assert states.flows["READ_VARIABLE_5"].inputs == ("v:next",)
    assert states.tensors["v:next"] is b and states.resources == {"v"}


def test_a_resource_that_nothing_assigns_is_a_constant():
    handle, a = tensor(0, "v"), tensor(1, "a")
    states = states_of(
        (
            graph(
                operator("CALL_ONCE_0", [], [], init_subgraph_index=1),
                operator("VAR_HANDLE_1", [], [handle], shared_name="state"),
                operator("READ_VARIABLE_2", [handle], [a]),
            ),
            once(),
        )
    )

    assert not states.found
    assert states.constants["v"].tolist() == [1, 2]


def test_a_variable_tensor_begins_with_zeros():
    x, h, y = tensor(0, "x"), tensor(1, "h", is_variable=True), tensor(2, "y")
    states = states_of((graph(operator("SVDF_0", [x, h], [y])),))

    (state,) = states.found
    assert (state.input, state.output, state.initial.tolist()) == ("h", "h:next", [0, 0])
    assert states.flows["SVDF_0"].outputs == ("y", "h:next")


def test_a_resource_of_unknown_contents_is_refused():
    handle, a = tensor(0, "v"), tensor(1, "a")
    read = operator("READ_VARIABLE_1", [handle], [a])
    with pytest.raises(ModelError, match="nothing says what the resource holds at first"):
        states_of((graph(operator("VAR_HANDLE_0", [], [handle], shared_name="state"), read),))


def test_an_initialization_by_a_subgraph_that_is_not_there_is_refused():
    with pytest.raises(ModelError, match="calls subgraph 7 of 1"):
        states_of((graph(operator("CALL_ONCE_0", [], [], init_subgraph_index=7)),))


def test_what_a_variable_holds_at_first_takes_no_memory():
    """A damaged file may say any size; refusing it is for what reads the state."""
    held = replace(tensor(0, "h", is_variable=True), shape=(1 << 20, 1 << 20))
    states = states_of((graph(operator("SVDF_0", [held], [tensor(1, "y")])),))

    (state,) = states.found
    assert state.initial.shape == held.shape
    assert state.initial.base is not None and state.initial.base.nbytes == 4
