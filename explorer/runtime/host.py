"""A part of a program that the host runs: by the NumPy meaning of its operations, as an Executable.

    part = HostProgram(program, host)
    part.run({"x": array})                     interpreted
    part = HostProgram(program, host, compile_for)
    part.run({"x": array}); part.run({"x": array})     the second time compiled for these sizes

What is worth compiling, but has sizes that only a run tells, is compiled for the sizes that come
again, and so are bodies of loops and branches by themselves (`sized.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from explorer.closing import Closing
from explorer.errors import DeviceError, InputError
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.operation import identity_of
from explorer.ir.origins import sources_of
from explorer.ir.structure import HOST
from explorer.results.program import Program
from explorer.results.runs.events import ProfileRecord, TimedEvent
from explorer.runtime.executable import Arrays, TapKey, Taps, check_repeats
from explorer.runtime.profiles import median_intervals
from explorer.runtime.sized import (
    HOT_AFTER,
    CompileFor,
    RegionPrograms,
    SizedPrograms,
    Sizes,
    named,
)


class HostProgram(Closing):
    """An `Executable` of a function of the host. It runs in this process."""

    def __init__(
        self, program: Program, host: HostFunction, compile_for: CompileFor | None = None
    ) -> None:
        self.program = program
        self._host = host
        self._sized = (
            SizedPrograms(host, compile_for, HOT_AFTER)
            if compile_for is not None and host.compiled_for
            else None
        )
        has_regions = any(op.regions for op in host.operations)
        self.regions = RegionPrograms(host, compile_for) if compile_for and has_regions else None
        """Of loops and branches; None where there are none, or nothing compiles."""
        self._is_closed = False

    @property
    def refused(self) -> Mapping[Sizes, str]:
        """Why it cannot be compiled for certain sizes."""
        return {} if self._sized is None else self._sized.refused

    @property
    def compiled_sizes(self) -> tuple[Sizes, ...]:
        """For which sizes of its inputs there is a program, the last used last."""
        return () if self._sized is None else tuple(self._sized.compiled)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        arguments = self._arguments(inputs)
        made = None if self._sized is None else self._sized.run(arguments)
        return self._outputs(self._evaluate(arguments) if made is None else made, arguments)

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        """Always interpreted, so that every value is there to be read and replaced."""
        arguments = self._arguments(inputs)
        replaced = {_value(key): array for key, array in (fed or {}).items()}
        made, values = self._host.evaluate(arguments, replaced)
        taps = {
            (tap.operation, tap.result): values[_value((tap.operation, tap.result))]
            for tap in self.program.taps
        }
        return self._outputs(made, arguments), taps

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        """Median times of every operation, or of every launch where it is compiled."""
        check_repeats(repeats)
        arguments = self._arguments(inputs)
        for _ in range(HOT_AFTER if self._sized else 0):
            compiled = self._sized.find(arguments) if self._sized else None
            if compiled is not None:
                return compiled.profile(named(compiled.program, arguments), repeats)
        tables = [self._times(arguments) for _ in range(repeats + 1)][1:]
        intervals = median_intervals(tables, len(self._host.operations))
        events = tuple(
            TimedEvent((*sources_of(op), identity_of(op))[0], identity_of(op), "", HOST, *interval)
            for op, interval in zip(self._host.operations, intervals, strict=True)
        )
        total = float(np.median([table[-1] for table in tables])) if events else 0.0
        return ProfileRecord(
            device="host", threads=1, repeats=repeats, milliseconds=total / 1e6, events=events
        )

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        check_repeats(repeats)
        self.run(inputs)
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            self.run(inputs)
            seconds.append(time.perf_counter() - begin)
        return seconds

    def close(self) -> None:
        self._is_closed = True
        for programs in (self._sized, self.regions):
            if programs is not None:
                programs.close()

    def _evaluate(
        self, arguments: Sequence[np.ndarray], after: Callable[[Operation], None] | None = None
    ) -> list[np.ndarray]:
        run_region = None if self.regions is None else self.regions.run
        return self._host.evaluate(arguments, after=after, run_region=run_region)[0]

    # -- arrays ----------------------------------------------------------------------------------
    def _arguments(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        if self._is_closed:
            raise DeviceError("the program was closed", hint="build it again")
        missing = [port.name for port in self.program.inputs if port.name not in inputs]
        if missing:
            raise InputError(f"input `{missing[0]}` is missing")
        return [np.asarray(inputs[port.name]) for port in self.program.inputs]

    def _outputs(self, made: Sequence[np.ndarray], arguments: Sequence[np.ndarray]) -> Arrays:
        """What the host made, by name, in memory of its own."""
        own = list(arguments)
        outputs: Arrays = {}
        for port, array in zip(self.program.outputs, made, strict=True):
            is_shared = any(np.may_share_memory(array, other) for other in own)
            outputs[port.name] = (
                np.array(array, order="C") if is_shared else np.asarray(array, order="C")
            )
            own.append(outputs[port.name])
        return outputs

    def _times(self, arguments: Sequence[np.ndarray]) -> list[int]:
        """Start and end of every operation in turn, in nanoseconds from the start."""
        begin = last = time.perf_counter_ns()
        ends: dict[Operation, tuple[int, int]] = {}

        def note(op: Operation) -> None:
            nonlocal last
            now = time.perf_counter_ns()
            ends[op] = (last - begin, now - begin)
            last = now

        self._evaluate(arguments, note)
        return [number for op in self._host.operations for number in ends[op]]


def _value(key: TapKey) -> str:
    """The name that a tapped value has in the IR."""
    operation, result = key
    return f"{operation}.{result}" if result else operation
