"""Seeded TFLite models of one operator, and running one of them: LiteRT says what is right.

    for case in load_cases(per_op=4):              # ABS-0, ABS-1, ... ZEROS_LIKE-3
        outcome = Suite(seed=1).run(case.name, case.group, "CPU")

A model that LiteRT refuses is drawn anew; see `verification/conformance/seeded.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from verification.conformance import seeded
from verification.conformance.seeded import LegalCase, SeededSuite
from verification.conformance.suite import Case
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
NO_NUMBERS = ("SHAPE", "RANK", "BROADCAST_ARGS", "ZEROS_LIKE", "RANGE", "FILL")
"""Operators whose results depend on shapes and constants."""


def load_cases(per_op: int) -> list[Case]:
    """Cases of every operator, by operator and number."""
    return seeded.load_cases(DRAWS, per_op)


class Suite(SeededSuite):
    def draw(self, kind: str, number: int, attempt: int) -> LegalCase:
        return draw_case(kind, self.seed, number, attempt)


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
    return LegalCase({".tflite": content}, model, inputs, expected, kind not in NO_NUMBERS)
