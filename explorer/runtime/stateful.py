"""A stateful program: states go from each run to the next without the caller.

    with StatefulProgram(executable, model.states) as program:
        program.run({"frame": first})             {"score": array}
        program.run({"frame": second})            goes on with what the first run has left
        program.restart()                         the states are again what they were at first

Where the program is in this process states never become arrays: their bytes are kept beside the
arena, whose plan may reuse the places of inputs, and are put back before the next run.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from explorer.closing import Closing
from explorer.errors import InputError
from explorer.importers.model import State
from explorer.results.program import Port, Program
from explorer.results.runs.events import ProfileRecord
from explorer.runtime.executable import Arrays, Executable, TapKey, Taps, check_inputs
from explorer.runtime.native.program import NativeProgram


def with_states(executable: Executable, states: Sequence[State]) -> Executable:
    """The program with its states inside; as it is where it has none."""
    return StatefulProgram(executable, states) if states else executable


class StatefulProgram(Closing):
    """An `Executable` whose inputs and outputs are those that are no states; it closes the one that
    it is made of."""

    def __init__(self, executable: Executable, states: Sequence[State]) -> None:
        """InputError where a state is no input and output of the program, of one shape and type."""
        whole = executable.program
        self._states = tuple(states)
        self._ports = [_ports_of(whole, state) for state in self._states]
        taken, given = {s.input for s in self._states}, {s.output for s in self._states}
        self.program = replace(
            whole,
            inputs=tuple(port for port in whole.inputs if port.name not in taken),
            outputs=tuple(port for port in whole.outputs if port.name not in given),
        )
        self._executable = executable
        self._lock = threading.Lock()
        self._calls = None
        if isinstance(executable, NativeProgram) and not executable.isolated and whole.size is None:
            self._calls = executable.bind(self.program, self._ports)
        self._held: Arrays = {}
        self.restart()

    @property
    def states(self) -> Arrays:
        """What is remembered now, by the names of the inputs."""
        with self._lock:
            return self._now()

    def restart(self, states: Mapping[str, np.ndarray] | None = None) -> None:
        """Goes back to what the model remembers at first, or to these states."""
        first = {state.input: state.initial for state in self._states}
        given = first if states is None else states
        arrays = check_inputs(replace(self.program, inputs=tuple(i for i, _ in self._ports)), given)
        with self._lock:
            if self._calls is not None:
                self._calls.kept = [array.tobytes() for array in arrays]
            else:
                names = [port.name for port, _ in self._ports]
                self._held = {n: a.copy() for n, a in zip(names, arrays, strict=True)}

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with self._lock:
            if self._calls is not None:
                return self._calls.run(inputs)
            return self._kept(self._executable.run(self._all(inputs)))

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        with self._lock:
            outputs, taps = self._executable.run_with_taps(self._all(inputs), fed)
            return self._kept(outputs), taps

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        """Every repeat begins with the present states, which stay."""
        with self._lock:
            return self._executable.profile(self._all(inputs), repeats)

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        """As `profile`."""
        with self._lock:
            return self._executable.time(self._all(inputs), repeats)

    def close(self) -> None:
        with self._lock:
            self._held = self._now()
            self._calls = None
            self._executable.close()

    # -- states ----------------------------------------------------------------------------------
    def _now(self) -> Arrays:
        if self._calls is None:
            return dict(self._held)
        return {
            port.name: np.frombuffer(content, port.element_type).reshape(port.shape).copy()
            for (port, _), content in zip(self._ports, self._calls.kept, strict=True)
        }

    def _all(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """The caller's inputs and the states."""
        arrays = check_inputs(self.program, inputs)
        names = [port.name for port in self.program.inputs]
        return {**dict(zip(names, arrays, strict=True)), **self._now()}

    def _kept(self, outputs: Arrays) -> Arrays:
        """The caller's outputs; the others are held for the next run."""
        held = {state.input: outputs.pop(state.output) for state in self._states}
        if self._calls is None:
            self._held = held
        else:
            self._calls.kept = [held[port.name].tobytes() for port, _ in self._ports]
        return outputs


def _ports_of(program: Program, state: State) -> tuple[Port, Port]:
    inputs = {port.name: port for port in program.inputs}
    outputs = {port.name: port for port in program.outputs}
    before, after = inputs.get(state.input), outputs.get(state.output)
    if before is None or after is None:
        raise InputError(f"the program has no state `{state.input}`, `{state.output}`")
    if (before.element_type, before.shape) != (after.element_type, after.shape):
        raise InputError(
            f"the state `{state.input}` is {before.element_type} {before.shape}, and what a run "
            f"leaves of it {after.element_type} {after.shape}"
        )
    return before, after
