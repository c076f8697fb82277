"""Models of one operator on floats and plain integers, and LiteRT's answers beside the importer's.

check(case("ABS", [floats("x", 3, 4)], (3, 4)), seed=1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import explorer as ex
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from verification.conformance.tflite.models import TensorOf, one_operator

Shape = tuple[int, ...]


def floats(name: str, *shape: int) -> TensorOf:
    return TensorOf(name=name, shape=shape)


def whole(name: str, *shape: int) -> TensorOf:
    return TensorOf(name=name, shape=shape, element_type="int32")


def fixed(name: str, data: Any, dtype: str = "int32") -> TensorOf:
    array = np.asarray(data, dtype)
    return TensorOf(name=name, shape=array.shape, element_type=dtype, data=array)


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


Case = tuple[str, Sequence[TensorOf], Sequence[TensorOf], str, Mapping[str, Any]]


def case(
    kind: str, operands: Sequence[TensorOf], shape: Shape, options: str = "",
    values: Mapping[str, Any] | None = None, dtype: str = "float32", count: int = 1,
) -> Case:  # fmt: skip
    results = [
        TensorOf(name=f"y{index}", shape=shape, element_type=dtype) for index in range(count)
    ]
    return kind, operands, results, options, values or {}


def check(one: Case, seed: int) -> None:
    """Compares all results on seeded inputs."""
    kind, operands, results, options, values = one
    model = read(memoryview(one_operator(kind, operands, results, options, values)), kind)
    generator = np.random.default_rng(seed)
    inputs = {}
    for value in model.inputs:
        drawn = 2 * generator.standard_normal(value.shape)
        inputs[value.name] = (drawn > 0 if value.element_type == "bool" else drawn).astype(
            value.element_type
        )
    names = [tensor.name for tensor in results]
    expected = dict(reference_of(model).tensors(model, inputs, names))
    found = ex.interpret(model, inputs)
    for name in names:
        assert found[name].dtype == expected[name].dtype
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-6, atol=2e-6)
