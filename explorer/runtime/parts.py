"""A program of several parts: each is opened on its device, and values go from one to the next.

    with PartsProgram(program, {"main_cpu": first, "main_cpu_2": second}) as executable:
        outputs = executable.run({"images": images})

A part is called with its own inputs as soon as all of them are there. Parts that do not
wait for one another run at once where they are on different devices. What is timed is timed part by
part. Where a device fails, the call ends with its name and the cause.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from explorer.closing import Closing
from explorer.errors import DeviceError
from explorer.results.program import HOST, Program, ProgramPart
from explorer.results.runs.events import ProfileRecord, ThreadShare, TimedEvent
from explorer.runtime.executable import (
    Arrays,
    Executable,
    TapKey,
    Taps,
    check_inputs,
    check_repeats,
)
from explorer.runtime.host import CompileFor, HostProgram

if TYPE_CHECKING:
    from explorer.kernels.program.build import BuiltProgram

Timed = TypeVar("Timed", TimedEvent, ThreadShare)


def open_parts(
    built: BuiltProgram,
    open_part: Callable[[BuiltProgram], Executable],
    compile_for: CompileFor | None = None,
) -> Executable:
    """The program on its devices; `open_part` opens what belongs to one of them.

    `compile_for` compiles what the host would interpret when its sizes are known.
    """
    if not built.parts:
        return open_part(built)
    with contextlib.ExitStack() as stack:
        opened: dict[str, Executable] = {}
        for function, part in built.parts.items():
            executable = (
                open_part(part)
                if part.host is None
                else HostProgram(part.program, part.host, compile_for)
            )
            opened[function] = stack.enter_context(executable)
        stack.pop_all()  # the program closes them from here on
    return PartsProgram(built.program, opened)


@dataclass(frozen=True)
class PartRun:
    """What went into a part, and what came out of it."""

    function: str
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class RunByPart:
    outputs: Arrays
    """The program's, by name."""
    parts: tuple[PartRun, ...]
    """In the order in which they ran."""


