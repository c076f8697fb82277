"""Random models are valid and repeatable, and the devices agree with onnxruntime on them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
import pytest

from explorer.compilation import Compilation
from explorer.onnx_backend.differential import DEFECTS, compare_seed, difference
from explorer.onnx_backend.generation import MOST_ELEMENTS, generate


def open_here(compilation: Compilation):
    return compilation.open(isolated=False)


def test_a_seed_is_one_model():
    first, second = generate(3), generate(3)
    assert first.model == second.model
    assert first.model != generate(4).model
    for name, array in first.inputs.items():
        np.testing.assert_array_equal(array, second.inputs[name])


def test_models_are_valid_and_their_inputs_fit():
    seen: set[str] = set()
    for seed in range(120):
        generated = generate(seed)
        onnx.checker.check_model(generated.model, full_check=True)
        declared = {i.name: i.type.tensor_type for i in generated.model.graph.input}
        assert declared.keys() == generated.inputs.keys()
        for name, array in generated.inputs.items():
            assert tuple(d.dim_value for d in declared[name].shape.dim) == array.shape
            assert array.size <= MOST_ELEMENTS
        assert generated.operators
        seen.update(generated.operators)
    assert len(seen) > 80  # of about 105 operators that recipes know


def test_most_models_run_in_onnxruntime():
    rejected = 0
    for seed in range(60):
        generated = generate(seed)
        try:
            session = onnxruntime.InferenceSession(generated.model.SerializeToString())
            session.run(None, generated.inputs)
        except Exception:
            rejected += 1
    assert rejected < 10


@pytest.mark.slow
def test_interpreter_and_c_agree_with_onnxruntime():
    answers = [compare_seed(seed, ("INTERPRETER", "CPU"), open_here) for seed in range(1000, 1040)]
    assert [a for a in answers if a["status"] in DEFECTS] == []
    assert sum(a["status"] == "agreed" for a in answers) > 30


@pytest.mark.opencl
@pytest.mark.slow
def test_opencl_agrees_with_onnxruntime(opencl_device_record):
    answers = [compare_seed(seed, ("OPENCL",), open_here) for seed in range(1040, 1052)]
    assert [a for a in answers if a["status"] in DEFECTS] == []


class Wrong:
    """An executable whose numbers are slightly off."""

    def __init__(self, compilation: Compilation):
        self._right = compilation.open(isolated=False)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: array + 1 for name, array in self._right.run(inputs).items()}

    def close(self) -> None:
        self._right.close()


def test_a_wrong_number_is_found_and_the_model_written_out(tmp_path):
    answer = compare_seed(0, ("CPU",), Wrong, tmp_path)  # pyright: ignore[reportArgumentType]
    assert answer["status"] == "differs"
    assert onnx.load(tmp_path / "0.onnx") == generate(0).model
    with np.load(tmp_path / "0.npz") as arrays:
        assert set(arrays) == set(generate(0).inputs)


ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("actual", "expected", "found"),
    [
        (ONES, ONES, ""),
        (ONES * np.float32(1.00001), ONES, ""),
        (ONES * np.float32(1.001), ONES, "max relative 1.0e-03"),
        (ONES.astype(np.float64), ONES, "float64 of shape (3,) instead of float32 of shape (3,)"),
        (np.ones((3, 1), np.float32), ONES, "float32 of shape (3, 1) instead of"),
        (np.array([1, np.nan, 1], np.float32), ONES, "infinities or NaN stand elsewhere"),
        (ONES, np.array([1, np.inf, 1], np.float32), "infinities or NaN stand elsewhere"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 elements differ"),
        (np.array([np.inf, 1]), np.array([np.inf, 1]), ""),
    ],
)
def test_differences_are_told(actual, expected, found):
    told = difference(actual, expected)
    assert told.startswith(found) if found else told == ""
