"""Inputs that are drawn from what is known of them."""

from dataclasses import dataclass

import numpy as np
import pytest

from explorer.accuracy.drawing import KnownValues, draw_inputs, how_drawn
from explorer.importers.model import SourceModel
from explorer.results.data import CALIBRATED, NORMAL, OBSERVED, QUANTIZED, WHOLE, DataRecord


@dataclass(frozen=True)
class Value:
    name: str
    shape: tuple[int, ...]
    element_type: str


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> SourceModel:
    class Model:
        inputs = (Value("x", (40, 5), "float32"), Value("k", (3,), "int8"))
        states = ()

    def drawn(model: object, seed: int, sizes: object) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(seed)
        floats = generator.standard_normal((40, 5)).astype(np.float32)
        return {"x": floats, "k": np.arange(3, dtype=np.int8)}

    monkeypatch.setattr("explorer.accuracy.drawing.random_inputs", drawn)
    return Model()  # pyright: ignore[reportReturnType]


def test_floats_lie_in_the_calibrated_range_and_fill_it(model: SourceModel):
    known = {"x": KnownValues(CALIBRATED, 2.0, 18.0)}
    x = draw_inputs(model, 0, {}, known)["x"]
    assert (x.dtype, x.shape) == (np.float32, (40, 5))
    assert 2 <= x.min() < 3
    assert 17 < x.max() <= 18
    np.testing.assert_array_equal(x, draw_inputs(model, 0, {}, known)["x"])
    assert not np.array_equal(x, draw_inputs(model, 1, {}, known)["x"])


def test_floats_are_as_frequent_as_they_were_observed(model: SourceModel):
    known = {"x": KnownValues(OBSERVED, 0.0, 4.0, (3, 0, 0, 1), limits=(0.5, 3.25))}
    x = draw_inputs(model, 0, {}, known)["x"]
    assert not ((x > 1) & (x < 3)).any()
    assert 0.6 < (x <= 1).mean() < 0.9
    assert (x.min(), x.max()) == (0.5, 3.25)


def test_what_is_known_of_nothing_changes_nothing(model: SourceModel):
    plain = draw_inputs(model, 0, {})
    known = {"k": KnownValues(CALIBRATED, 0, 1), "z": KnownValues(CALIBRATED, 0, 1)}
    for name, array in draw_inputs(model, 0, {}, known).items():
        np.testing.assert_array_equal(array, plain[name])


def test_an_observation_without_numbers_is_drawn_from_its_range(model: SourceModel):
    known = {"x": KnownValues(OBSERVED, 1.0, 1.0, (0,))}
    assert set(draw_inputs(model, 0, {}, known)["x"].ravel()) == {1.0}


def test_it_is_said_how_each_input_was_drawn(model: SourceModel):
    assert how_drawn(model) == (("x", NORMAL), ("k", WHOLE))
    known = {"x": KnownValues(QUANTIZED, 0.0, 1.0)}
    assert how_drawn(model, known) == (("x", QUANTIZED), ("k", WHOLE))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (DataRecord(drawn=(("x", NORMAL),)), "seeded noise"),
        (DataRecord(drawn=(("k", WHOLE),)), "seeded noise"),
        (DataRecord(drawn=(("x", CALIBRATED),)), "seeded noise, within calibrated ranges"),
        (
            DataRecord(drawn=(("x", OBSERVED), ("y", NORMAL))),
            "seeded noise, as calibration observed, other inputs from a normal distribution",
        ),
        (DataRecord(name="eval.npz", examples=1), "eval.npz, 1 example"),
        (DataRecord(name="e", examples=2000, drawn=(("m", WHOLE),)), "e, 2,000 examples; m drawn"),
    ],
)
def test_data_in_words(record: DataRecord, words: str):
    assert str(record) == words