class PartsProgram(Closing):
    """An `Executable` of a program with parts; it closes those that it is made of."""

    def __init__(self, program: Program, executables: Mapping[str, Executable]) -> None:
        """`executables`: of every part by its function's name."""
        self.program = program
        self.executables = dict(executables)
        self._lock = threading.Lock()
        devices = {part.device for part in program.parts if part.device != HOST}
        self._threads = (
            ThreadPoolExecutor(len(devices), "part") if runs_at_once(program.parts) else None
        )

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with self._lock:
            values = self._checked(inputs)
            if self._threads is not None:
                self._run_at_once(values, self._threads)
                return self._outputs(values)
            for part in self.program.parts:
                self._take(part, self._run_part(part, self._given(part, values)), values)
            return self._outputs(values)

    def run_by_part(self, inputs: Mapping[str, np.ndarray]) -> RunByPart:
        """The same with the inputs and outputs of every part, in the order of its ports."""
        with self._lock:
            values = self._checked(inputs)
            steps: list[PartRun] = []
            for part in self.program.parts:
                found = self.executables[part.function].run(self._given(part, values))
                self._take(part, found, values)
                given = tuple(values[name] for name in part.inputs)
                made = tuple(values[name] for name in part.outputs)
                steps.append(PartRun(part.function, given, made))
            return RunByPart(self._outputs(values), tuple(steps))

    def _run_part(self, part: ProgramPart, given: Arrays) -> Mapping[str, np.ndarray]:
        """DeviceError with the device's name where it fails."""
        try:
            return self.executables[part.function].run(given)
        except DeviceError as error:
            raise DeviceError(
                f"{part.device} failed in {part.function}: {error.message}", hint=error.hint
            ) from error

    def _run_at_once(self, values: Arrays, threads: ThreadPoolExecutor) -> None:
        """Starts every part when its inputs are there and its device is free, in their order."""
        waiting = list(self.program.parts)
        running: dict[Future[Mapping[str, np.ndarray]], ProgramPart] = {}
        try:
            while waiting or running:
                busy = {part.device for part in running.values()}
                for part in list(waiting):
                    if part.device in busy or any(name not in values for name in part.inputs):
                        continue
                    busy.add(part.device)
                    waiting.remove(part)
                    given = self._given(part, values)
                    running[threads.submit(self._run_part, part, given)] = part
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(running.pop(future), future.result(), values)
        finally:
            wait(running)  # nothing works on when the call has ended

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        with self._lock:
            values = self._checked(inputs)
            taps: Taps = {}
            for part in self.program.parts:
                executable = self.executables[part.function]
                own = {(tap.operation, tap.result) for tap in executable.program.taps}
                given = {key: array for key, array in (fed or {}).items() if key in own}
                found, tapped = executable.run_with_taps(self._given(part, values), given or None)
                self._take(part, found, values)
                taps |= tapped
            return self._outputs(values), taps

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        """The parts one after the other: each begins where the one before it has ended."""
        check_repeats(repeats)
        with self._lock:
            values = self._checked(inputs)
            records = []
            start_ns = start_cycle = 0
            for part in self.program.parts:
                executable, given = self.executables[part.function], self._given(part, values)
                record = _on_device(executable.profile(given, repeats), part.device)
                end_ns = max((event.end_ns for event in record.events), default=0)
                end_cycle = max((event.end_cycle for event in record.events), default=0)
                records.append(_later(record, start_ns, start_cycle))
                start_ns += end_ns
                start_cycle += end_cycle
                self._take(part, executable.run(given), values)
            return ProfileRecord(
                device=", ".join(dict.fromkeys(record.device for record in records)),
                threads=max((record.threads for record in records), default=1),
                repeats=repeats,
                milliseconds=sum(record.milliseconds for record in records),
                events=tuple(event for record in records for event in record.events),
                shares=tuple(share for record in records for share in record.shares),
            )

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        check_repeats(repeats)
        with self._lock:
            values = self._checked(inputs)
            seconds = [0.0] * repeats
            for part in self.program.parts:
                executable, given = self.executables[part.function], self._given(part, values)
                measured = executable.time(given, repeats)
                seconds = [total + own for total, own in zip(seconds, measured, strict=True)]
                self._take(part, executable.run(given), values)
            return seconds

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        with contextlib.ExitStack() as stack:  # all are closed, also where one of them fails
            for executable in self.executables.values():
                stack.callback(executable.close)

    # -- values between parts --------------------------------------------------------------------
    def _checked(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        arrays = check_inputs(self.program, inputs)
        names = [port.name for port in self.program.inputs]
        return dict(zip(names, arrays, strict=True))

    def _given(self, part: ProgramPart, values: Mapping[str, np.ndarray]) -> Arrays:
        ports = self.executables[part.function].program.inputs
        return {p.name: values[value] for p, value in zip(ports, part.inputs, strict=True)}

    def _take(self, part: ProgramPart, found: Mapping[str, np.ndarray], values: Arrays) -> None:
        ports = self.executables[part.function].program.outputs
        values |= {v: found[p.name] for p, v in zip(ports, part.outputs, strict=True)}

    def _outputs(self, values: Mapping[str, np.ndarray]) -> Arrays:
        pairs = zip(self.program.outputs, self.program.results, strict=True)
        return {port.name: values[value] for port, value in pairs}


def runs_at_once(parts: Sequence[ProgramPart]) -> bool:
    """Whether two parts on different devices do not wait for one another; the host interprets its
    parts in Python, which runs nothing in parallel."""
    before: list[set[str]] = []
    """Functions that each part waits for, directly or not."""
    made_by: dict[str, int] = {}
    for number, part in enumerate(parts):
        makers = [made_by[name] for name in part.inputs if name in made_by]
        waited = {parts[maker].function for maker in makers}
        before.append(waited.union(*(before[maker] for maker in makers)))
        for other in parts[:number]:
            is_apart = HOST not in (part.device, other.device) and part.device != other.device
            if is_apart and other.function not in before[number]:
                return True
        made_by |= dict.fromkeys(part.outputs, number)
    return False


def _on_device(record: ProfileRecord, device: str) -> ProfileRecord:
    """The same with lanes that begin with the device's name: several devices have a lane `cpu`.

    Queues of a machine whose cycles are counted, and the host's lane, keep their names.
    """
    lanes = list(dict.fromkeys(event.lane for event in record.events if not event.cycles))

    def named(event: TimedEvent) -> TimedEvent:
        if event.cycles or event.lane in (device, HOST):
            return event
        lane = device if len(lanes) == 1 else f"{device} {event.lane}"
        return replace(event, lane=lane)

    return replace(record, events=tuple(map(named, record.events)))


def _later(record: ProfileRecord, by_ns: int, by_cycles: int) -> ProfileRecord:
    """All that was timed, so much later; cycles, where they are counted."""

    def moved(timed: Timed) -> Timed:
        return replace(timed, start_ns=timed.start_ns + by_ns, end_ns=timed.end_ns + by_ns)

    def counted(event: TimedEvent) -> TimedEvent:
        first, last = event.start_cycle + by_cycles, event.end_cycle + by_cycles
        return replace(event, start_cycle=first, end_cycle=last) if event.cycles else event

    return replace(
        record,
        events=tuple(counted(moved(event)) for event in record.events),
        shares=tuple(map(moved, record.shares)),
    )
