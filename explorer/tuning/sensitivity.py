"""The sensitivity of every tensor: outputs with only this one quantized, and with all but this one.

    program = simulated_program(model)
    found = sensitivities(program, Judge(table, examples, labels))

Every question is a run of the same simulated program (`simulation.py`) over all examples. joblib
spreads them, here or on other machines; what comes back does not depend on how.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import joblib
import numpy as np

from explorer.accuracy.metrics import decibels, noise_to_signal
from explorer.errors import InputError
from explorer.ir.types import QuantizedType
from explorer.quantization.quantize_tensors import FLOAT, INT8, INT16, type_of
from explorer.quantization.table import Threshold
from explorer.results.runs.sensitivity import Quality, TensorSensitivity
from explorer.tuning.simulation import SimulatedProgram, Simulator

CHUNKS = 4
"""Tasks for each worker: enough to even out, and few, for each begins with the float outputs."""

Modes = Mapping[str, str]
"""By tensor, where it is not INT8."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Judge:
    """What qualities are measured with."""

    thresholds: Mapping[str, Threshold]
    examples: Sequence[Mapping[str, np.ndarray]]
    labels: np.ndarray | None = None
    """(N,) of integers."""
    exact: Sequence[np.ndarray] | None = None
    """(N, ...) for each output of the float model; None where the simulated program computes it
    when nothing is quantized: one whose weights were corrected does not."""

    def quality(self, actual: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> Quality:
        """Of outputs (N, ...)."""
        found, right = largest(actual), largest(exact)
        return Quality(
            sqnr_db=decibels(noise_to_signal(actual, exact)),
            differ=int(np.sum(found != right)),
            accuracy=None if self.labels is None else float(np.mean(found == self.labels) * 100),
        )


def largest(outputs: Sequence[np.ndarray]) -> np.ndarray:
    """(N,) of the places of the largest number in the first output."""
    return outputs[0].reshape(len(outputs[0]), -1).argmax(axis=1)


def sensitivities(
    program: SimulatedProgram,
    judge: Judge,
    jobs: int | None = None,
    backend: str | None = "threading",
    progress: Progress | None = None,
) -> tuple[TensorSensitivity, ...]:
    """Of every tensor of the program, in its order."""
    asked: list[Modes] = []
    for tensor in program.tensors:
        asked += [
            {other: FLOAT for other in program.tensors if other != tensor},
            {tensor: FLOAT},
            {tensor: INT16},
        ]
    found = iter(qualities(program, judge, asked, jobs, backend, progress))
    return tuple(
        TensorSensitivity(
            tensor=tensor,
            macs=program.macs[tensor],
            alone=next(found),
            without=next(found),
            wide=next(found),
        )
        for tensor in program.tensors
    )


def qualities(
    program: SimulatedProgram,
    judge: Judge,
    asked: Sequence[Modes],
    jobs: int | None = None,
    backend: str | None = "threading",
    progress: Progress | None = None,
) -> list[Quality]:
    """Of outputs with these modes, one after the other.

    jobs: how many at once, by default as many as there are processors; backend: joblib's, None for
    what `joblib.parallel_config` says around the call.

    Raises:
        InputError: for a backend that there is not.
    """
    workers = jobs or os.cpu_count() or 1
    chunks = np.array_split(np.arange(len(asked)), min(workers * CHUNKS, len(asked)) or 1)
    found: list[Quality] = []
    try:
        with joblib.parallel_config(backend=backend) if backend else contextlib.nullcontext():
            parallel = joblib.Parallel(n_jobs=workers, return_as="generator")
            tasks = (
                joblib.delayed(measured_modes)(program, judge, [asked[k] for k in chunk])
                for chunk in chunks
            )
            for part in parallel(tasks):
                assert isinstance(part, list)
                found += part
                if progress is not None:
                    progress("sensitivity", len(found), len(asked))
    except (ValueError, ImportError) as error:
        raise InputError(
            f"joblib cannot run with the backend {backend!r}: {error}",
            hint="threading or loky; dask needs dask.distributed and a Client",
        ) from error
    return found


def measured_modes(
    program: SimulatedProgram, judge: Judge, asked: Sequence[Modes]
) -> list[Quality]:
    """One task: some of the questions, in the process that it was sent to."""
    found = []
    types: dict[tuple[str, str], QuantizedType | None] = {}
    for modes in asked:
        for tensor in program.tensors:
            mode = modes.get(tensor, INT8)
            if (tensor, mode) not in types:
                threshold = judge.thresholds[tensor]
                types[tensor, mode] = None if mode == FLOAT else type_of(threshold, mode)
    with Simulator(program, workers=1) as simulator:
        exact = simulator.outputs(judge.examples) if judge.exact is None else judge.exact
        for modes in asked:
            simulator.set({t: types[t, modes.get(t, INT8)] for t in program.tensors})
            found.append(judge.quality(simulator.outputs(judge.examples), exact))
    return found
