"""Timing candidates against the default, in turns, and checking their numbers first.

    with Bench(workload, seed=0, threads=1) as bench:
        bench.try_default(default_kernel, library)
        bench.measure(kernel, library)       Measurement(us, spread, default_us, status, reason)

One program runs at a time. In every round first the default and then the candidate runs for a few
milliseconds, so that a change of the clock or a busy neighbour meets both; medians are compared.
A candidate runs in a process of its own, which may crash or hang alone.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from explorer.accuracy.metrics import tensor_error
from explorer.backends.records import Opening
from explorer.compilation.measurements.schedule_steps import NestProgram, logical_results
from explorer.errors import BuildError, DeviceError
from explorer.kernels.schedules import ScheduledKernel
from explorer.runtime.cache import ProgramCache
from explorer.runtime.scratch import own_folder
from explorer.tuning.building import BuiltLibrary
from explorer.tuning.candidate_child import CandidateChild
from explorer.tuning.workloads import Workload

TURN_SECONDS = 0.004
"""Of one turn; shorter kernels run several times in it."""
MAX_REPEATS = 400
ROUNDS = 7
MIN_LIMIT_SECONDS = 5.0
SLOWEST = 200
"""Times as slow as the default: then a candidate counts as hung."""
TOLERANCE = 1e-5
"""Sums of float32 in another order, relative to the largest number."""
WINOGRAD_TOLERANCE = 5e-5
"""Its transforms cancel some digits."""


@dataclass(frozen=True)
class Measurement:
    """What became of one candidate."""

    microseconds: float = 0.0
    spread_us: float = 0.0
    default_us: float = 0.0
    ratio: float = 0.0
    """Median over the rounds of candidate / default."""
    noise: float = 0.0
    """Half of the distance between the quartiles of these ratios."""
    status: str = "measured"
    reason: str = ""


class Runnable(Protocol):
    """A candidate, built: in a process of its own, whatever it is written in."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]: ...

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int) -> list[float]: ...

    def close(self) -> None: ...


