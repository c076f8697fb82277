"""RNN and SVDF of TFLite in all their forms, against LiteRT: results and the states behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import explorer as ex
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from tests.importers.tflite_nodes import fixed, floats, random
from verification.conformance.tflite.models import TensorOf, one_operator

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

BATCH, STEPS, INPUTS, UNITS = 3, 4, 5, 6
FORMS = ["floats", "bytes", "bytes zeros"]


def weights(name: str, seed: int, shape: Sequence[int], form: str) -> TensorOf:
    if form == "floats":
        return fixed(name, random(seed, *shape) / 2, "float32")
    data = np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)
    return TensorOf(
        name=name, shape=shape, element_type="int8", scales=[0.006 + seed / 1e4], zeros=[0],
        data=data,
    )  # fmt: skip


def state(name: str, *shape: int) -> TensorOf:
    return replace(floats(name, *shape), is_variable=True)


def direction(name: str, seed: int, form: str) -> list[TensorOf]:
    return [
        weights(f"{name}w", seed, (UNITS, INPUTS), form),
        weights(f"{name}r", seed + 1, (UNITS, UNITS), form),
        fixed(f"{name}b", random(seed + 2, UNITS), "float32"),
        state(f"{name}h", BATCH, UNITS),
    ]


def compare(
    kind: str,
    operands: Sequence[TensorOf | None],
    shapes: Sequence[Sequence[int]],
    options: str,
    form: str,
    **values: object,
) -> None:
    results = [floats(f"y{k}", *shape) for k, shape in enumerate(shapes)]
    if "zeros" in form:
        values["AsymmetricQuantizeInputs"] = True
    model = read(memoryview(one_operator(kind, operands, results, options, values)), kind)
    inputs = {
        value.name: random(seed, *(int(size) for size in value.shape or ()))
        for seed, value in enumerate(model.inputs, 40)
    }
    names = [r.name for r in results] + [state.output for state in model.states]
    assert len(names) > len(results)
    expected = dict(reference_of(model).tensors(model, inputs, names))
    found = ex.interpret(model, inputs)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("form", FORMS)
def test_one_step_is_litert_s(form: str):
    operands = [floats("x", BATCH, INPUTS), *direction("", 1, form)]
    compare("RNN", operands, [(BATCH, UNITS)], "RNNOptions", form, FusedActivationFunction=4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_time_major", [False, True])
def test_a_sequence_is_litert_s(form: str, is_time_major: bool):
    outer = (STEPS, BATCH) if is_time_major else (BATCH, STEPS)
    compare(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        [floats("x", *outer, INPUTS), *direction("", 1, form)],
        [(*outer, UNITS)],
        "SequenceRNNOptions",
        form,
        FusedActivationFunction=4,
        TimeMajor=is_time_major,
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize(
    ("form", "is_time_major"), [*((form, False) for form in FORMS), ("floats", True)]
)
def test_a_sequence_of_both_directions_is_litert_s(form: str, is_time_major: bool, is_merged: bool):
    outer = (STEPS, BATCH) if is_time_major else (BATCH, STEPS)
    apart, merged = [(*outer, UNITS)] * 2, [(*outer, 2 * UNITS)]
    compare(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        [
            floats("x", *outer, INPUTS), *direction("f", 1, form), *direction("k", 5, form),
            None, None, None,
        ],
        merged if is_merged else apart,
        "BidirectionalSequenceRNNOptions",
        form,
        FusedActivationFunction=4, TimeMajor=is_time_major, MergeOutputs=is_merged,
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_filters_over_time_are_litert_s(form: str):
    rank, memory = 2, 7
    filters = rank * UNITS
    operands = [
        floats("x", BATCH, INPUTS),
        weights("f", 1, (filters, INPUTS), form),
        weights("t", 2, (filters, memory), form),
        fixed("b", random(3, UNITS), "float32"),
        state("s", BATCH, filters * memory),
    ]
    values = {"Rank": rank, "FusedActivationFunction": 1}
    compare("SVDF", operands, [(BATCH, UNITS)], "SVDFOptions", form, **values)
