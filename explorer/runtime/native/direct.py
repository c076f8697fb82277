"""Calls of a program that is loaded into this process, at the cost of a few microseconds.

    calls = DirectCalls(program, loaded)
    calls.run({"images": images})        {"scores": array}

    images ── one copy ──▶ arena ── explorer_run ──▶ arena ── one copy ──▶ scores
                              ▲                         │
                              └────── kept bytes ◀──────┘      states that lie elsewhere afterwards

A state that the program writes where it lies stays in the arena: nothing of it is copied.

Everything that does not depend on the inputs' numbers is bound beforehand: places of inputs and
outputs in the arena as arrays, the arguments of the library's function as C values. So a call is
two comparisons and a copy for each input, one C call, and a copy for each output.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from explorer.errors import DeviceError
from explorer.ir.padding import check_rows, cut, in_order, valid_rows
from explorer.ir.sizes.calls import Call, Calls, cut_of
from explorer.results.program import GrowingValue, OpenAxis, Port, Program, ValidLength
from explorer.runtime.executable import Arrays, check_inputs
from explorer.runtime.sizes import shape_at, size_of_inputs

MAX_SIZES = 256
"""Of an open dimension, for which places are kept bound."""


@dataclass(frozen=True)
class PortView:
    """Where an input or output lies, as an array over the arena."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    array: np.ndarray


@dataclass(frozen=True)
class Bound:
    """The places at one size of the open dimension."""

    inputs: tuple[PortView, ...]
    outputs: tuple[PortView, ...]


class KeptState:
    """A state that a call leaves elsewhere than where it finds it; `held` between the calls."""

    def __init__(self, index: int, before: np.ndarray, after: np.ndarray) -> None:
        self.index, self.before, self.after = index, before, after
        self.held = np.empty_like(after)