class Bench:
    """The default of a kernel, built and held ready, and what others are measured with."""

    def __init__(self, workload: Workload, seed: int = 0, threads: int = 1):
        self.workload = workload
        self.threads = threads
        self.arrays = workload.arrays(seed)
        self._default: tuple[NestProgram, Runnable] | None = None
        self._expected: dict[str, np.ndarray] = {}
        self._seconds = 0.0
        self._folder = tempfile.TemporaryDirectory(prefix="bench-", dir=own_folder())
        self._children = (CandidateChild(), CandidateChild())
        """One for the default and one for candidates; each starts when it is asked for something,
        which only happens for backends that isolate nothing themselves."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._default is not None:
            self._default[1].close()
            self._default = None
        for child in self._children:
            child.close()
        self._folder.cleanup()

    @property
    def is_open(self) -> bool:
        """Whether the default runs and can be measured with."""
        return self._default is not None

    def source(self, kernel: ScheduledKernel) -> str:
        """The text that a compiler gets."""
        made = self.workload.program(kernel, self.arrays)
        return "\n".join(made.program.source.lines) + "\n"

    def try_default(self, kernel: ScheduledKernel, library: BuiltLibrary | None) -> Measurement:
        """Builds and runs the default, whose results are what is expected of the others."""
        made = self.workload.program(kernel, self.arrays)
        try:
            executable = self._open(made, library, 120.0)
        except (BuildError, DeviceError) as error:
            return Measurement(status="failed", reason=str(error))
        try:
            outputs = executable.run(made.inputs)
            times = executable.time(made.inputs, 5)
        except DeviceError as error:
            executable.close()
            return Measurement(status="failed", reason=str(error))
        self._default = (made, executable)
        self._expected = logical_results(outputs, kernel.packs, self.arrays)
        self._seconds = max(min(times), 1e-7)
        seconds = [s for _ in range(ROUNDS) for s in self._turn(executable, made)]
        median = statistics.median(seconds) * 1e6
        return Measurement(median, _spread(seconds) * 1e6, median, 1.0)

    def measure(
        self, kernel: ScheduledKernel, library: BuiltLibrary | None, rounds: int = ROUNDS
    ) -> Measurement:
        """Checks a candidate's numbers and times it against the default."""
        assert self._default is not None
        if library is not None and library.reason:
            status = "hung" if library.is_late else "failed"
            return Measurement(status=status, reason=library.reason)
        made = self.workload.program(kernel, self.arrays)
        limit = max(MIN_LIMIT_SECONDS, SLOWEST * self._seconds)
        with contextlib.ExitStack() as stack:
            try:
                executable = stack.enter_context(
                    contextlib.closing(self._open(made, library, limit))
                )
                outputs = executable.run(made.inputs)
                wrong = self._difference(kernel, outputs)
                if wrong:
                    return Measurement(status="wrong", reason=wrong)
                return self._race(executable, made, rounds)
            except BuildError as error:
                return Measurement(status="failed", reason=str(error))
            except DeviceError as error:
                status = "hung" if "did not finish within" in str(error) else "failed"
                return Measurement(status=status, reason=str(error))

    def _race(self, executable: Runnable, made: NestProgram, rounds: int) -> Measurement:
        ours: list[list[float]] = []
        theirs: list[list[float]] = []
        for number in range(rounds):
            # Who runs first takes turns, too: the second one finds warmer caches and clocks.
            if number % 2:
                ours.append(self._turn(executable, made))
                theirs.append(self._default_turn())
            else:
                theirs.append(self._default_turn())
                ours.append(self._turn(executable, made))
        ratios = [
            statistics.median(a) / statistics.median(b) for a, b in zip(ours, theirs, strict=True)
        ]
        candidate = [s for turn in ours for s in turn]
        reference = [s for turn in theirs for s in turn]
        return Measurement(
            statistics.median(candidate) * 1e6,
            _spread(candidate) * 1e6,
            statistics.median(reference) * 1e6,
            statistics.median(ratios),
            _spread(ratios),
        )

    def _default_turn(self) -> list[float]:
        """One that fails is opened again for the next candidate."""
        assert self._default is not None
        made, default = self._default
        try:
            return self._turn(default, made)
        except DeviceError as error:
            default.close()
            self._default = None
            raise DeviceError(f"the default failed this time: {error}") from error

    def _turn(self, executable: Runnable, made: NestProgram) -> list[float]:
        repeats = max(3, min(MAX_REPEATS, int(TURN_SECONDS / self._seconds)))
        return executable.time(made.inputs, repeats)

    def _difference(self, kernel: ScheduledKernel, outputs: dict[str, np.ndarray]) -> str:
        """How the results differ from the default's; empty where they do not."""
        found = logical_results(outputs, kernel.packs, self.arrays)
        is_winograd = "winograd" in " ".join(str(v) for v in kernel.choices.values())
        tolerance = WINOGRAD_TOLERANCE if is_winograd else TOLERANCE
        for name, expected in self._expected.items():
            error = tensor_error(name, kernel.name, found[name], expected)
            if not error.max_relative <= (tolerance if expected.dtype.kind == "f" else 0.0):
                return (
                    f"its result {name} differs from the default's: max_relative "
                    f"{error.max_relative:.3g}, at most {tolerance:g}"
                )
        return ""

    def _open(
        self, made: NestProgram, library: BuiltLibrary | None, limit_seconds: float
    ) -> Runnable:
        backend, device = self.workload.backend, self.workload.device
        wanted = self.threads if device is None else min(self.threads, device.compute_units)
        threads = backend.threads_on(device, wanted)
        if not backend.isolates:
            child = self._children[0 if self._default is None else 1]
            return child.open(made, backend, device, threads, limit_seconds)
        opening = Opening(
            name="",
            cache=ProgramCache(None),
            threads=threads,
            library=None if library is None else self._stored(library),
            time_limit_seconds=limit_seconds,
        )
        return backend.open(made.built, device, opening)

    def _stored(self, library: BuiltLibrary) -> Path:
        """The library as a file, which its process loads."""
        if library.reason:
            raise BuildError(library.reason)
        with tempfile.NamedTemporaryFile(dir=self._folder.name, suffix=".so", delete=False) as file:
            file.write(library.content)
        return Path(file.name)


def _spread(values: Sequence[float]) -> float:
    """Half of the distance between the quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2
