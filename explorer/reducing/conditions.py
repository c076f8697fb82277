"""What "it fails" means: functions from a candidate to an outcome.

    differing(compute)                       numbers are not the reference's, or an error
    InChild("check", target="cpu")           as `explorer check` judges; a process with limits
    InChild("crash", target="cpu")           compiling and running ends with an error or a signal
    Command("./mine {model} {input}", 60)    a command ends with another status than 0

An outcome has a kind: what fails in another way than at first is another fault, and is not adopted.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: answers of a child are JSON

import numpy as np

from explorer.errors import ExplorerError, InputError, PassError, UnsupportedError
from explorer.importers.arrays import arrays_as_npz
from explorer.reducing.candidate import Arrays, Candidate
from explorer.runtime.child import Child
from explorer.runtime.processes import run_command, signal_name
from explorer.runtime.scratch import own_folder

DIFFERS, HUNG = "differs", "hung"
TOLERANCES = {"float64": 1e-6, "float32": 1e-3, "float16": 5e-2, "bfloat16": 2e-1}
"""Largest |a - b| / max |b| of what is one number rounded in another order of summation."""
MIN_SCALE = 1e-3
"""Of max |b|: below it errors count as absolute ones."""
LAST_LINES = 20
FILED = "biufc"
"""Kinds of NumPy's types that a file of arrays has."""
SHELL = re.compile(r"[|&;<>$`*?~#\n]")
"""What only a shell understands."""


@dataclass(frozen=True)
class Outcome:
    """What came of a candidate."""

    kind: str
    """How it fails: `differs`, `hung`, `PassError in fuse-add`, `status 3`; empty: it does not."""
    reason: str = ""
    """What was expected and what came, in words."""


Condition = Callable[[Candidate], Outcome | bool]
PASSES = Outcome("")


def differing(compute: Callable[[Candidate], Arrays]) -> Condition:
    """Fails where `compute` gives other outputs than the reference, or raises."""

    def condition(candidate: Candidate) -> Outcome:
        try:
            found = compute(candidate)
        except UnsupportedError:
            return PASSES
        except Exception as error:  # a defect is the result here
            return outcome_of(error)
        return compared(found, candidate.expected)

    return condition


def outcome_of(error: Exception) -> Outcome:
    """The kind of an error: its type, and the pass or the function in which it was raised."""
    message = (
        error.message if isinstance(error, ExplorerError) else str(error)
    )  # no path of a trial
    words = f"{type(error).__name__}: {' '.join(message.split())[:300]}"
    if isinstance(error, PassError) and error.pass_name:
        return Outcome(f"{type(error).__name__} in {error.pass_name}", words)
    frames = traceback.extract_tb(error.__traceback__)
    files = [Path(frame.filename).parts for frame in frames]
    own = [f for f, parts in zip(frames, files, strict=True) if "explorer" in parts]
    own = [f for f in own if Path(f.filename).parent.name != "reducing"] or list(frames)
    place = f"{Path(own[-1].filename).name}, {own[-1].name}" if own else "?"
    return Outcome(f"{type(error).__name__} in {place}", words)


def compared(found: Mapping[str, Any], expected: Arrays) -> Outcome:
    """`differs` with the output that is furthest off, by far more than rounding explains."""
    for name, right in expected.items():
        if name not in found:
            return Outcome(DIFFERS, f"{name}: there is no such output")
        if problem := difference(np.asarray(found[name]), right):
            return Outcome(DIFFERS, f"{name}: {problem}")
    return PASSES


def difference(found: np.ndarray, right: np.ndarray) -> str:
    """What is not the same beyond rounding; empty where everything is."""
    if (found.shape, found.dtype) != (right.shape, right.dtype):
        came = f"came {found.dtype} of {list(found.shape)}"
        return f"expected {right.dtype} of {list(right.shape)}, {came}"
    if not right.size:
        return ""
    kind = right.dtype.name
    limit = TOLERANCES.get(kind)
    if limit is None:
        a, b = (
            array.astype(object if kind.endswith("64") else np.float64) for array in (found, right)
        )
        apart = np.abs(a - b).astype(np.float64)
        limit = 0.0 if kind == "bool" else 1.0  # a tie may be rounded either way
        return _worst(apart, found, right) if apart.max() > limit else ""
    a, b = found.astype(np.float64), right.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    if not (same | finite).all():
        return _worst(np.where(same | finite, 0.0, np.inf), found, right)
    apart = np.abs(np.where(finite, a - b, 0.0))
    scale = max(float(np.abs(np.where(finite, b, 0.0)).max()), MIN_SCALE)
    return _worst(apart, found, right) if apart.max() > limit * scale else ""


