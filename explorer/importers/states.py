"""Which inputs and outputs of a model are states: what a call returns, the next one is given.

    past_key_values.0.key    present.0.key         found by their names, where both have one shape
    h                        hn
    "past.*=present.*"                             named: `*` is the same text in both

A state that a format declares (buffers of PyTorch, variables of TFLite) is in the model already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from explorer.errors import InputError
from explorer.importers.model import SourceModel, SourceValue, State
from explorer.results.names import near_name

_PAIRS = (
    (r"past_key_values(.*)", r"present\1"),
    (r"past_key_values(.*)", r"present_key_values\1"),
    (r"past(.*)", r"present\1"),
    (r"(h|c|state|hidden|cell)0?", r"\1n"),
    (r"(h|c|state|hidden|cell)0?", r"\1N"),
    (r"(.*(?:state|cache|hidden|cell|mem).*?)(?:_in)?", r"\1_out"),
    (r"(.*(?:state|cache|hidden|cell|mem).*?)(?:_in)?", r"\1_next"),
    (r"(.*(?:state|cache|hidden|cell|mem).*)", r"new_\1"),
    (r"(.*(?:state|cache|hidden|cell|mem).*)", r"next_\1"),
)
"""How exporters call a state: the input, and the output."""


def paired_states(
    inputs: Sequence[SourceValue], outputs: Sequence[SourceValue]
) -> tuple[State, ...]:
    """Inputs and outputs that are states by their names, of one type and shape each, or with one
    axis that grows with each call."""
    by_name = {value.name: value for value in outputs}
    found: list[State] = []
    taken: set[str] = set()
    for value in inputs:
        for pattern, named in _PAIRS:
            match = re.fullmatch(pattern, value.name)
            output = by_name.get(match.expand(named)) if match else None
            if output is None or output.name in taken or output.shape is None:
                continue
            axis = growing_axis(value, output)
            if difference(value, output) and axis is None:
                continue
            taken.add(output.name)
            found.append(State(value.name, output.name, axis=axis, is_guessed=True))
            break
    return tuple(found)


def named_states(model: SourceModel, names: str | Iterable[str]) -> tuple[State, ...]:
    """The states that `INPUT=OUTPUT` names, with `*` for what both have in common.

    InputError for what names no input, no output or none with that text, for values of different
    types or shapes, and for one value in two states.
    """
    found: list[State] = []
    for name in [names] if isinstance(names, str) else names:
        before, equals, after = name.partition("=")
        if not equals or before.count("*") != after.count("*"):
            raise InputError(
                f"{name!r} names no states: expected INPUT=OUTPUT with as many * on both sides",
                hint="past.*=present.*",
            )
        found += _matching(model, before.strip(), after.strip())
    check_states(model, found)
    return tuple(found)


def with_named_states(model: SourceModel, names: str | Iterable[str]) -> SourceModel:
    """The model with the states that are named, besides those that its format declares.

    States that were found by their names only give way to named ones.
    """
    named = named_states(model, names)
    own = tuple(state for state in model.states if not state.is_guessed)
    check_states(model, (*own, *named))
    return replace(model, states=(*own, *named))


def check_states(model: SourceModel, states: Sequence[State]) -> None:
    """InputError where states are none of this model, or share memory."""
    inputs = {value.name: value for value in model.inputs}
    outputs = {value.name: value for value in model.outputs}
    readers: dict[str, str] = {}
    writers: dict[str, str] = {}
    for state in states:
        before, after = inputs.get(state.input), outputs.get(state.output)
        if before is None:
            hint = near_name(state.input, list(inputs), otherwise="an input of the model")
            raise InputError(f"the model has no input {state.input!r} for a state", hint=hint)
        if after is None:
            hint = near_name(state.output, list(outputs), otherwise="an output of the model")
            raise InputError(
                f"nothing writes the state {state.input!r}: the model has no output "
                f"{state.output!r}",
                hint=hint,
            )
        if state.input in readers or state.output in writers:
            other = readers.get(state.input) or writers.get(state.output)
            raise InputError(
                f"the states {state.input}={state.output} and {other} would be one memory",
                hint="each input and each output belongs to one state",
            )
        readers[state.input] = writers[state.output] = f"{state.input}={state.output}"
        reason = difference(before, after)
        if reason and state.axis is None:
            raise InputError(f"the state {state.input!r} and its output differ: {reason}")


def difference(before: SourceValue, after: SourceValue) -> str:
    """Why two values are not one state; empty where they may be. What the file does not say of an
    output is known when it is imported."""
    if after.element_type and before.element_type != after.element_type:
        return f"{before.name} is {before.element_type}, {after.name} is {after.element_type}"
    if before.shape is None or after.shape is None:
        return ""
    if len(before.shape) != len(after.shape) or any(
        size != other and not _is_open(other, after)
        for size, other in zip(before.shape, after.shape, strict=True)
    ):
        return f"{before.name} is {_text(before)}, {after.name} is {_text(after)}"
    return ""


def growing_axis(before: SourceValue, after: SourceValue) -> int | None:
    """The axis along which an output may be longer than the input: its size has a name."""
    if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
        return None
    if before.element_type != after.element_type:
        return None
    if "past" not in before.name and not difference(before, after):
        return None
    sizes = enumerate(zip(before.shape, after.shape, strict=True))
    others = [(axis, size) for axis, (size, other) in sizes if size != other]
    return others[0][0] if len(others) == 1 and isinstance(others[0][1], str) else None


def _is_open(size: int | str, value: SourceValue) -> bool:
    """Whether the file says nothing of a size, so that it is called after its place."""
    return isinstance(size, str) and size.startswith(f"{value.name}.")


def _text(value: SourceValue) -> str:
    assert value.shape is not None
    return "x".join(map(str, value.shape)) or "a single number"


def _matching(model: SourceModel, before: str, after: str) -> list[State]:
    pattern = re.compile("(.*)".join(map(re.escape, before.split("*"))))
    found = []
    for value in model.inputs:
        match = pattern.fullmatch(value.name)
        if match:
            texts = iter(match.groups())
            output = re.sub(r"\*", lambda _, texts=texts: next(texts), after)
            by_name = {value.name: value for value in model.outputs}
            axis = growing_axis(value, by_name[output]) if output in by_name else None
            found.append(State(value.name, output, axis=axis))
    if not found:
        names = [value.name for value in model.inputs]
        raise InputError(
            f"no input is called {before!r}",
            hint=near_name(before, names, otherwise="an input of the model"),
        )
    return found
