"""What every built program can do, whatever it runs on, and the checks before it may.

with NativeProgram(program, weights) as executable:          # or OpenCLProgram
    outputs = executable.run({"images": images})              # {"scores": array}
    outputs, taps = executable.run_with_taps({"images": images})
    record = executable.profile({"images": images}, repeats=20)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol, Self

import numpy as np

from explorer.errors import DeviceError, InputError
from explorer.ir.padding import padded
from explorer.ir.sizes.calls import padded_to_largest
from explorer.results.names import nearest
from explorer.results.program import Port, Program, Tap
from explorer.results.runs.events import ProfileRecord
from explorer.runtime.sizes import shape_at, size_of_inputs

Arrays = dict[str, np.ndarray]
TapKey = tuple[str, int]
Taps = dict[TapKey, np.ndarray]
"""Physical arrays (`Tap.shape`: blocked, with halo) by (operation, result)."""


class Executable(Protocol):
    """A program that is built for a device and holds its memory there until it is closed.

    Inputs are checked against the program's ports (`InputError`); what fails on the device is a
    `DeviceError`. The arena is zeroed once, before the first run. Calls from several threads
    take turns.
    """

    program: Program

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """All outputs by name."""
        ...

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        """All outputs, and every tapped value as it was right after its launch.

        `fed` replaces values in the arena once they were read (physical arrays, `Tap.shape`), so
        that the launches that follow work on these instead.
        """
        ...

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        """Median times of every launch and of the whole."""
        ...

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        """Seconds of each of `repeats` inferences after one that is not counted.

        Launches only: no copying of inputs and outputs, no event timing.
        """
        ...

    def close(self) -> None:
        """Give the device's memory and processes back. A second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *of_error: object) -> None: ...


def check_program(program: Program) -> None:
    """Refuse a program whose table points outside of its memory.

    A program may come from a saved trace, and its offsets become addresses.
    """
    for port in (*program.inputs, *program.outputs):
        _check_range(port, f"port `{port.name}`", program)
    for tap in program.taps:
        _check_range(tap, f"tap of `{tap.operation}`", program)
        if not 0 <= tap.step < len(program.launches):
            raise DeviceError(
                f"the tap of `{tap.operation}` is read after launch {tap.step}, and there are "
                f"{len(program.launches)} launches"
            )
    if program.size is not None:
        end = program.size.offset_bytes + program.size.size_bytes
        if program.size.offset_bytes < 0 or end > program.arena_bytes:
            raise DeviceError(
                f"the size of {program.size.name!r} lies at bytes {program.size.offset_bytes} to "
                f"{end} of an arena of {program.arena_bytes}"
            )
    limits = {"arena": program.arena_bytes, "weights": program.weights_bytes}
    for memory in program.memories:
        limits[memory.name] = min(memory.offset_bytes + memory.size_bytes, program.arena_bytes)
    for launch in program.launches:
        for argument in launch.arguments:
            end = argument.offset_bytes + argument.size_bytes
            if argument.offset_bytes < 0 or end > limits.get(argument.space, 0):
                raise DeviceError(
                    f"argument `{argument.name}` lies at bytes {argument.offset_bytes} to {end} "
                    f"of the {argument.space}, which has {limits.get(argument.space, 0)}",
                    node=launch.operation,
                )


def _check_range(place: Port | Tap, name: str, program: Program) -> None:
    expected_bytes = math.prod(place.shape) * np.dtype(place.element_type).itemsize
    if expected_bytes != place.size_bytes:
        raise DeviceError(
            f"the {name} has {place.size_bytes} bytes; {place.shape} of {place.element_type} "
            f"takes {expected_bytes}"
        )
    end = place.offset_bytes + place.size_bytes
    if place.offset_bytes < 0 or end > program.arena_bytes:
        raise DeviceError(
            f"the {name} lies at bytes {place.offset_bytes} to {end} of an arena of "
            f"{program.arena_bytes}"
        )


def check_inputs(program: Program, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The inputs in the order of the program's ports, each dense in memory.

    Shape and element type must be exactly the port's: a silent conversion would hide a mistake.
    Of a program with an open dimension the inputs say its size (`sizes.size_of_inputs`).
    """
    names = [port.name for port in program.inputs]
    if program.length is not None and program.length.name in names:
        inputs = padded(program.length, inputs)
    if program.sizes is not None and {*program.sizes.added} <= {*names}:
        inputs = padded_to_largest(program.sizes, inputs)
    for name in inputs:
        if name not in names:
            near = nearest(name, names)
            raise InputError(
                f"the program has no input `{name}`; its inputs are {', '.join(names) or 'none'}",
                hint=f"`{near[0]}`" if near else "",
            )
    size = size_of_inputs(program, inputs)
    return [_check_input(port, inputs, shape_at(port, size)) for port in program.inputs]


def _check_input(
    port: Port, inputs: Mapping[str, np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    expected = f"{port.element_type} of shape {shape}"
    if port.name not in inputs:
        raise InputError(f"input `{port.name}` is missing: expected {expected}")
    array = inputs[port.name]
    if not isinstance(array, np.ndarray):
        raise InputError(
            f"input `{port.name}`: expected an array, {expected}, got a {type(array).__name__}",
            hint=f"numpy.asarray(value, dtype={port.element_type!r})",
        )
    dtype = np.dtype(port.element_type)
    if array.shape != shape or array.dtype != dtype:
        # The byte order is named only where it is the difference.
        got = array.dtype.str if array.dtype.name == dtype.name else array.dtype.name
        hint = f"array.astype({port.element_type!r})" if array.shape == shape else ""
        raise InputError(
            f"input `{port.name}`: expected {expected}, "
            f"got {got if array.dtype != dtype else array.dtype.name} of shape {array.shape}",
            hint=hint,
        )
    return np.asarray(array, order="C")  # np.ascontiguousarray would give a scalar an axis


def check_fed(tap: Tap, array: np.ndarray) -> np.ndarray:
    """A value to feed in the form of its buffer, dense in memory."""
    if array.shape != tap.shape or array.dtype != np.dtype(tap.element_type):
        raise InputError(
            f"the value fed to `{tap.operation}` must be {tap.element_type} of shape {tap.shape}, "
            f"got {array.dtype.name} of shape {array.shape}"
        )
    return np.ascontiguousarray(array)


def check_weights(program: Program, weights: bytes | np.ndarray) -> np.ndarray:
    """The weights as a flat array of bytes, without a copy where they are dense."""
    if isinstance(weights, np.ndarray):
        flat = np.ascontiguousarray(weights).reshape(-1).view(np.uint8)
    else:
        flat = np.frombuffer(weights, dtype=np.uint8)
    if flat.nbytes != program.weights_bytes:
        raise InputError(
            f"weights: expected one block of {program.weights_bytes} bytes, got {flat.nbytes}"
        )
    return flat


def check_repeats(repeats: int) -> None:
    if repeats < 1:
        raise InputError(f"repeats: expected 1 or more, got {repeats}")
