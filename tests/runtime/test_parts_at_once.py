"""Parts of a program that run at once, and devices that fail."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from explorer.errors import DeviceError
from explorer.results.program import Port, Program, ProgramPart
from explorer.results.source import SourceText
from explorer.runtime.parts import PartsProgram, runs_at_once

TIMEOUT_SECONDS = 20


def port(name: str) -> Port:
    return Port(name=name, element_type="float32", shape=(2,), offset_bytes=0, size_bytes=8)


def program(inputs: str, outputs: str) -> Program:
    return Program(
        target="a",
        source=SourceText("c", (), ()),
        kernels=(),
        launches=(),
        inputs=tuple(map(port, inputs)),
        outputs=tuple(map(port, outputs)),
        taps=(),
        weights=(),
        arena_bytes=0,
        weights_bytes=0,
    )


def part(function: str, device: str, inputs: str, outputs: str) -> ProgramPart:
    return ProgramPart(
        function=function,
        device=device,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        program=program(inputs, outputs),
        reason="",
    )


class Adds:
    """An executable that adds its inputs; it may wait for another one, or fail."""

    def __init__(self, own: Program, before=None, fails: Exception | None = None) -> None:
        self.program, self.before, self.fails = own, before, fails
        self.closed = self.ended = False

    def run(self, inputs):
        if self.before is not None:
            self.before()
        if self.fails is not None:
            raise self.fails
        self.ended = True
        total = np.sum(list(inputs.values()), axis=0, dtype=np.float32)
        return {output.name: total for output in self.program.outputs}

    def close(self) -> None:
        self.closed = True


BRANCHES = (
    part("left", "a", "x", "l"),
    part("right", "b", "x", "r"),
    part("sum", "a", "lr", "y"),
)


def opened(parts, **executables) -> PartsProgram:
    whole = replace(program("x", "y"), parts=parts, results=("y",))
    known = {p.function: executables.get(p.function) or Adds(p.program) for p in parts}
    return PartsProgram(whole, known)


X = {"x": np.array([1, 2], np.float32)}


def test_parts_on_two_devices_run_at_once():
    both = threading.Barrier(2, timeout=TIMEOUT_SECONDS)  # each waits until the other runs, too
    sides = {p.function: Adds(p.program, both.wait) for p in BRANCHES[:2]}
    with opened(BRANCHES, **sides) as executable:
        np.testing.assert_array_equal(executable.run(X)["y"], [2, 4])


def test_repeated_calls_compute_the_same():
    with opened(BRANCHES) as executable:
        for factor in range(20):
            x = {"x": np.array([factor, -factor], np.float32)}
            np.testing.assert_array_equal(executable.run(x)["y"], [2 * factor, -2 * factor])


@pytest.mark.parametrize(
    ("parts", "at_once"),
    [
        (BRANCHES, True),
        (BRANCHES[:1], False),
        ((part("one", "a", "x", "l"), part("two", "b", "l", "y")), False),
        ((part("one", "a", "x", "l"), part("two", "a", "x", "y")), False),  # one device
        ((part("one", "host", "x", "l"), part("two", "a", "x", "y")), False),  # under one lock
        (
            (
                part("one", "a", "x", "l"),
                part("two", "b", "l", "r"),
                part("three", "c", "r", "y"),
                part("four", "b", "y", "z"),
            ),
            False,
        ),
    ],
)
def test_what_waits_for_one_another_runs_in_turn(parts, at_once: bool):
    assert runs_at_once(parts) is at_once


@pytest.mark.parametrize("parts", [BRANCHES, BRANCHES[1:2]])
def test_a_device_that_fails_ends_the_call_with_its_name(parts):
    failing = Adds(BRANCHES[1].program, fails=DeviceError("out of resources", hint="restart it"))
    whole = parts if len(parts) > 1 else (replace(parts[0], outputs=("y",)),)
    executable = opened(whole, right=failing)
    with pytest.raises(DeviceError, match="b failed in right: out of resources") as raised:
        executable.run(X)
    assert raised.value.hint == "restart it"
    failing.fails = None
    assert executable.run(X)["y"].shape == (2,)  # the next call begins anew
    executable.close()
    assert failing.closed


def test_a_call_that_failed_leaves_nothing_running():
    failed, slow = threading.Event(), Adds(BRANCHES[0].program)

    def wait() -> None:
        assert failed.wait(TIMEOUT_SECONDS)

    def fail() -> None:
        failed.set()
        raise DeviceError("it died")

    slow.before = wait
    executable = opened(BRANCHES, left=slow, right=Adds(BRANCHES[1].program, fail))
    with pytest.raises(DeviceError, match="b failed in right: it died"):
        executable.run(X)
    assert slow.ended
    executable.close()
