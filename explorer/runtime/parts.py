"""A program of several parts: each is opened where it runs, and values go from one to the next.

    with open_parts(built, open_part) as executable:
        outputs = executable.run({"images": images})

Parts run one after the other, each on the values that those before it made. What is timed is timed
part by part.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from explorer.results.events import ProfileRecord
from explorer.results.program import Program
from explorer.runtime.executable import (
    Arrays,
    Executable,
    TapKey,
    Taps,
    check_inputs,
    check_repeats,
)

if TYPE_CHECKING:
    from explorer.kernels.program import BuiltProgram


class OpenPart(Protocol):
    """A part that can be run, given its inputs in order, as `Executable` is by name."""

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]: ...

    def run_with_taps(
        self, inputs: Sequence[np.ndarray], fed: Mapping[TapKey, np.ndarray]
    ) -> tuple[list[np.ndarray], Taps]: ...

    def profile(self, inputs: Sequence[np.ndarray], repeats: int) -> ProfileRecord: ...

    def time(self, inputs: Sequence[np.ndarray], repeats: int) -> list[float]: ...

    def close(self) -> None: ...


class DevicePart:
    """A part on a device: an executable whose ports are taken in order."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        program = executable.program
        self._inputs = [port.name for port in program.inputs]
        self._outputs = [port.name for port in program.outputs]
        self._taps = {(tap.operation, tap.result) for tap in program.taps}

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = self._executable.run(self._named(inputs))
        return [found[name] for name in self._outputs]

    def run_with_taps(
        self, inputs: Sequence[np.ndarray], fed: Mapping[TapKey, np.ndarray]
    ) -> tuple[list[np.ndarray], Taps]:
        own = {key: array for key, array in fed.items() if key in self._taps}
        found, taps = self._executable.run_with_taps(self._named(inputs), own or None)
        return [found[name] for name in self._outputs], taps

    def profile(self, inputs: Sequence[np.ndarray], repeats: int) -> ProfileRecord:
        return self._executable.profile(self._named(inputs), repeats)

    def time(self, inputs: Sequence[np.ndarray], repeats: int) -> list[float]:
        return self._executable.time(self._named(inputs), repeats)

    def close(self) -> None:
        self._executable.close()

    def _named(self, inputs: Sequence[np.ndarray]) -> Arrays:
        return dict(zip(self._inputs, inputs, strict=True))


def open_parts(
    built: BuiltProgram,
    open_part: Callable[[BuiltProgram], Executable],
    others: Mapping[str, OpenPart] | None = None,
) -> Executable:
    """The program where it runs; `open_part` opens what belongs to one device.

    others: parts that run nowhere else than here, by function, which are open already.
    """
    if not built.program.parts:
        return open_part(built)
    opened: dict[str, OpenPart] = dict(others or {})
    with contextlib.ExitStack() as stack:
        for function, part in built.parts.items():
            opened[function] = DevicePart(stack.enter_context(open_part(part)))
        stack.pop_all()  # the program closes them from here on
    return PartsProgram(built.program, opened)


class PartsProgram:
    """An `Executable` of a program with parts; it closes those that it is made of."""

    def __init__(self, program: Program, parts: Mapping[str, OpenPart]) -> None:
        """`parts`: by their functions' names."""
        self.program = program
        self._parts = dict(parts)
        self._lock = threading.Lock()

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with self._lock:
            return self._through(inputs, lambda part, given: part.run(given))

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        taps: Taps = {}

        def run(part: OpenPart, given: list[np.ndarray]) -> list[np.ndarray]:
            found, tapped = part.run_with_taps(given, fed or {})
            taps.update(tapped)
            return found

        with self._lock:
            return self._through(inputs, run), taps

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        """The parts one after the other: each begins where the one before it has ended."""
        check_repeats(repeats)
        records: list[ProfileRecord] = []

        def run(part: OpenPart, given: list[np.ndarray]) -> list[np.ndarray]:
            start_ns = max((e.end_ns for r in records for e in r.events), default=0)
            record = part.profile(given, repeats)
            events = [
                replace(e, start_ns=e.start_ns + start_ns, end_ns=e.end_ns + start_ns)
                for e in record.events
            ]
            records.append(replace(record, events=tuple(events)))
            return part.run(given)

        with self._lock:
            self._through(inputs, run)
        return ProfileRecord(
            ", ".join(dict.fromkeys(record.device for record in records)),
            max((record.threads for record in records), default=1),
            repeats,
            sum(record.milliseconds for record in records),
            tuple(event for record in records for event in record.events),
        )

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        check_repeats(repeats)
        measured: list[list[float]] = []

        def run(part: OpenPart, given: list[np.ndarray]) -> list[np.ndarray]:
            measured.append(part.time(given, repeats))
            return part.run(given)

        with self._lock:
            self._through(inputs, run)
        return [sum(seconds) for seconds in zip(*measured, strict=True)]

    def close(self) -> None:
        with contextlib.ExitStack() as stack:  # all are closed, also where one of them fails
            for part in self._parts.values():
                stack.callback(part.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _through(
        self,
        inputs: Mapping[str, np.ndarray],
        run: Callable[[OpenPart, list[np.ndarray]], list[np.ndarray]],
    ) -> Arrays:
        """The outputs, after every part was run on what it reads."""
        arrays = check_inputs(self.program, inputs)
        ports = self.program.inputs
        values = {port.name: array for port, array in zip(ports, arrays, strict=True)}
        for part in self.program.parts:
            found = run(self._parts[part.function], [values[name] for name in part.inputs])
            values.update(zip(part.outputs, found, strict=True))
        results = zip(self.program.outputs, self.program.results, strict=True)
        return {port.name: values[name] for port, name in results}
