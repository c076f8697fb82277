"""Seeded TFLite models of one operator, and running one of them: LiteRT says what is right.

    for case in load_cases(per_op=4):              # ABS-0, ABS-1, ... ZEROS_LIKE-3
        outcome = Suite(seed=1).run(case.name, case.group, "CPU")

A model that LiteRT refuses is drawn anew. Integers and booleans must be equal to the bit, floats
within 2e-5 of the largest number of their tensor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.compilation import compile_model
from explorer.errors import ModelError
from explorer.files import write_file
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.reading import read
from explorer.onnx_backend.backend import TARGETS
from explorer.references.interface import reference_of
from verification.conformance.coverage import not_generated
from verification.conformance.suite import Case, Outcome, judge, open_here
from verification.conformance.tflite import (
    control,
    elementwise,
    indexing,
    movement,
    products,
    recurrent,
)
from verification.conformance.tflite.drawing import Draw, Drawn, inputs_of
from verification.conformance.tflite.models import one_operator

DRAWS: Mapping[str, Callable[[Draw], Drawn]] = {
    **elementwise.DRAWS,
    **movement.DRAWS,
    **indexing.DRAWS,
    **products.DRAWS,
    **recurrent.DRAWS,
    **control.DRAWS,
}
"""What draws a model of each operator."""
ATTEMPTS = 8
"""Models that are drawn for a case before it is given up."""
TOLERANCE = 2e-5
NO_NUMBERS = ("SHAPE", "RANK", "BROADCAST_ARGS", "ZEROS_LIKE", "RANGE", "FILL")
"""Operators whose results depend on shapes and constants."""


@dataclass(frozen=True)
class LegalCase:
    """A model that LiteRT runs, and what it answers."""

    content: bytes
    model: SourceModel
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]


def load_cases(per_op: int) -> list[Case]:
    """Cases of every operator, by operator and number."""
    return [
        Case(f"{kind}-{number}", kind, (kind,))
        for kind in sorted(DRAWS)
        for number in range(per_op)
    ]


class Suite:
    """Runs cases by name; `keep`: a folder for their models."""

    def __init__(self, seed: int, keep: Path | None = None) -> None:
        self._seed = seed
        self._keep = keep

    def run(self, case: str, group: str, device: str) -> Outcome:
        """Runs one case in this process; whatever it raises becomes an outcome."""
        legal = self._legal(case, group)
        started = time.perf_counter()
        if isinstance(legal, str):
            status, reason = "illegal", legal
        else:
            if self._keep is not None:
                write_file(self._keep / f"{case}.tflite", legal.content)
            status, reason = judge(lambda: _run(legal, group, device), device)
        seconds = time.perf_counter() - started
        return Outcome(
            case=case, group=group, device=device, status=status, reason=reason, seconds=seconds
        )

    def _legal(self, case: str, kind: str) -> LegalCase | str:
        """The case; LiteRT's words on the last model where it refuses all."""
        refusal = ""
        for attempt in range(ATTEMPTS):
            number = int(case.rpartition("-")[2])
            try:
                return draw_case(kind, self._seed, number, attempt)
            except ModelError as error:
                refusal = error.message
        return refusal


def draw_case(kind: str, seed: int, number: int, attempt: int = 0) -> LegalCase:
    """One model with inputs and LiteRT's answer. ModelError where LiteRT does not run it."""
    draw = Draw(seed, kind, number, attempt)
    drawn = DRAWS[kind](draw)
    content = one_operator(
        kind,
        drawn.inputs,
        drawn.results,
        drawn.options,
        drawn.values,
        drawn.others,
        drawn.intermediates,
    )
    model = read(memoryview(content), kind)
    inputs = inputs_of(draw, drawn.inputs, drawn.ranges)
    names = [value.name for value in model.outputs]  # states, too
    expected = dict(reference_of(model).tensors(model, inputs, names))
    return LegalCase(content, model, inputs, expected)


def _run(legal: LegalCase, kind: str, device: str) -> tuple[str, str] | None:
    """AssertionError where numbers differ; else what did not run as generated code."""
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
    computed = frozenset() if kind in NO_NUMBERS else frozenset(legal.expected)
    return not_generated(compilation, computed)


def _compare(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
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
