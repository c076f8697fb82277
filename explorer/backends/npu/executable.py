"""A program of instructions that is open: the simulator runs it, in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from explorer.backends.npu.network import Network
from explorer.backends.npu.timeline import events_of
from explorer.closing import Closing
from explorer.errors import DeviceError
from explorer.results.program import Program
from explorer.results.runs.events import ProfileRecord
from explorer.runtime.executable import (
    Arrays,
    TapKey,
    Taps,
    check_fed,
    check_inputs,
    check_repeats,
)
from explorer.runtime.npu import Simulation

USUAL_CLOCK_HZ = 1e9
"""Of a target that says none."""


class NpuProgram(Closing):
    """An `Executable`. Times are those of the machine: its cycles at its clock."""

    def __init__(
        self,
        program: Program,
        network: Network,
        device: str,
        clock_hz: float | None,
        time_limit_seconds: float,
    ) -> None:
        self.program, self.network = program, network
        self._device, self._clock_hz = device, clock_hz or USUAL_CLOCK_HZ
        self._seconds = time_limit_seconds
        self._lock = threading.Lock()
        self._is_closed = False
        self.simulation: Simulation | None = None
        """Of the last whole run."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with self._lock:
            return self._outputs(self._run(inputs, has_taps=False))

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        with self._lock:
            if fed is None:
                values = self._run(inputs, has_taps=True)
                return self._outputs(values), self._taps(values)
            taps = {(tap.operation, tap.result): tap for tap in self.program.taps}
            names = {section.operation: section.writes for section in self.network.sections}
            replaced = {names[k[0]]: check_fed(taps[k], array) for k, array in fed.items()}
            given = self._given(inputs)
            values = self.network.run_by_layers(given, replaced, self._seconds)
            # What is returned is what whoever reads it is fed with, as everywhere.
            return self._outputs({**values, **replaced}), self._taps(values)

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        """Every run takes the same cycles: there is one, whatever `repeats` says."""
        check_repeats(repeats)
        with self._lock:
            self._run(inputs, has_taps=False)
            assert self.simulation is not None
            return ProfileRecord(
                device=self._device,
                threads=1,
                repeats=1,
                milliseconds=self.simulation.cycles / self._clock_hz * 1e3,
                events=events_of(self.network, self.simulation, self._clock_hz),
            )

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        check_repeats(repeats)
        with self._lock:
            self._run(inputs, has_taps=False)
            assert self.simulation is not None
            return [self.simulation.cycles / self._clock_hz] * repeats

    def close(self) -> None:
        self._is_closed = True

    def _given(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        if self._is_closed:
            raise DeviceError("the program was closed", hint="build it again")
        return check_inputs(self.program, inputs)

    def _run(self, inputs: Mapping[str, np.ndarray], has_taps: bool) -> dict[str, np.ndarray]:
        values, self.simulation = self.network.run(self._given(inputs), has_taps, self._seconds)
        return values

    def _outputs(self, values: Mapping[str, np.ndarray]) -> Arrays:
        pairs = zip(self.program.outputs, self.network.results, strict=True)
        return {port.name: np.ascontiguousarray(values[value]) for port, value in pairs}

    def _taps(self, values: Mapping[str, np.ndarray]) -> Taps:
        return {(s.operation, 0): values[s.writes] for s in self.network.sections}