def _worst(apart: np.ndarray, found: np.ndarray, right: np.ndarray) -> str:
    place = np.unravel_index(int(np.argmax(apart)), apart.shape)
    at = list(map(int, place))
    return f"at {at} expected {right[place]}, came {found[place]}"


class InChild:
    """`check` or `crash` in a child process, which a crash or a hang ends alone."""

    def __init__(
        self,
        what: str,
        *,
        target: str = "cpu",
        tolerance: float = 1e-4,
        decisions: Mapping[str, Any] | None = None,
        seconds: float = 300.0,
    ) -> None:
        self.what, self._seconds = what, seconds
        self._request = {"target": target, "tolerance": tolerance, "decisions": decisions or {}}
        self._child = Child(("-m", "explorer.reducing.process"))
        self._is_exhaustive: bool | None = None
        """Whether all passes are compared; outputs alone where those show the fault."""

    def __call__(self, candidate: Candidate) -> Outcome:
        if self.what == "crash":
            return self._ask("crash", candidate)
        if self._is_exhaustive is None:
            found = self._ask("outputs", candidate)
            self._is_exhaustive = not found.kind
            return found if found.kind else self._ask("all", candidate)
        return self._ask("all" if self._is_exhaustive else "outputs", candidate)

    def _ask(self, what: str, candidate: Candidate) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="reduce-", dir=own_folder()) as name:
            folder = Path(name)
            paths = write_candidate(candidate, folder)
            expected = folder / "expected.npz"
            known = {n: a for n, a in candidate.expected.items() if a.dtype.kind in FILED}
            expected.write_bytes(arrays_as_npz(known))
            files = {"model": str(paths[0]), "input": str(paths[1]), "expected": str(expected)}
            answer = self._child.ask({**self._request, **files, "do": what}, self._seconds)
        if answer["status"] == "answered":
            return Outcome(answer["kind"], answer["reason"])
        return Outcome(answer["status"], answer["reason"])

    def close(self) -> None:
        self._child.close()


class Command:
    """A command with {model} and {input}, run without a shell unless it needs one.

    It fails with any status but 0. Nothing else is run.
    """

    def __init__(self, text: str, seconds: float) -> None:
        """InputError for a command without {model}, or of which the quotes do not close."""
        if "{model}" not in text:
            raise InputError(
                "the command has no place for the model",
                hint="write {model} and {input} where their files go",
            )
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise InputError(
                f"the command cannot be read: {error}", hint="close its quotes"
            ) from error
        self.text, self._seconds = text, seconds

    def __call__(self, candidate: Candidate) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="reduce-", dir=own_folder()) as name:
            model, arrays = map(str, write_candidate(candidate, Path(name)))
            try:
                finished = run_command(self._argv(model, arrays), seconds=self._seconds)
            except subprocess.TimeoutExpired:
                return Outcome(HUNG, f"it did not end within {self._seconds:g} s")
            except OSError as error:
                reason = error.strerror or str(error)
                raise InputError(f"the command cannot be run: {reason}", hint=self.text) from error
        if finished.status == 0:
            return PASSES
        last = finished.output.strip().splitlines()[-LAST_LINES:]
        kind = signal_name(finished.status) if finished.status < 0 else ""
        return Outcome(kind or f"status {finished.status}", "\n".join(last))

    def _argv(self, model: str, arrays: str) -> list[str]:
        if SHELL.search(self.text):
            quoted = {"{model}": shlex.quote(model), "{input}": shlex.quote(arrays)}
            return ["/bin/sh", "-c", _filled(self.text, quoted)]
        return [_filled(word, {"{model}": model, "{input}": arrays}) for word in self._words]


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(?:model|input)\}", lambda found: values[found.group()], text)


def write_candidate(candidate: Candidate, folder: Path) -> tuple[Path, Path]:
    """A candidate's two files."""
    model, arrays = folder / "model.onnx", folder / "input.npz"
    model.write_bytes(candidate.model.SerializeToString())
    arrays.write_bytes(arrays_as_npz(candidate.inputs))
    return model, arrays
