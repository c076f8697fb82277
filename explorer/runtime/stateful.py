"""A stateful program: states go from each run to the next without the caller.

    with StatefulProgram(executable, model.states) as program:
        program.run({"frame": first})             {"score": array}
        program.run({"frame": second})            goes on with what the first run has left
        program.state()                           {"h": array}
        other = program.fork()                    goes on from here by itself
        program.load({"h": array})                the next run finds this
        program.reset()                           the states are again what they were at first

States with a capacity are as long as what is valid of them, for the caller; how much that is, the
program knows: a call adds its rows.

Where the program is in this process states never become arrays: one that the program writes where
it lies stays in the arena, and the others are kept next to it. Forks share the program and its
arena; when another one's turn comes, its states take the place of those that lie there.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from explorer.closing import Closing
from explorer.errors import DeviceError, InputError
from explorer.importers.model import State
from explorer.ir.padding import check_masks, check_rows, common_rows, cut, filled, valid_part
from explorer.ir.sizes.symbols import parse
from explorer.renamed import warn_renamed
from explorer.results.program import Port, Program, ValidLength
from explorer.results.runs.events import ProfileRecord
from explorer.runtime.executable import Arrays, Executable, TapKey, Taps, check_inputs
from explorer.runtime.growing import with_length
from explorer.runtime.native.direct import DirectCalls


def with_states(executable: Executable, states: Sequence[State]) -> Executable:
    """The program with its states inside; as it is where it has none."""
    return StatefulProgram(executable, states) if states else executable


@runtime_checkable
class Binding(Protocol):
    """A program that may keep its states in its arena."""

    def bind(self, program: Program, kept: Sequence[tuple[Port, Port]]) -> DirectCalls | None: ...


@dataclass(eq=False)
class _Shared:
    """What a program and its forks have in common."""

    executable: Executable
    program: Program
    """Without the ports of states."""
    ports: list[tuple[Port, Port]]
    first: list[np.ndarray]
    """The states at first, in the order of the ports."""
    calls: DirectCalls | None
    length: ValidLength | None
    lock: threading.Lock = field(default_factory=threading.Lock)
    lying: StatefulProgram | None = None
    """Whose states lie in the arena."""
    users: int = 0


class StatefulProgram(Closing):
    """An `Executable` whose inputs and outputs are those that are no states; the last of its forks
    that is closed closes the one that it is made of."""

    def __init__(self, executable: Executable, states: Sequence[State]) -> None:
        """InputError where a state is no input and output of the program, of one shape and type,
        has an open size, or where two states share one of them."""
        shared = _share(executable, states)
        self._begin(shared, shared.first, 0)

    def _begin(self, shared: _Shared, states: Sequence[np.ndarray], rows: int) -> None:
        self._shared = shared
        self._rows = rows
        """Of states with a capacity, how many are valid."""
        self._held = list(states)
        """The states, where they do not lie in the arena; nobody writes into these arrays."""
        self._is_closed = False
        shared.users += 1
        self.program = shared.program

    # -- states ----------------------------------------------------------------------------------
    def state(self) -> Arrays:
        """What is remembered now, by the names of the inputs."""
        with self._shared.lock:
            self._check_open()
            return self._cut(self._now())

    def reset(self) -> None:
        """Goes back to what the model remembers at first. InputError while a call runs."""
        with self._between_calls("reset"):
            self._take(self._shared.first, 0)

    def load(self, states: Mapping[str, np.ndarray]) -> None:
        """The next run goes on from these, by the names of the inputs: all states.

        InputError for what is no state, lacks or has another type or shape, and while a call runs:
        then the states stay as they are.
        """
        whole, rows = self._filled(states)
        ports = replace(self.program, inputs=tuple(port for port, _ in self._shared.ports))
        arrays = check_inputs(ports, whole)
        with self._between_calls("load"):
            self._take([array.copy() for array in arrays], rows)

    def fork(self) -> StatefulProgram:
        """Another program with these states, which goes on by itself. Its memory is that of its
        states; InputError while a call runs."""
        with self._between_calls("fork"):
            made = StatefulProgram.__new__(StatefulProgram)
            now = self._now()
            held = [now[port.name] for port, _ in self._shared.ports]
            made._begin(self._shared, held, self._rows)
            return made

    @property
    def valid_rows(self) -> int:
        """Of states with a capacity, how many rows are valid."""
        return self._rows

    @property
    def states(self) -> Arrays:
        """As `state()`."""
        return self.state()

    def restart(self, states: Mapping[str, np.ndarray] | None = None) -> None:
        """The former name of `reset`, and of `load` where states are given."""
        warn_renamed("restart", "reset" if states is None else "load")
        if states is None:
            self.reset()
        else:
            self.load(states)

    @property
    def copied_bytes(self) -> int:
        """Bytes of states that a call copies in this process."""
        if self._shared.calls is not None:
            return self._shared.calls.copied_bytes
        return 2 * sum(port.size_bytes for port, _ in self._shared.ports)

    # -- runs ------------------------------------------------------------------------------------
    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with self._shared.lock:
            self._check_open()
            calls = self._shared.calls
            if calls is None:
                return self._kept(self._shared.executable.run(self._all(inputs)))
            given = self._with_length(inputs)
            if self._shared.lying is not self:
                self._lie_down(calls)
            return self._after(calls.run(given))

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        with self._apart():
            outputs, taps = self._shared.executable.run_with_taps(self._all(inputs), fed)
            return self._kept(outputs), taps

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        """Every repeat begins with the present states, which stay."""
        with self._apart():
            return self._shared.executable.profile(self._all(inputs), repeats)

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        """As `profile`."""
        with self._apart():
            return self._shared.executable.time(self._all(inputs), repeats)

    def close(self) -> None:
        with self._shared.lock:
            if self._is_closed:
                return
            self._pick_up()
            self._is_closed = True
            self._shared.users -= 1
            if not self._shared.users:
                self._shared.calls = None
                self._shared.executable.close()

    # -- where the states are --------------------------------------------------------------------
    def _check_open(self) -> None:
        if self._is_closed:
            raise DeviceError("the program was closed", hint="build it again")

    @contextmanager
    def _between_calls(self, what: str) -> Iterator[None]:
        if not self._shared.lock.acquire(blocking=False):
            raise InputError(
                f"a call of the program runs: {what} would change its states in between",
                hint="wait for the call",
            )
        try:
            self._check_open()
            yield
        finally:
            self._shared.lock.release()

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """With the states as arrays, while the arena is used in another way."""
        with self._shared.lock:
            self._check_open()
            if self._shared.lying is not None:
                self._shared.lying._pick_up()
            yield

    def _take(self, states: Sequence[np.ndarray], rows: int) -> None:
        if self._shared.lying is self:
            self._shared.lying = None
        self._held, self._rows = list(states), rows

    def _lie_down(self, calls: DirectCalls) -> None:
        """Puts the states into the arena, and takes out those that lie there."""
        if self._shared.lying is not None:
            self._shared.lying._pick_up()
        calls.load_states([array.reshape(-1).view(np.uint8) for array in self._held])
        self._shared.lying, self._held = self, []

    def _pick_up(self) -> None:
        """Takes the states out of the arena, if they lie there."""
        if self._shared.lying is self:
            self._held = self._arrays()
            self._shared.lying = None

    def _arrays(self) -> list[np.ndarray]:
        calls = self._shared.calls
        if calls is None or self._shared.lying is not self:
            return self._held
        return [
            content.view(port.element_type).reshape(port.shape)
            for (port, _), content in zip(self._shared.ports, calls.states(), strict=True)
        ]

    def _now(self) -> Arrays:
        names = [port.name for port, _ in self._shared.ports]
        return {name: array.copy() for name, array in zip(names, self._arrays(), strict=True)}

    def _all(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """The caller's inputs and the states."""
        given = self._with_length(inputs)
        if self._shared.length is None and self.program.sizes is None:
            arrays = check_inputs(self.program, given)
            names = [port.name for port in self.program.inputs]
            given = dict(zip(names, arrays, strict=True))
        return {**given, **self._now()}

    def _kept(self, outputs: Arrays) -> Arrays:
        """The caller's outputs; the others are held for the next run."""
        self._held = [outputs.pop(port.name) for _, port in self._shared.ports]
        return self._after(outputs)

    # -- the valid length ------------------------------------------------------------------------
    def _with_length(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The inputs with the valid length, and with the capacity where they grow with it."""
        length = self._shared.length
        if length is None:
            return inputs
        if length.name in inputs:
            raise InputError(f"the program knows `{length.name}` itself: {self._rows} rows")
        check_rows(length, self._rows)
        found = {**inputs, length.name: np.array(self._rows, np.int64)}
        states = {port.name for port, _ in self._shared.ports}
        for value in length.inputs:
            array = inputs.get(value.name)
            if value.name in states or not isinstance(array, np.ndarray):
                continue
            valid = self._rows + value.more
            if array.ndim > value.axis and array.shape[value.axis] == valid != length.capacity:
                found |= filled(array, value, length.capacity)
        check_masks(length, inputs, self._rows)
        return found

    def _after(self, outputs: Arrays) -> Arrays:
        """The outputs of a call, which has added its rows."""
        length = self._shared.length
        if length is None:
            return outputs
        self._rows += length.rows
        return cut(length, outputs, self._rows - length.rows)

    def _cut(self, states: Arrays) -> Arrays:
        """The valid part of every state."""
        length = self._shared.length
        if length is None:
            return states
        found = {name: array for name, array in states.items() if name not in length.scales}
        for value in length.inputs:
            if value.name in found:
                found[value.name] = valid_part(states, value, self._rows)
        return found

    def _filled(self, states: Mapping[str, np.ndarray]) -> tuple[Mapping[str, np.ndarray], int]:
        """States with their capacity, and how much of them is valid."""
        length = self._shared.length
        if length is None:
            return states, 0
        rows = common_rows(length, states)
        if rows > length.capacity:
            raise InputError(f"{rows} rows are valid; the capacity is {length.capacity}")
        by_name = {value.name: value for value in length.inputs}
        whole: Arrays = {}
        for name, array in states.items():
            known = by_name.get(name)
            whole |= {name: array} if known is None else filled(array, known, length.capacity)
        return whole, rows


def _share(executable: Executable, states: Sequence[State]) -> _Shared:
    whole = executable.program
    states = [*states, *_scales_of(whole, states)]
    ports = [_ports_of(whole, state) for state in states]
    for names in ({before.name for before, _ in ports}, {after.name for _, after in ports}):
        if len(names) < len(ports):
            raise InputError("two states are one memory: they have an input or output in common")
    taken, given = {s.input for s in states}, {s.output for s in states}
    _check_sizes(whole, taken | given)
    inner = replace(
        whole,
        length=None,
        inputs=tuple(port for port in whole.inputs if port.name not in taken),
        outputs=tuple(port for port in whole.outputs if port.name not in given),
    )
    length = whole.length
    program = inner
    if length is not None:
        kept = tuple(port for port in inner.inputs if port.name != length.name)
        program = replace(inner, inputs=kept)
    first = check_inputs(
        replace(inner, inputs=tuple(port for port, _ in ports)),
        {
            port.name: np.zeros(port.shape, port.element_type)
            if state.initial is None
            else state.initial
            for (port, _), state in zip(ports, states, strict=True)
        },
    )
    calls = None
    if isinstance(executable, Binding) and whole.size is None:
        calls = executable.bind(inner, ports)
    if calls is None and whole.sizes is not None:
        executable = with_length(executable)
    return _Shared(
        executable=executable,
        program=program,
        ports=ports,
        first=[array.copy() for array in first],
        calls=calls,
        length=length,
    )


def _scales_of(program: Program, states: Sequence[State]) -> list[State]:
    """The states that hold the scales of other states' rows."""
    length = program.length
    if length is None:
        return []
    names = {value.name: value.scale for value in (*length.inputs, *length.outputs)}
    pairs = [(names.get(state.input), names.get(state.output)) for state in states]
    return [State(before, after) for before, after in pairs if before and after]


def _check_sizes(program: Program, states: Collection[str]) -> None:
    """InputError for a state that is larger in some calls than in others."""
    sizes = program.sizes
    for axis in () if sizes is None else (*sizes.inputs, *sizes.outputs):
        if axis.name in states:
            names = dict.fromkeys(name for _, text in axis.factors for name in parse(text).names)
            raise InputError(
                f"the state `{axis.name}` has an open size: its axis {axis.axis} is "
                f"{'*'.join(text for _, text in axis.factors)}",
                node=axis.name,
                hint="give one size: " + " ".join(f"--dim {name}=SIZE" for name in names),
            )


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
