"""Candidates in a child process, for backends that have none: a fault ends one candidate at most.

    with CandidateChild() as child:
        executable = child.open(made, backend, device, threads=2, limit_seconds=5.0)
        executable.run(made.inputs), executable.time(made.inputs, 20)

The child stays for the next candidate (OpenCL's driver takes a second to start) until it crashes or
is ended for taking too long: then the next one gets a fresh child.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from explorer.backends.interface import Backend
from explorer.closing import Closing
from explorer.compilation.measurements.schedule_steps import NestProgram
from explorer.errors import DeviceError
from explorer.results.encoding import to_json
from explorer.runtime.child import Child
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.scratch import own_folder

PROCESS = ("-m", "explorer.tuning.candidate_process")
BUILD_SECONDS = 60.0
"""For one candidate: drivers also compile when a kernel runs for the first time."""
TURNS = 4
"""Times the limit of a run: a turn takes some runs, more than three only where they are short."""


class CandidateChild(Closing):
    """A child process with at most one program; ended when it is left."""

    def __init__(self) -> None:
        self._child = Child(PROCESS)
        self._folder = tempfile.TemporaryDirectory(prefix="candidate-", dir=own_folder())

    def close(self) -> None:
        self._child.close()
        self._folder.cleanup()

    def open(
        self,
        made: NestProgram,
        backend: Backend,
        device: DeviceRecord | None,
        threads: int | None,
        limit_seconds: float,
    ) -> ProgramInChild:
        """Builds a program in place of the one before. DeviceError for whatever goes wrong."""
        weights = Path(self._folder.name, "weights.npy")
        np.save(weights, made.weights)
        request = {
            "do": "open",
            "backend": backend.name,
            "program": to_json(made.program),
            "device": None if device is None else to_json(device),
            "weights": str(weights),
            "threads": threads,
        }
        self.ask(request, BUILD_SECONDS)
        return ProgramInChild(self, Path(self._folder.name), limit_seconds)

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """An answer that is no refusal; `request` and answer are JSON."""
        answer = self._child.ask(request, seconds)
        if answer["status"] == "hung":
            raise DeviceError(f"the program did not finish within {seconds:g} s")
        if "reason" in answer:
            raise DeviceError(answer["reason"])
        return answer


class ProgramInChild:
    """The program that is open in a child; it is of no use when another one was opened there."""

    def __init__(self, child: CandidateChild, folder: Path, limit_seconds: float) -> None:
        self._child = child
        self._inputs = folder / "inputs.npz"
        self._outputs = folder / "outputs.npz"
        self._limit_seconds = limit_seconds
        self._sent: Mapping[str, np.ndarray] | None = None

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All outputs by name."""
        self._send(inputs)
        request = {"do": "run", "inputs": str(self._inputs), "outputs": str(self._outputs)}
        self._child.ask(request, BUILD_SECONDS + self._limit_seconds)
        with np.load(self._outputs, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int) -> list[float]:
        """Seconds of each of `repeats` runs after one that is not counted."""
        self._send(inputs)
        request = {"do": "time", "inputs": str(self._inputs), "repeats": repeats}
        return self._child.ask(request, TURNS * self._limit_seconds)["seconds"]

    def close(self) -> None:
        """The child keeps it until the next one is opened."""

    def _send(self, inputs: Mapping[str, np.ndarray]) -> None:
        if inputs is not self._sent:
            np.savez(self._inputs, **inputs)  # pyright: ignore[reportArgumentType]
            self._sent = inputs
