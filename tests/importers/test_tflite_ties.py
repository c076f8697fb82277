"""Ties of rounding in TFLite's integer operators: the integers are those of LiteRT's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType

import explorer as ex
from explorer.importers.tflite.file.reading import read
from explorer.ir.requantization import RequantizationAttr, ratio_of
from explorer.ir.types import QuantizedType
from explorer.references.interface import reference_of
from tests.importers.tflite_cases import model_of_cases
from tests.importers.tflite_ties import KINDS, product, ties

DRAWS = range(4)
CASES = [(kind, dtype) for kind, (_, types) in KINDS.items() for dtype in types]
PRODUCTS = [(kind, dtype) for kind, dtype in CASES if KINDS[kind][0] is product]


def model_and_inputs(cases):
    """One model of all draws of the cases, and its inputs."""
    found = [ties(*case, draw) for case in cases for draw in DRAWS]
    content = model_of_cases(case for case, _ in found)
    inputs = {
        f"{name}{number}": array
        for number, (_, arrays) in enumerate(found)
        for name, array in arrays.items()
    }
    return read(memoryview(content), "ties"), inputs


@pytest.fixture(scope="module")
def answers():
    """What LiteRT answers, and what the import means."""
    model, inputs = model_and_inputs(CASES)
    names = [f"y{number}" for number in range(len(CASES) * len(DRAWS))]
    judge = reference_of(model)
    return dict(judge.tensors(model, inputs, names)), ex.interpret(model, inputs)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(case) for case in CASES])
def test_ties_go_where_litert_rounds_them(answers, number):
    expected, found = answers
    for draw in DRAWS:
        name = f"y{number * len(DRAWS) + draw}"
        np.testing.assert_array_equal(found[name], expected[name])


def test_generated_code_rounds_ties_of_products_alike(answers, tmp_path):
    model, inputs = model_and_inputs(PRODUCTS)
    c = ex.compile(model)
    found = c.run(inputs)
    c.close()
    for number, case in enumerate(PRODUCTS):
        first = CASES.index(case) * len(DRAWS)
        for draw in DRAWS:
            expected = answers[0][f"y{first + draw}"]
            np.testing.assert_array_equal(found[f"y{number * len(DRAWS) + draw}"], expected)


def test_a_product_of_scales_is_rounded_to_a_single_where_that_is_asked():
    left, right = np.float32(0.0471), np.float32(0.00361)
    source = QuantizedType.get(IntegerType(32), [float(left) * float(right)], [0])
    to = QuantizedType.get(IntegerType(8), [0.061], [3])
    plain, single = (RequantizationAttr.get(to, of_singles=one) for one in (False, True))
    assert plain != single
    plain, single = (
        by.with_(ex.ir.requantization.Requantization("doubling_high_multiply", "nearest_even"))
        for by in (plain, single)
    )
    assert ratio_of(source, single)[0] == float(left * right) / float(np.float32(0.061))
    assert ratio_of(source, plain)[0] == float(left) * float(right) / float(np.float32(0.061))
