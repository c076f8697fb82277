"""Recurrent layers of bytes: results and states are LiteRT's, bit by bit, from random states on."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

GATES = 4
LEFT_OUT = -1


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
    seed: int, *, cell_scale: float, cell_clip: float, batch: int, steps: int, is_time_major: bool
) -> SourceModel:
    inputs, hidden = 10, 24
    generator = np.random.default_rng(seed)
    outer = (steps, batch) if is_time_major else (batch, steps)
    tensors = [quantized("x", (*outer, inputs), "int8", 0.05, -9)]
    for name, depth in (("w", inputs), ("r", hidden)):
        tensors += [
            constants(generator, f"{name}{gate}", (hidden, depth), "int8", 127)
            for gate in range(GATES)
        ]
    tensors += [constants(generator, f"b{gate}", (hidden,), "int32", 3000) for gate in range(GATES)]
    tensors += [
        quantized("h", (batch, hidden), "int8", 0.0079, -6, is_variable=True),
        quantized("c", (batch, hidden), "int16", cell_scale, is_variable=True),
        quantized("y", (*outer, hidden), "int8", 0.0079, -6),
        *(quantized(f"i{gate}", (0,), "int16", 2.0**-12) for gate in range(GATES)),
        quantized("between", (0,), "int8", 0.0079, -6),
    ]
    absent = [LEFT_OUT] * 3
    node = OperatorOf(
        kind="UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs=[*range(9), *absent, *range(9, 13), LEFT_OUT, LEFT_OUT, 13, 14, *absent, LEFT_OUT],
        outputs=[15],
        options="UnidirectionalSequenceLSTMOptions",
        values={"FusedActivationFunction": 4, "CellClip": cell_clip, "TimeMajor": is_time_major},
        intermediates=range(16, 21),
    )
    return read(memoryview(model_of(tensors, [node], [0], [15])), "lstm")


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


@pytest.mark.parametrize("rank", [1, 2])
def test_svdf_of_bytes_is_litert_s(rank: int):
    model = svdf(3, rank)
    assert_is_litert(model, random_inputs(model, 4))


def test_generated_code_of_an_lstm_of_bytes_means_the_same():
    model = lstm(5, cell_scale=2.0**-12, cell_clip=0.0, batch=2, steps=2, is_time_major=False)
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
