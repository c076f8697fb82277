"""Integers of TFLite's operators are those of LiteRT's reference kernels, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import explorer as ex
from explorer.compilation import Compilation
from tests.importers.tflite_cases import CASES, STORED, result_names, whole_inputs, whole_model


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compilation]:
    path = tmp_path_factory.mktemp("cases") / "cases.tflite"
    path.write_bytes(whole_model())
    compilation = ex.compile(path)
    yield compilation
    compilation.close()


@pytest.fixture(scope="module")
def stored() -> dict[str, np.ndarray]:
    with np.load(STORED) as file:
        return dict(file)


@pytest.fixture(scope="module")
def interpreted(compiled: Compilation) -> dict[str, np.ndarray]:
    return ex.interpret(compiled.model, whole_inputs())


@pytest.fixture(scope="module")
def ran(compiled: Compilation) -> dict[str, np.ndarray]:
    return compiled.run(whole_inputs())


@pytest.mark.parametrize("case", CASES)
def test_what_the_import_means_is_what_litert_computes(
    case: str, interpreted: dict[str, np.ndarray], stored: dict[str, np.ndarray]
):
    assert stored[case].size >= 1000
    np.testing.assert_array_equal(interpreted[result_names()[case]], stored[case])


@pytest.mark.sampled(13)
@pytest.mark.parametrize("case", CASES)
def test_so_is_what_generated_code_computes(
    case: str, ran: dict[str, np.ndarray], stored: dict[str, np.ndarray]
):
    np.testing.assert_array_equal(ran[result_names()[case]], stored[case])
