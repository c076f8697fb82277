"""Programs within budgets against onnxruntime: all sample models, and ten others where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer.errors import MemoryBudgetError

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))
OTHERS = [
    "resnet8_cifar10_kaijiang", "vww_96_float", "mobilenet_v2_035_128_st", "ultraface_rfb320",
    "blazeface", "mlperf_ic_deeploy", "mlperf_kws_deeploy", "light_resnet50", "sinet_portrait",
    "dtln_1",
]  # fmt: skip
SHARES = (0.75, 0.5)
"""Budgets as shares of what the program takes by itself."""


def check(path: Path) -> None:
    plain = explorer.compile(path)
    inputs = plain.example_inputs()
    assert plain.accuracy(inputs).passed
    for share in SHARES:
        budget = int(share * plain.memory.peak_bytes)
        try:
            fork = plain.fork(budget_bytes=budget)
        except MemoryBudgetError as error:
            budget = error.needed_bytes
            fork = plain.fork(budget_bytes=budget)
        assert fork.memory.peak_bytes <= budget
        assert fork.accuracy(inputs).passed, f"{path.name} within {share} of its bytes"


@pytest.mark.sweep
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_models_within_budgets_are_right(path: Path):
    check(path)


@pytest.mark.sweep
@pytest.mark.parametrize("name", OTHERS)
def test_shared_models_within_budgets_are_right(name: str, models_folder: Path):
    check(models_folder / "onnx" / f"{name}.onnx")
