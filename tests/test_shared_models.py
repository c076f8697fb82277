"""Real trained models: equal to their reference after every pass and on both targets.

The models are not part of the project: their folder is named by EXPLORER_MODELS (see conftest).
`explorer check MODELS/onnx --files MODELS --cases benchmarks/models.toml` is the same from the
command line, and docs/models.md its table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explorer.cases.cases import Case, read_cases
from explorer.cases.sources import file_in
from explorer.runtime.devices import list_devices
from verification.checks.examine import PASSED, REFUSED, examine

CASES = Path(__file__).resolve().parent.parent / "benchmarks" / "models.toml"

EQUAL = (
    "acasxu_1_1",
    "alibaba_ic",
    "alibaba_kws",
    "alibaba_vww",
    "autoencoder1d",
    "blazeface",
    "cct_1_16_16_64",
    "cct_2_32_32_128",
    "cct_2_32_32_128_opset20",
    "dtln_1",
    "dtln_2",
    "eegformer",
    "hyperlpr_litecls_96",
    "light_squeezenet",
    "magika_v3_3",
    "mlperf_ad_deeploy",
    "mlperf_ic_deeploy",
    "mlperf_kws_deeploy",
    "mnist-8",
    "mobilenet_v2_035_128_st",
    "oww_embedding",
    "qonnx_kws_w3a3",
    "resnet8_cifar10_kaijiang",
    "rl_g1_policy",
    "rl_go1_policy",
    "super_resolution-10",
    "tensorwarp_tiny_transformer",
    "tiny_gpt2_past",
    "tinyvit_demo",
    "transformer_deepquant",
    "ultraface_rfb320",
    "vit_tracker",
    "vww_96_float",
)
"""Those that take less than about a minute; the others stand in the table."""

EACH_TIME = (
    "alibaba_kws",
    "autoencoder1d",
    "cct_1_16_16_64",
    "dtln_1",
    "mnist-8",
    "qonnx_kws_w3a3",
    "tensorwarp_tiny_transformer",
    "tiny_gpt2_past",
)
"""One of each kind: with windows, products, attention, recurrence, integers, symbolic sizes. The
others are swept (`make sweeps`), for they are half of all the tests' time."""


EACH_TIME_IN_OPENCL = ("autoencoder1d", "cct_1_16_16_64", "dtln_1", "mnist-8")
"""Fewer, for the driver's compiler takes longer than ours."""


def cases_of_models() -> list[Any]:
    """Every model on either target, those that are not for each time marked as a sweep."""
    each_time = {"cpu": EACH_TIME, "opencl": EACH_TIME_IN_OPENCL}
    return [
        pytest.param(name, target, marks=() if name in each_time[target] else pytest.mark.sweep)
        for name in EQUAL
        for target in each_time
    ]


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return read_cases(CASES)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), cases_of_models())
def test_a_real_model_equals_its_reference_after_every_pass_and_reaches_its_goldens(
    name: str, target: str, cases: dict[str, Case], models_folder: Path
):
    if target == "opencl" and not any(d.usable for d in list_devices(("opencl",))):
        pytest.skip("no usable OpenCL device; `explorer devices` says why")
    path = models_folder / "onnx" / f"{name}.onnx"
    finding = examine(path, target, cases.get(name, Case()), models_folder)
    assert finding.status == PASSED, finding.reason
    assert finding.tensors > 0
    assert all(golden["passed"] for golden in finding.goldens)


def test_operators_of_extensions_are_refused_by_name(models_folder: Path):
    path = models_folder / "onnx" / "supres_ort_web.onnx"
    finding = examine(path, "cpu", Case(), models_folder)
    assert finding.status == REFUSED
    assert "SuperResolutionPreProcess (ai.onnx.contrib" in finding.reason
    assert "SuperResolutionPostProcess" in finding.reason


def test_what_runs_each_time_is_part_of_the_sweep():
    assert set(EACH_TIME) < set(EQUAL)


def test_every_case_belongs_to_a_model_and_its_files_are_there(
    cases: dict[str, Case], models_folder: Path
):
    for name, case in cases.items():
        assert (models_folder / "onnx" / f"{name}.onnx").is_file(), name
        for golden in case.goldens:
            for source in (*golden.inputs.values(), *golden.outputs.values()):
                assert source.value is not None or file_in(models_folder, source.file)
        for source in (*case.inputs.values(), *case.layers.values()):
            assert source.value is not None or file_in(models_folder, source.file)
        for labels in case.labels:
            assert file_in(models_folder, labels.file)
