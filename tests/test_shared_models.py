"""Real trained models, equal to onnxruntime after every pass and on both targets.

The models are not part of the project: their folder is named by EXPLORER_MODELS (see conftest).
`explorer check MODEL --target T` is the same comparison from the command line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.cli.models import load_with_weights
from explorer.runtime.devices import list_devices

TOLERANCE = 1e-4

MODELS = (
    "acasxu_1_1",
    "alibaba_ic",
    "alibaba_kws",
    "alibaba_vww",
    "autoencoder1d",
    "blazeface",
    "cct_1_16_16_64",
    "cct_2_32_32_128_opset20",
    "dtln_1",
    "dtln_2",
    "hyperlpr_litecls_96",
    "light_squeezenet",
    "magika_v3_3",
    "mnist-8",
    "mobilenet_v2_035_128_st",
    "oww_embedding",
    "resnet8_cifar10_kaijiang",
    "rl_g1_policy",
    "rl_go1_policy",
    "super_resolution-10",
    "tensorwarp_tiny_transformer",
    "tinyvit_demo",
    "transformer_deepquant",
    "ultraface_rfb320",
    "vit_tracker",
    "vww_96_float",
)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_equals_onnxruntime_after_every_pass(
    name: str, target: str, models_folder: Path
):
    if target == "opencl" and not any(d.usable for d in list_devices(("opencl",))):
        pytest.skip("no usable OpenCL device; `explorer devices` says why")
    # The light models of the onnx package have constant weights, which would hide packing faults.
    model = load_with_weights(str(models_folder / "onnx" / f"{name}.onnx"))
    compilation = ex.compile(model, target=target)
    try:
        accuracy = compilation.accuracy(tolerance=TOLERANCE)
        assert accuracy.passed, f"{accuracy.summary}; {accuracy.bisect()}"
        assert all(p.tensors for p in accuracy.report.passes)
        assert len(accuracy.report.outputs) == len(compilation.model.outputs)
    finally:
        compilation.close()
