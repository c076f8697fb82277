"""Recurrent layers of bytes: results and states are LiteRT's, bit by bit, from random states on."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of, one_operator

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

GATES = 4


def quantized(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    scale: float,
    zero: int = 0,
    data: np.ndarray | None = None,
    is_variable: bool = False,
) -> TensorOf:
    return TensorOf(
        name=name,
        shape=shape,
        element_type=dtype,
        scales=[scale],
        zeros=[zero],
        data=data,
        is_variable=is_variable,
    )


def constants(
    generator: np.random.Generator, name: str, shape: tuple[int, ...], dtype: str, most: int
) -> TensorOf:
    data = generator.integers(-most, most + 1, shape).astype(dtype)
    scale = float(np.float32(generator.uniform(0.004, 0.02)))
    return quantized(name, shape, dtype, scale, data=data)


def lstm(
    seed: int,
    *,
    cell_scale: float,
    cell_clip: float,
    batch: int,
    steps: int,
    is_time_major: bool,
    form: str = "",
) -> SourceModel:
    """form: words out of coupled, projection, clipped, unbiased, saturated."""
    inputs, cells = 10, 24
    hidden = 18 if "projection" in form else cells
    between = (0.0081, 3) if "projection" in form else (0.0079, -6)
    between = (0.0062, 7) if "saturated" in form else between
    generator = np.random.default_rng(seed)
    outer = (steps, batch) if is_time_major else (batch, steps)
    gates = range("coupled" in form, GATES)

    def each(name: str, shape: tuple[int, ...], dtype: str, most: int) -> list[TensorOf | None]:
        drawn = {g: constants(generator, f"{name}{g}", shape, dtype, most) for g in gates}
        return [drawn.get(gate) for gate in range(GATES)]

    projection: list[TensorOf | None] = [None, None]
    if "projection" in form:
        projection[0] = constants(generator, "j", (hidden, cells), "int8", 127)
        if "unbiased" not in form:
            projection[1] = constants(generator, "jb", (hidden,), "int32", 2000)
    operands = [
        quantized("x", (*outer, inputs), "int8", 0.05, -9),
        *each("w", (cells, inputs), "int8", 127),
        *each("r", (cells, hidden), "int8", 127),
        *[None] * 3,
        *each("b", (cells,), "int32", 3000),
        *projection,
        quantized("h", (batch, hidden), "int8", 0.0079, -6, is_variable=True),
        quantized("c", (batch, cells), "int16", cell_scale, is_variable=True),
        *[None] * GATES,
    ]
    model = one_operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        operands,
        [quantized("y", (*outer, hidden), "int8", 0.0079, -6)],
        "UnidirectionalSequenceLSTMOptions",
        {
            "FusedActivationFunction": 4,
            "CellClip": cell_clip,
            "ProjClip": 0.5 if "clipped" in form else 0.0,
            "TimeMajor": is_time_major,
        },
        intermediates=[
            *(quantized(f"i{gate}", (0,), "int16", 2.0**-12) for gate in range(GATES)),
            quantized("between", (0,), "int8", *between),
        ],
    )
    return read(memoryview(model), "lstm")


def svdf(seed: int, rank: int) -> SourceModel:
    batch, inputs, units, memory = 40, 20, 30, 7
    filters = units * rank
    generator = np.random.default_rng(seed)
    tensors = [
        quantized("x", (batch, inputs), "int8", 0.03, 5),
        constants(generator, "features", (filters, inputs), "int8", 127),
        constants(generator, "times", (filters, memory), "int16", 32767),
        constants(generator, "b", (units,), "int32", 90000),
        quantized("s", (batch, filters * memory), "int16", 0.0005, is_variable=True),
        quantized("y", (batch, units), "int8", 7.0, -128),
    ]
    node = OperatorOf(
        kind="SVDF",
        inputs=range(5),
        outputs=[5],
        options="SVDFOptions",
        values={"Rank": rank, "FusedActivationFunction": 1},
    )
    return read(memoryview(model_of(tensors, [node], [0], [5])), "svdf")


def random_inputs(model: SourceModel, seed: int) -> dict[str, np.ndarray]:
    """Over the whole range of their types, states too."""
    generator, found = np.random.default_rng(seed), {}
    for value in model.inputs:
        limits = np.iinfo(value.element_type)
        shape = [int(size) for size in value.shape or ()]
        drawn = generator.integers(limits.min, limits.max + 1, shape)
        found[value.name] = drawn.astype(value.element_type)
    return found


def assert_is_litert(model: SourceModel, inputs: dict[str, np.ndarray]) -> None:
    names = [value.name for value in model.outputs]
    expected = dict(reference_of(model).tensors(model, inputs, names))
    found = ex.interpret(model, inputs)
    assert len(expected) == len(names) > 1
    for name, right in expected.items():
        assert np.unique(right).size > 10  # nothing is saturated throughout
        np.testing.assert_array_equal(found[name], right)


@pytest.mark.parametrize(
    ("cell_scale", "cell_clip", "is_time_major"),
    [(2.0**-11, 3.0, False), (2.0**-12, 0.0, True), (2.0**-13, 2.0, False)],
)
def test_an_lstm_of_bytes_is_litert_s(cell_scale: float, cell_clip: float, is_time_major: bool):
    model = lstm(
        1,
        cell_scale=cell_scale,
        cell_clip=cell_clip,
        batch=8,
        steps=6,
        is_time_major=is_time_major,
    )
    assert_is_litert(model, random_inputs(model, 2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "form",
    [
        "coupled", "projection", "projection unbiased",
        "projection clipped", "projection saturated", "coupled projection",
    ],
)  # fmt: skip
def test_an_lstm_of_bytes_in_any_form_is_litert_s(form: str):
    sizes = {"cell_clip": 0.0, "batch": 8, "steps": 5, "is_time_major": False}
    model = lstm(8, cell_scale=2.0**-12, **sizes, form=form)
    assert_is_litert(model, random_inputs(model, 3))


@pytest.mark.parametrize("rank", [1, 2])
def test_svdf_of_bytes_is_litert_s(rank: int):
    model = svdf(3, rank)
    assert_is_litert(model, random_inputs(model, 4))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["", "coupled", "coupled projection clipped"])
def test_generated_code_of_an_lstm_of_bytes_means_the_same(form: str):
    sizes = {"cell_clip": 0.0, "batch": 2, "steps": 2, "is_time_major": False}
    model = lstm(5, cell_scale=2.0**-12, **sizes, form=form)
    inputs = random_inputs(model, 6)
    expected = ex.interpret(model, inputs)
    compilation = ex.compile(model)
    found = compilation.run(inputs)
    compilation.close()
    for name, right in expected.items():
        np.testing.assert_array_equal(found[name], right)


def test_states_begin_with_what_stands_for_zero():
    states = {state.input: state for state in lstm(
        7, cell_scale=2.0**-12, cell_clip=0.0, batch=1, steps=1, is_time_major=False
    ).states}  # fmt: skip
    assert set(states) == {"h", "c"}
    assert np.all(states["h"].initial == -6) and np.all(states["c"].initial == 0)
