"""Images of bytes in other sizes are those of LiteRT's reference kernels, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np
import pytest

import explorer as ex
from explorer.importers import SourceModel, to_top
from explorer.importers.tflite.file.reading import read
from explorer.ir.structure import operations
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.interpolation import InterpolateOp
from explorer.references.interface import reference_of
from tests.importers.tflite_nodes import fixed
from verification.conformance.tflite.models import TensorOf, one_operator

ALIGNED, HALF_PIXELS = {"AlignCorners": True}, {"HalfPixelCenters": True}


def resizing(
    dtype: str, sizes: Sequence[int], to: Sequence[int], values: Mapping[str, object]
) -> SourceModel:
    def image(name: str, inner: Sequence[int]) -> TensorOf:
        return TensorOf(
            name=name, shape=(2, *inner, 3), element_type=dtype, scales=[0.2], zeros=[3]
        )

    operands = [image("x", sizes), fixed("size", list(to))]
    made = one_operator(
        "RESIZE_BILINEAR", operands, [image("y", to)], "ResizeBilinearOptions", values
    )
    return read(memoryview(made), "resizing")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("sizes", "to", "values"),
    [
        ((9, 9), (9, 9), ALIGNED),
        ((9, 5), (33, 65), ALIGNED),
        ((9, 5), (9, 11), {}),
        ((9, 5), (20, 5), HALF_PIXELS),
        ((8, 6), (16, 24), HALF_PIXELS),
        ((8, 6), (16, 25), HALF_PIXELS),
        ((31, 40), (7, 10), {}),
    ],
)
def test_a_resize_is_that_of_the_reference(dtype, sizes, to, values):
    pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")
    model = resizing(dtype, sizes, to, values)
    limits = np.iinfo(dtype)
    x = np.random.default_rng(5).integers(limits.min, limits.max + 1, (2, *sizes, 3)).astype(dtype)
    x[1] = limits.max  # whatever the shares, their sum is one
    expected = dict(reference_of(model).tensors(model, {"x": x}, ["y"]))
    np.testing.assert_array_equal(ex.interpret(model, {"x": x})["y"], expected["y"])
    with closing(ex.compile(model)) as compiled:
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], expected["y"])


def kinds(model: SourceModel) -> list[type]:
    module, _ = to_top(model)
    return [type(op) for op in operations(module)]


def test_an_image_that_keeps_its_size_is_left_alone():
    made = kinds(resizing("uint8", (9, 9), (9, 9), ALIGNED))
    assert InterpolateOp not in made and GatherOp not in made


def test_shares_of_few_bits_are_taken_along_one_axis_after_the_other():
    assert kinds(resizing("uint8", (9, 5), (33, 65), ALIGNED)).count(InterpolateOp) == 2
    assert InterpolateOp not in kinds(resizing("uint8", (9, 5), (33, 66), ALIGNED))
