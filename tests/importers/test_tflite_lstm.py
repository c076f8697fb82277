"""LSTMs of TFLite in all their forms, against LiteRT: results and the states behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from tests.importers.tflite_nodes import fixed, floats, random
from verification.conformance.tflite.models import TensorOf, one_operator

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

BATCH, STEPS, INPUTS, CELLS = 2, 3, 5, 6
Operands = list[TensorOf | None]


def weights(name: str, seed: int, shape: Sequence[int], is_hybrid: bool) -> TensorOf:
    if not is_hybrid:
        return fixed(name, random(seed, *shape) / 2, "float32")
    data = np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)
    return TensorOf(
        name=name, shape=shape, element_type="int8", scales=[0.006 + seed / 1e4], zeros=[0],
        data=data,
    )  # fmt: skip


def direction(form: str, name: str, seed: int) -> tuple[Operands, int]:
    """The weights, biases and projection of one direction; how wide its result is."""
    is_hybrid, outputs = "hybrid" in form, 4 if "projection" in form else CELLS

    def own(kind: str, shape: Sequence[int]) -> Operands:
        found: Operands = [
            weights(f"{name}{kind}{gate}", seed + gate, shape, is_hybrid) for gate in range(4)
        ]
        return [None, *found[1:]] if "coupled" in form else found

    looks = [weights(f"{name}p{k}", seed + 9 + k, (CELLS,), is_hybrid) for k in range(3)]
    peepholes: Operands = [*looks] if "peepholes" in form else [None] * 3
    if "coupled" in form:
        peepholes[0] = None
    biases: Operands = [
        fixed(f"{name}b{gate}", random(seed + 20 + gate, CELLS), "float32") for gate in range(4)
    ]
    if "coupled" in form:
        biases[0] = None
    projection: Operands = [None, None]
    if "projection" in form:
        projection = [
            weights(f"{name}j", seed + 30, (outputs, CELLS), is_hybrid),
            fixed(f"{name}jb", random(seed + 31, outputs), "float32"),
        ]
    found = own("w", (CELLS, INPUTS)) + own("r", (CELLS, outputs))
    return [*found, *peepholes, *biases, *projection], outputs


def states(name: str, outputs: int) -> Operands:
    sizes = {"h": outputs, "c": CELLS}
    return [
        replace(floats(f"{name}{kind}", BATCH, size), is_variable=True)
        for kind, size in sizes.items()
    ]


def compare(
    kind: str, operands: Operands, shapes: Sequence[Sequence[int]], options: str, **values: object
) -> None:
    results = [floats(f"y{k}", *shape) for k, shape in enumerate(shapes)]
    model = read(memoryview(one_operator(kind, operands, results, options, values)), kind)
    inputs = {
        value.name: random(seed, *value.shape) / 2 for seed, value in enumerate(model.inputs, 40)
    }
    names = [r.name for r in results] + [state.output for state in model.states]
    expected = dict(reference_of(model).tensors(model, inputs, names))
    found = ex.interpret(model, inputs)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-6, atol=2e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "form",
    [
        "coupled", "peepholes", "projection", "norms", "coupled peepholes projection norms",
        "hybrid", "hybrid coupled peepholes projection norms", "hybrid zeros projection",
    ],
)  # fmt: skip
def test_an_lstm_of_any_form_is_litert_s(form: str):
    own, outputs = direction(form, "", 1)
    norms: Operands = [
        fixed(f"n{gate}", random(60 + gate, CELLS), "float32") if "norms" in form else None
        for gate in range(4)
    ]
    if "coupled" in form:
        norms[0] = None
    compare(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [floats("x", BATCH, STEPS, INPUTS), *own, *states("", outputs), *norms],
        [(BATCH, STEPS, outputs)],
        "UnidirectionalSequenceLSTMOptions",
        FusedActivationFunction=4, CellClip=0.8, ProjClip=0.7,
        AsymmetricQuantizeInputs="zeros" in form,
    )  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", ["", "coupled peepholes projection", "hybrid", "hybrid zeros"])
@pytest.mark.parametrize("is_merged", [False, True])
def test_an_lstm_of_both_directions_is_litert_s(form: str, is_merged: bool):
    forward, outputs = direction(form, "f", 1)
    backward, _ = direction(form, "k", 5)
    shape = (STEPS, BATCH)
    compare(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        [
            floats("x", *shape, INPUTS), *forward, *backward, *states("f", outputs),
            *states("k", outputs), *[None] * 9,
        ],
        [(*shape, 2 * outputs)] if is_merged else [(*shape, outputs)] * 2,
        "BidirectionalSequenceLSTMOptions",
        FusedActivationFunction=4, MergeOutputs=is_merged, TimeMajor=True,
        AsymmetricQuantizeInputs="zeros" in form,
    )  # fmt: skip


def test_merged_directions_with_the_batch_first_are_refused():
    forward, outputs = direction("", "f", 1)
    backward, _ = direction("", "k", 5)
    with pytest.raises(UnsupportedError, match="side by side with the batch first"):
        compare(
            "BIDIRECTIONAL_SEQUENCE_LSTM",
            [
                floats("x", BATCH, STEPS, INPUTS), *forward, *backward, *states("f", outputs),
                *states("k", outputs), *[None] * 9,
            ],
            [(BATCH, STEPS, 2 * outputs)],
            "BidirectionalSequenceLSTMOptions",
            FusedActivationFunction=4, MergeOutputs=True, TimeMajor=False,
        )  # fmt: skip


def test_an_lstm_of_one_step_is_litert_s():
    own, outputs = direction("peepholes", "", 1)
    compare(
        "LSTM",
        [floats("x", BATCH, INPUTS), *own, *states("", outputs)],
        [(BATCH, outputs)],
        "LSTMOptions",
        FusedActivationFunction=4, CellClip=0.8,
    )  # fmt: skip


@pytest.mark.parametrize("is_variable", [False, True])
def test_an_lstm_of_the_kernel_basic_is_litert_s(is_variable: bool):
    before = [replace(floats(name, BATCH, CELLS), is_variable=is_variable) for name in ("h", "c")]
    depth = INPUTS + CELLS
    compare(
        "LSTM",
        [
            floats("x", BATCH, INPUTS),
            before[0],
            fixed("w", random(3, 4 * CELLS, depth) / 2, "float32"),
            fixed("b", random(4, 4 * CELLS), "float32"),
            before[1],
        ],
        [(BATCH, CELLS), (BATCH, CELLS), (BATCH, depth), (BATCH, 4 * CELLS)],
        "LSTMOptions",
        FusedActivationFunction=4, KernelType=1,
    )  # fmt: skip


def open_in_time(kind: str, form: str) -> bytes:
    """A sequence with an open number of steps."""
    forward, outputs = direction(form, "f", 1)
    backward, _ = direction(form, "k", 5)
    is_both = kind.startswith("BIDIRECTIONAL")
    shape, signature = ((1, BATCH), (-1, BATCH)) if is_both else ((BATCH, 1), (BATCH, -1))
    x = TensorOf(name="x", shape=(*shape, INPUTS), signature=(*signature, INPUTS))
    results = [
        TensorOf(name=f"y{k}", shape=(*shape, outputs), signature=(*signature, outputs))
        for k in range(1 + is_both)
    ]
    operands: Operands = [x, *forward, *states("f", outputs), *[None] * 4]
    if is_both:
        held = [*states("f", outputs), *states("k", outputs)]
        operands = [x, *forward, *backward, *held, *[None] * 9]
    options = "BidirectionalSequenceLSTMOptions" if is_both else "UnidirectionalSequenceLSTMOptions"
    values = {"FusedActivationFunction": 4, "TimeMajor": is_both}
    return one_operator(kind, operands, results, options, values)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["", "coupled peepholes projection"])
@pytest.mark.parametrize("kind", ["UNIDIRECTIONAL", "BIDIRECTIONAL"])
def test_an_lstm_ends_with_the_steps_of_a_call(kind: str, form: str):
    model = read(memoryview(open_in_time(f"{kind}_SEQUENCE_LSTM", form)), "net")
    axis = 0 if kind == "BIDIRECTIONAL" else 1
    _, outputs = direction(form, "f", 1)
    names = [value.name for value in model.outputs]
    compiled = ex.compile(model, dimensions={f"x.{axis}": (1, 5)})
    with compiled.open() as program:
        program.run(compiled.example_inputs(0) | {"x": np.full((5, 2, 5), np.nan, np.float32)
                    if axis == 0 else np.full((2, 5, 5), np.nan, np.float32)})  # fmt: skip
        for steps in (5, 1, 3):
            held = {"h": outputs, "c": CELLS}
            inputs = {
                value.name: random(seed, BATCH, held[value.name[-1]]) / 2
                for seed, value in enumerate(model.inputs[1:], 40)
            }
            x = random(steps, *((steps, BATCH) if axis == 0 else (BATCH, steps)), INPUTS)
            inputs[model.inputs[0].name] = x
            expected = dict(reference_of(model).tensors(model, inputs, names))
            found = program.run(inputs)
            for name in names:
                np.testing.assert_allclose(found[name], expected[name], rtol=2e-6, atol=2e-6)
