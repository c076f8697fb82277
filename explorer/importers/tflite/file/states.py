"""What a model remembers from one run to the next, as inputs and outputs of its own.

    VAR_HANDLE -> v;  READ_VARIABLE(v) -> a;  ...;  ASSIGN_VARIABLE(v, b)
        input v, which is a;  output v:next, which is b

    UNIDIRECTIONAL_SEQUENCE_LSTM(x, ..., h, c) -> y          h and c are variable tensors
        inputs h and c;  outputs h:next and c:next

    custom.SignalFilterBankSpectralSubtraction(x) -> y, noise    keeps `noise` for the next run
        input and output as above, of what the file has no tensor for

Resources get what the subgraph of CALL_ONCE assigns, variable tensors zeros. `Flow` says which
names each operator reads and makes then.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.errors import ModelError
from explorer.importers.model import State
from explorer.importers.tflite.file.contents import Flow, Operator, States, Subgraph, Tensor

NEXT = ":next"
HIDDEN_STATES = {"custom.SignalFilterBankSpectralSubtraction": (1, "noise_estimate")}
"""Operators that remember one of their results, by its place, and what it is called."""
NO_NUMBERS = ("string", "resource", "variant")


def states_of(graphs: tuple[Subgraph, ...]) -> States:
    """ModelError for a resource of unknown contents."""
    main = graphs[0]
    walk = _Walk(_initial(graphs))
    flows = {operator.name: walk.flow(operator) for operator in main.operators}
    return walk.states(flows)


def _key(handle: Operator) -> tuple[object, object]:
    return handle.options.get("container", ""), handle.options.get("shared_name", "")


def _initial(graphs: tuple[Subgraph, ...]) -> dict[tuple[object, object], Tensor]:
    """What the subgraphs that run once assign to resources: constants."""
    found: dict[tuple[object, object], Tensor] = {}
    for operator in graphs[0].operators:
        if operator.kind != "CALL_ONCE":
            continue
        number = operator.options.get("init_subgraph_index", 0)
        if not isinstance(number, int) or not 0 < number < len(graphs):
            raise ModelError(f"{operator.name} calls subgraph {number} of {len(graphs)}")
        handles: dict[int, tuple[object, object]] = {}
        for inner in graphs[number].operators:
            if inner.kind == "VAR_HANDLE" and inner.outputs:
                handles[inner.outputs[0].index] = _key(inner)
            elif inner.kind == "ASSIGN_VARIABLE" and len(inner.inputs) == 2:
                handle, value = inner.inputs
                if handle is not None and value is not None and handle.index in handles:
                    found[handles[handle.index]] = value
    return found


class _Walk:
    """Operators in their order: what a variable holds when each is reached."""

    def __init__(self, initial: Mapping[tuple[object, object], Tensor]) -> None:
        self._initial = initial
        self._handles: dict[int, tuple[str, tuple[object, object]]] = {}
        self._current: dict[str, str] = {}
        self._assigned: dict[str, Tensor] = {}
        self._before: dict[str, np.ndarray] = {}
        self._kinds: dict[str, Tensor] = {}
        self._resources: set[str] = set()

    def flow(self, operator: Operator) -> Flow:
        match operator.kind:
            case "VAR_HANDLE":
                return self._handle(operator)
            case "READ_VARIABLE":
                name = self._resource(operator)
                return Flow((self._current[name],), operator.outputs, _names(operator))
            case "ASSIGN_VARIABLE":
                return self._assign(operator)
            case "CALL_ONCE":
                return Flow((), (), ())
            case kind if kind in HIDDEN_STATES:
                return self._hidden(operator)
        inputs = tuple(
            "" if t is None else self._current.get(t.name, t.name) for t in operator.inputs
        )
        held = [t for t in operator.inputs if t is not None and t.is_variable]
        if not held:
            return Flow(inputs, operator.outputs, _names(operator))
        for tensor in held:
            self._remember(tensor.name, tensor, _cleared(tensor))
            self._assigned[tensor.name] = tensor
        inputs = tuple(
            "" if t is None else self._current.get(t.name, t.name) for t in operator.inputs
        )
        for tensor in held:
            self._current[tensor.name] = f"{tensor.name}{NEXT}"
        made = tuple(f"{tensor.name}{NEXT}" for tensor in held)
        return Flow(inputs, (*operator.outputs, *held), (*_names(operator), *made))

    def _hidden(self, operator: Operator) -> Flow:
        """An operator whose state is what one of its results was."""
        place, what = HIDDEN_STATES[operator.kind]
        if len(operator.outputs) <= place or operator.outputs[place].element_type in NO_NUMBERS:
            raise ModelError(f"{operator.name} has not the results that it should have")
        tensor, name = operator.outputs[place], f"{operator.name}.{what}"
        self._remember(name, tensor, np.zeros(tensor.shape, np.dtype(tensor.element_type)))
        self._resources.add(name)
        made = f"{name}{NEXT}"
        self._assigned[name], self._current[name] = tensor, made
        given = [self._current.get(read, read) for read in _operands(operator)]
        return Flow((*given, name), (*operator.outputs, tensor), (*_names(operator), made))

    def _handle(self, operator: Operator) -> Flow:
        key = _key(operator)
        (handle,) = operator.outputs
        known = next((name for name, other in self._handles.values() if other == key), handle.name)
        self._handles[handle.index] = (known, key)
        if key in self._initial:
            value = self._initial[key]
            if value.data is None:
                raise ModelError(f"the resource {known!r} is not initialized with a constant")
            self._remember(known, value, value.data)
            self._resources.add(known)
        return Flow((), (), ())

    def _resource(self, operator: Operator) -> str:
        handle = operator.inputs[0] if operator.inputs else None
        name = self._handles.get(-1 if handle is None else handle.index, ("",))[0]
        if name not in self._current:
            raise ModelError(f"{operator.name}: nothing says what the resource holds at first")
        return name

    def _assign(self, operator: Operator) -> Flow:
        name, value = self._resource(operator), operator.inputs[1]
        if value is None:
            raise ModelError(f"{operator.name} assigns nothing")
        made = f"{name}{NEXT}" if name not in self._assigned else f"{self._current[name]}'"
        read = self._current.get(value.name, value.name)
        self._assigned[name], self._current[name] = value, made
        return Flow((read,), (value,), (made,))

    def _remember(self, name: str, tensor: Tensor, contents: np.ndarray) -> None:
        self._current.setdefault(name, name)
        self._before.setdefault(name, contents)
        self._kinds.setdefault(name, tensor)

    def states(self, flows: Mapping[str, Flow]) -> States:
        found, tensors = [], {}
        for name, contents in self._before.items():
            if name not in self._assigned:
                continue
            output = self._current[name]
            found.append(State(name, output, contents))
            tensors[name], tensors[output] = self._kinds[name], self._assigned[name]
        constants = {n: a for n, a in self._before.items() if n not in self._assigned}
        return States(flows, tuple(found), tensors, constants, frozenset(self._resources))


def _operands(operator: Operator) -> tuple[str, ...]:
    return tuple("" if tensor is None else tensor.name for tensor in operator.inputs)


def _names(operator: Operator) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in operator.outputs)


def _cleared(tensor: Tensor) -> np.ndarray:
    """What a variable tensor holds at first: zeros; in signed bytes the zero point's. One number
    in memory, whatever size a damaged file gives."""
    zero = 0
    if tensor.element_type == "int8" and tensor.quantization is not None:
        zero = int(tensor.quantization.zero_points[0])
    return np.broadcast_to(np.array(zero, tensor.element_type), tensor.shape)
