"""Suites of random models of one operator: drawn from a seed, judged by the format's reference.

class Suite(SeededSuite):
    def draw(self, kind, number, attempt): return LegalCase(files, model, inputs, expected)

Suite(seed=1).run("ABS-0", "ABS", "CPU")      an Outcome

A model that the reference refuses is drawn anew. Integers and booleans must be equal to the bit,
floats within 2e-5 of the largest number of their tensor.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.compilation import compile_model
from explorer.errors import ModelError
from explorer.files import write_file
from explorer.importers.model import SourceModel
from explorer.onnx_backend.backend import TARGETS
from verification.conformance.coverage import not_generated
from verification.conformance.suite import Case, Outcome, judge, open_here

ATTEMPTS = 8
"""Models that are drawn for a case before it is given up."""
TOLERANCE = 2e-5


@dataclass(frozen=True)
class LegalCase:
    """A model that its reference runs, and what that answers."""

    files: Mapping[str, bytes]
    """What the model's files hold, by suffix."""
    model: SourceModel
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    has_numbers: bool = True
    """False where the results depend on shapes and constants."""


def load_cases(kinds: Iterable[str], per_op: int) -> list[Case]:
    """Cases of every operator, by operator and number."""
    return [
        Case(f"{kind}-{number}", kind, (kind,))
        for kind in sorted(kinds)
        for number in range(per_op)
    ]


class SeededSuite(ABC):
    """Runs cases by name; `keep`: a folder for their models."""

    def __init__(self, seed: int, keep: Path | None = None) -> None:
        self.seed = seed
        self._keep = keep

    @abstractmethod
    def draw(self, kind: str, number: int, attempt: int) -> LegalCase:
        """A model with inputs and its reference's answer; ModelError where that refuses it."""

    def run(self, case: str, group: str, device: str) -> Outcome:
        """Runs one case in this process; whatever it raises becomes an outcome."""
        legal = self._legal(case, group)
        started = time.perf_counter()
        if isinstance(legal, str):
            status, reason = "illegal", legal
        else:
            for suffix, content in legal.files.items() if self._keep is not None else ():
                assert self._keep is not None
                write_file(self._keep / f"{case}{suffix}", content)
            status, reason = judge(lambda: run_case(legal, device), device)
        seconds = time.perf_counter() - started
        return Outcome(
            case=case, group=group, device=device, status=status, reason=reason, seconds=seconds
        )

    def _legal(self, case: str, kind: str) -> LegalCase | str:
        """The case; the reference's words on the last model where it refuses all."""
        refusal = ""
        for attempt in range(ATTEMPTS):
            try:
                return self.draw(kind, int(case.rpartition("-")[2]), attempt)
            except ModelError as error:
                refusal = error.message
        return refusal


class OtherNumbersError(AssertionError):
    """Results that differ from the reference's; `found` and `expected` by name."""

    def __init__(
        self,
        message: str,
        found: Mapping[str, np.ndarray],
        expected: Mapping[str, np.ndarray],
    ) -> None:
        super().__init__(message)
        self.found, self.expected = found, expected


def run_case(legal: LegalCase, device: str) -> tuple[str, str] | None:
    """OtherNumbersError where numbers differ; else what did not run as generated code."""
    if device == "INTERPRETER":
        _compare(ex.interpret(legal.model, legal.inputs), legal.expected)
        return None
    compilation = compile_model(legal.model, TARGETS[device])
    executable = open_here(compilation)
    try:
        found = executable.run(dict(legal.inputs))
    finally:
        executable.close()
    _compare(found, legal.expected)
    computed = frozenset(legal.expected) if legal.has_numbers else frozenset()
    return not_generated(compilation, computed)


def _compare(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    try:
        require_same(found, expected)
    except AssertionError as error:
        ours = {name: np.asarray(found[name]) for name in expected}
        raise OtherNumbersError(str(error), ours, expected) from None


def require_same(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    for name, right in expected.items():
        ours = np.asarray(found[name])
        if (ours.dtype, ours.shape) != (right.dtype, right.shape):
            raise AssertionError(
                f"{name} is {ours.dtype} {ours.shape}, {right.dtype} {right.shape} expected"
            )
        if right.dtype.kind == "f":
            largest = float(np.max(np.abs(right), initial=0, where=np.isfinite(right)))
            np.testing.assert_allclose(ours, right, rtol=TOLERANCE, atol=TOLERANCE * largest)
        else:
            np.testing.assert_array_equal(ours, right)
