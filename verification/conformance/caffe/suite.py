"""Seeded Caffe nets of one layer, and running one of them: OpenCV says what is right.

    for case in load_cases(per_op=4):              # AbsVal-0, AbsVal-1, ... TanH-3
        outcome = Suite(seed=1).run(case.name, case.group, "CPU")

Kinds are those that OpenCV runs, with settings that it takes as Caffe does (see the page); a net
that it refuses is drawn anew: `verification/conformance/seeded.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from explorer.importers.caffe.file.reading import read
from explorer.references.interface import reference_of
from verification.conformance import seeded
from verification.conformance.caffe import detection, elementwise, movement, products
from verification.conformance.caffe.drawing import Draw, Drawn
from verification.conformance.caffe.models import one_layer
from verification.conformance.seeded import LegalCase, SeededSuite
from verification.conformance.suite import Case

DRAWS: Mapping[str, Callable[[Draw], Drawn]] = {
    **elementwise.DRAWS,
    **products.DRAWS,
    **movement.DRAWS,
    **detection.DRAWS,
}
"""What draws a layer of each kind."""
NO_NUMBERS = ("PriorBox",)
"""Kinds whose results depend on shapes and settings."""


def load_cases(per_op: int) -> list[Case]:
    """Cases of every kind, by kind and number."""
    return seeded.load_cases(DRAWS, per_op)


class Suite(SeededSuite):
    def draw(self, kind: str, number: int, attempt: int) -> LegalCase:
        return draw_case(kind, self.seed, number, attempt)


def draw_case(kind: str, seed: int, number: int, attempt: int = 0) -> LegalCase:
    """One net with inputs and OpenCV's answer. ModelError where OpenCV does not run it."""
    drawn = DRAWS[kind](Draw(seed, kind, number, attempt))
    shapes = [array.shape for array in drawn.inputs]
    text, weights = one_layer(kind, drawn.settings, shapes, drawn.blobs, drawn.tops)
    if drawn.tops > 1:  # OpenCV gives a layer as many results as others take
        text += "".join(
            f'layer {{ name: "z{i}" type: "AbsVal" bottom: "t{i}" top: "z{i}" }}\n'
            for i in range(drawn.tops)
        )
    model = read(text, memoryview(weights), kind)
    inputs = {f"x{index}": array for index, array in enumerate(drawn.inputs)}
    names = [value.name for value in model.outputs]
    expected = dict(reference_of(model).tensors(model, inputs, names))
    files = {".prototxt": text.encode(), ".caffemodel": weights}
    return LegalCase(files, model, inputs, expected, kind not in NO_NUMBERS)