@dataclass(frozen=True)
class BoundCall:
    """The places of what a call of some sizes has."""

    inputs: tuple[PortView, ...]
    cleared: tuple[np.ndarray, ...]
    """Places of integers of which a call has a part: the others may be indices, and are 0."""
    added: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Places of numbers and masks, and their contents."""
    outputs: tuple[tuple[str, np.ndarray, tuple[int, ...] | None], ...]
    """Name, part of the place and shape of each; None: that of the part."""

    def copy_in(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """False where an input is not exactly as this call has it."""
        for place in self.cleared:
            place.fill(0)
        return _copy_in(self.inputs, inputs)


class Loaded(Protocol):
    """A program that is ready to run: `worker.LoadedProgram`, or one in shared memory of OpenCL."""

    @property
    def arena(self) -> Any:
        """Its bytes, as an object with a buffer."""
        ...

    def bound_call(self) -> tuple[Any, tuple[Any, ...]]:
        """A function that returns 0 or an error number (errno.h), and its arguments."""
        ...


class DirectCalls:
    """Not safe for threads: the caller lets calls take turns."""

    def __init__(
        self,
        program: Program,
        loaded: Loaded,
        device: str = "cpu",
        kept: Sequence[tuple[Port, Port]] = (),
        owns_arena: bool = False,
    ) -> None:
        """kept: inputs with the outputs of which they are the bytes in the next call; neither are
        among those of `program`, which has one size. `load_states` comes before the first call.
        owns_arena: whether nothing else writes to the arena, but where `forget` is called."""
        self._program = program
        self._device = device
        self._bytes = np.frombuffer(loaded.arena, np.uint8)
        self._function, self._arguments = loaded.bound_call()
        self._bound: OrderedDict[int, Bound] = OrderedDict()
        self._calls = None if program.sizes is None else Calls(program.sizes)
        self._open_inputs, self._open_outputs = (
            ({}, {})
            if program.sizes is None
            else (_by_name(program.sizes.inputs), _by_name(program.sizes.outputs))
        )
        self._bound_calls: OrderedDict[Call, BoundCall] = OrderedDict()
        self._owns_arena = owns_arena
        self._last: tuple[Call, BoundCall] | None = None
        """The call before: inputs of the same shapes are those of the same sizes."""
        self._added: Call | None = None
        """The call of which the arena holds the numbers and masks."""
        if program.size is not None:
            start = program.size.offset_bytes
            self._size = self._bytes[start : start + program.size.size_bytes].view(np.int64)
        else:
            self._fixed = self._bind(0)
        self._states = [self._place_of_bytes(port) for port, _ in kept]
        self._copied = [
            KeptState(index, self._place_of_bytes(before), self._place_of_bytes(after))
            for index, (before, after) in enumerate(kept)
            if before.offset_bytes != after.offset_bytes
        ]

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """All outputs by name, in arrays of their own. With open sizes the inputs are those of a
        call, or all that the program takes."""
        if self._last is not None and self._last[1].copy_in(inputs):
            return self._run_bound(*self._last)
        call = None if self._calls is None else self._calls.call_of(inputs)
        if call is not None:
            return self._run_call(call, inputs)
        self.forget()
        bound = self._at_size(inputs) if self._program.size is not None else self._fixed
        length = self._program.length
        rows = None if length is None else valid_rows(length, inputs)
        is_copied = (
            _copy_in(bound.inputs, inputs)
            if length is None or rows is None
            else self._copy_valid(bound.inputs, inputs, length, rows)
        )
        if not is_copied:
            # Something is unusual: it is reported, or another form of the same.
            arrays = check_inputs(self._program, inputs)
            for place, array in zip(bound.inputs, arrays, strict=True):
                place.array[...] = array
        self._execute()
        if length is None or rows is None:
            return {place.name: place.array.copy() for place in bound.outputs}
        whole = {place.name: place.array for place in bound.outputs}
        found = cut(length, whole, rows)
        return {n: array.copy() if array is whole[n] else array for n, array in found.items()}

    def forget(self) -> None:
        """Something else has written to the arena."""
        self._added = None

    def _execute(self) -> None:
        for state in self._copied:
            state.before[:] = state.held
        status = self._function(*self._arguments)
        if status:
            raise DeviceError(
                f"explorer_run returned {status} instead of 0 ({os.strerror(status)})",
                device=self._device,
            )
        for state in self._copied:
            state.held[:] = state.after

    def _run_call(self, call: Call, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Copies what a call has, into the first elements of each axis, and nothing else."""
        assert self._calls is not None
        bound = self._bound_calls.get(call)
        if bound is None:
            bound = self._bound_calls[call] = self._bind_call(call)
            if len(self._bound_calls) > MAX_SIZES:
                self._bound_calls.popitem(last=False)
        self._last = call, bound
        if not bound.copy_in(inputs):
            # Something is unusual: it is reported, or another form of the same.
            whole, _ = self._calls.whole(inputs)
            for place, array in zip(
                self._fixed.inputs, check_inputs(self._program, whole), strict=True
            ):
                place.array[...] = array
        return self._run_bound(call, bound)

    def _run_bound(self, call: Call, bound: BoundCall) -> Arrays:
        """The outputs of a call that has its inputs in the arena."""
        if self._added is not call:
            for place, array in bound.added:
                place[...] = array
            self._added = call if self._owns_arena else None
        self._execute()
        return {
            name: part.copy() if shape is None else part.copy().reshape(shape)
            for name, part, shape in bound.outputs
        }

    def _bind_call(self, call: Call) -> BoundCall:
        assert self._calls is not None
        inputs: list[PortView] = []
        cleared: list[np.ndarray] = []
        for place in self._fixed.inputs:
            if place.name in call.added:
                continue
            cut = cut_of(place.shape, self._open_inputs.get(place.name, ()), call.values)
            part = cut.part(place.array)
            inputs.append(PortView(place.name, part.shape, place.dtype, part))
            if part.shape != place.shape and place.dtype.kind != "f":
                cleared.append(place.array)
        outputs: list[tuple[str, np.ndarray, tuple[int, ...] | None]] = []
        for place in self._fixed.outputs:
            cut = cut_of(place.shape, self._open_outputs.get(place.name, ()), call.values)
            part = cut.part(place.array)
            outputs.append((place.name, part, None if part.shape == cut.joined else cut.joined))
        added = [
            (place.array, call.added[place.name])
            for place in self._fixed.inputs
            if place.name in call.added
        ]
        return BoundCall(tuple(inputs), tuple(cleared), tuple(added), tuple(outputs))

    def _copy_valid(
        self,
        places: tuple[PortView, ...],
        inputs: Mapping[str, np.ndarray],
        length: ValidLength,
        rows: int,
    ) -> bool:
        """Copies what is valid of inputs that have a capacity; False where one is not as expected.

        What comes after it is 0: also where an earlier call has left more.
        """
        check_rows(length, rows)
        if len(inputs) != len(places) - 1:
            return False
        grown = {value.name: value for value in length.inputs}
        parts = {p.name: _part(p.array, grown.get(p.name), rows) for p in places}
        for place in places:
            array = inputs.get(place.name)
            if place.name != length.name and (
                type(array) is not np.ndarray
                or array.shape != parts[place.name].shape
                or array.dtype is not place.dtype
            ):
                return False
        for place in places:
            if place.name == length.name:
                place.array[...] = rows
                continue
            parts[place.name][...] = inputs[place.name]
            if place.name in grown:
                value = grown[place.name]
                behind = (slice(None),) * value.axis + (slice(rows + value.more, None),)
                in_order(place.array, value)[behind] = 0
        return True

    def states(self) -> list[np.ndarray]:
        """The bytes of every state as it is now, in arrays of their own."""
        found = [place.copy() for place in self._states]
        for state in self._copied:
            found[state.index] = state.held.copy()
        return found

    @property
    def copied_bytes(self) -> int:
        """Bytes of states that a call copies: into their places, and out of them."""
        return sum(2 * state.held.nbytes for state in self._copied)

    def load_states(self, contents: Sequence[np.ndarray]) -> None:
        """What the next call finds, as `states` gives it."""
        for place, content in zip(self._states, contents, strict=True):
            place[:] = content
        for state in self._copied:
            state.held[:] = contents[state.index]

    def _at_size(self, inputs: Mapping[str, np.ndarray]) -> Bound:
        """The places at the size that the inputs have, which is written into the arena."""
        size = size_of_inputs(self._program, inputs)
        bound = self._bound.get(size)
        if bound is None:
            bound = self._bound[size] = self._bind(size)
            if len(self._bound) > MAX_SIZES:
                self._bound.popitem(last=False)
        else:
            self._bound.move_to_end(size)
        self._size[0] = size
        return bound

    def _bind(self, size: int) -> Bound:
        inputs = tuple(self._place(port, size) for port in self._program.inputs)
        return Bound(inputs, tuple(self._place(port, size) for port in self._program.outputs))

    def _place_of_bytes(self, port: Port) -> np.ndarray:
        return self._bytes[port.offset_bytes : port.offset_bytes + port.size_bytes]

    def _place(self, port: Port, size: int) -> PortView:
        shape, dtype = shape_at(port, size), np.dtype(port.element_type)
        count = int(np.prod(shape, dtype=np.int64))
        # At less than the largest size the array is the first part of its place.
        part = self._bytes[port.offset_bytes : port.offset_bytes + count * dtype.itemsize]
        return PortView(port.name, shape, dtype, part.view(dtype).reshape(shape))


def _by_name(axes: Sequence[OpenAxis]) -> dict[str, list[OpenAxis]]:
    found: dict[str, list[OpenAxis]] = {}
    for axis in axes:
        found.setdefault(axis.name, []).append(axis)
    return found


def _part(array: np.ndarray, value: GrowingValue | None, rows: int) -> np.ndarray:
    """What is valid of an array; all of it where it does not grow."""
    if value is None:
        return array
    return in_order(array, value)[(slice(None),) * value.axis + (slice(rows + value.more),)]


def _copy_in(places: tuple[PortView, ...], inputs: Mapping[str, np.ndarray]) -> bool:
    """Copies inputs that are exactly as expected; False where one is not, or is missing."""
    if len(inputs) != len(places):
        return False
    for place in places:
        array = inputs.get(place.name)
        if (
            type(array) is not np.ndarray
            or array.shape != place.shape
            or array.dtype is not place.dtype
        ):
            return False
        place.array[...] = array
    return True
