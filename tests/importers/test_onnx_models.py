"""Whole models: every output of the imported program against onnxruntime, or what came with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.accuracy.metrics import tensor_error
from explorer.accuracy.oracle import random_inputs, reference
from explorer.errors import ModelError, UnsupportedError
from explorer.importers import load
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.file.randomize import randomize_constant_weights
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.origins import origin_of
from explorer.ir.structure import value_name

TOLERANCE = 1e-4


def swept(*names: str) -> list[Any]:
    """Parameters of a test that `make sweeps` runs."""
    return [pytest.param(name, marks=pytest.mark.sweep) for name in names]


SAMPLES = ("digits_mlp", "digits_cnn", "digits_resnet", "digits_mobilenet", "digits_transformer")

SIZES = {
    "bert_toy_ort": {"max_seq_len_in_batch": 8},
    "byte_sb_bidi_lstm": {"length": 12},
    "gpt2_past_ort": {"seq_len": 5},
    "plcmos_v2": {"frames": 20},
    "ppocr_mobile_v2_cls": {"p2o.DynamicDimension.1": 64, "p2o.DynamicDimension.2": 64},
    "tiny_gpt2_past": {"seq_len": 3, "past_seq_len": 4, "total_seq_len": 7},
}
MODELS = [
    "acasxu_1_1",
    "alibaba_ic",
    "alibaba_kws",
    "alibaba_vww",
    "autoencoder1d",
    "bert_toy_ort",
    "blazeface",
    "byte_sb_bidi_lstm",
    "cct_1_16_16_64",
    "cct_2_32_32_128_opset20",
    "dtln_1",
    "dtln_2",
    "fastestdet",
    "hyperlpr_litecls_96",
    "magika_v3_3",
    "mnist-8",
    "mobilenet_v2_035_128_st",
    "oww_embedding",
    "plcmos_v2",
    "ppocr_mobile_v2_cls",
    "resnet8_cifar10_kaijiang",
    "rl_g1_policy",
    "rl_go1_policy",
    "shufflenet-v2-12-int8",
    "super_resolution-10",
    "tensorwarp_tiny_transformer",
    "tiny_gpt2_past",
    "tinyvit_demo",
    "transformer_deepquant",
    "ultraface_rfb320",
    "vit_tracker",
    "vww_96_float",
]
LONGER_MODELS = ("gpt2_past_ort", "gtcrn_simple", "sinet_portrait", "tfbert_qa_ort")
LARGE_MODELS = ["basic_pitch", "dnsmos_sig_bak_ovr", "simplified_ssd"]

TENSOR_BY_TENSOR = {
    # A rounding that falls to the other side moves a quantized tensor by a whole step.
    "qdq_multi_consumer": TOLERANCE,
    "mobilenetv2_ort_maui": TOLERANCE,
    # onnxruntime accumulates float16 in single precision: 11 bits of mantissa, some roundings.
    "squeezenet_fp16": 1e-2,
}
SATURATED_SIGMOIDS = {
    # onnxruntime approximates sigmoids below 1e-5 coarsely; with random pixels all scores are.
    "ppocr_v3_det": {"p2o.DynamicDimension.1": 64, "p2o.DynamicDimension.2": 64},
    "yolox_nano": {},
    "yunet_n_320": {},
}
WITH_GOLDEN_OUTPUTS = (
    "cct_2_32_32_128",
    "eegformer",
    "mlperf_ad_deeploy",
    "mlperf_ic_deeploy",
    "mlperf_kws_deeploy",
    "transformer_deepquant",
)
LIGHT = ("light_squeezenet", *swept("light_inception_v1", "light_resnet50"))


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_model_computes_what_onnxruntime_computes(
    name: str, sample_models: Path, compare: Callable
) -> None:
    model = load(sample_models / f"{name}.onnx")
    sizes = {"batch": 3} if name == "digits_mlp" else {}
    assert compare(model, random_inputs(model, 0, sizes), sizes) <= 2e-6


@pytest.mark.parametrize("name", SAMPLES)
def test_every_tensor_of_a_sample_model_is_compared(
    name: str, sample_models: Path, snapshot: Callable
) -> None:
    """Each value with an origin equals the source's tensor; all the source's tensors are found."""
    model = load(sample_models / f"{name}.onnx")
    inputs = random_inputs(model, 1)
    imported = snapshot(model)
    values, expected = imported.run(inputs), reference(model, inputs)
    for value, origin in imported.origins.items():
        tensor = origin.apply(expected[origin.tensor])
        assert tensor_error(value, "", values[value], tensor).max_relative <= 2e-6, value
    renamed = {n for n in expected if n not in {o.tensor for o in imported.origins.values()}}
    without_computation = ("dropout", "identity", "constant")
    assert all(any(part in n.lower() for part in without_computation) for n in renamed), renamed


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", [*MODELS, *swept(*LONGER_MODELS)])
def test_model_computes_what_onnxruntime_computes(
    name: str, models_folder: Path, compare: Callable
) -> None:
    model = load(models_folder / "onnx" / f"{name}.onnx")
    sizes = SIZES.get(name, {})
    inputs = random_inputs(model, 0, sizes)
    assert compare(model, inputs, _bound(inputs, model)) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", LARGE_MODELS)
def test_large_model_computes_what_onnxruntime_computes(
    name: str, models_folder: Path, compare: Callable
) -> None:
    model = load(models_folder / "onnx" / f"{name}.onnx")
    inputs = random_inputs(model, 0)
    assert compare(model, inputs, _bound(inputs, model)) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tolerance"), TENSOR_BY_TENSOR.items())
def test_each_operation_computes_what_onnxruntime_computes_from_the_same_operands(
    name: str, tolerance: float, models_folder: Path, snapshot: Callable
) -> None:
    model = load(models_folder / "onnx" / f"{name}.onnx")
    inputs = random_inputs(model, 0)
    imported = snapshot(model, _bound(inputs, model))
    expected = reference(model, inputs, [o.tensor for o in imported.origins.values()])
    fed = {value: o.apply(expected[o.tensor]) for value, o in imported.origins.items()}
    computed = imported.run(inputs, replaced=fed)
    errors = {v: tensor_error(v, "", computed[v], fed[v]).max_relative for v in fed}
    assert max(errors.values()) <= tolerance


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sizes"), SATURATED_SIGMOIDS.items())
def test_all_but_saturated_sigmoids_agree(
    name: str, sizes: dict[str, int], models_folder: Path, snapshot: Callable
) -> None:
    """Everything that feeds a sigmoid agrees relatively, the tiny scores absolutely."""
    model = load(models_folder / "onnx" / f"{name}.onnx")
    inputs = random_inputs(model, 0, sizes)
    imported = snapshot(model, _bound(inputs, model))
    expected = reference(model, inputs, [o.tensor for o in imported.origins.values()])
    fed = {value: o.apply(expected[o.tensor]) for value, o in imported.origins.items()}
    computed = imported.run(inputs, replaced=fed)
    for value in fed:
        error = tensor_error(value, "", computed[value], fed[value])
        if imported.operations[value].get("kind") == "sigmoid":
            assert error.max_absolute <= 1e-6, value
        else:
            assert error.max_relative <= TOLERANCE, value


@pytest.mark.parametrize("name", WITH_GOLDEN_OUTPUTS)
def test_model_computes_its_golden_outputs(
    name: str, models_folder: Path, snapshot: Callable
) -> None:
    """Models that onnxruntime cannot load: their authors' outputs, exact for integers."""
    model = load(models_folder / "onnx" / f"{name}.onnx")
    folder = models_folder / "data" / "deeploy" / name
    with np.load(folder / "inputs.npz") as arrays:
        given = [arrays[k] for k in arrays.files]
    with np.load(folder / "outputs.npz") as arrays:
        expected = [arrays[k] for k in arrays.files]
    inputs = {
        value.name: array.astype(value.element_type)
        for value, array in zip(model.inputs, given, strict=True)
    }
    imported = snapshot(model)
    outputs = outputs_by_name(imported.module, imported.run(inputs))
    for (tensor, actual), golden in zip(outputs.items(), expected, strict=True):
        limit = 0.0 if golden.dtype.kind == "i" else TOLERANCE
        assert tensor_error(tensor, "", actual, golden).max_relative <= limit


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_light_model_with_random_weights_agrees_and_is_not_saturated(
    name: str, models_folder: Path, compare: Callable, snapshot: Callable
) -> None:
    proto = randomize_constant_weights(models_folder / "onnx" / f"{name}.onnx", seed=1)
    model = from_proto(proto, name)
    inputs = random_inputs(model, 0)
    assert compare(model, inputs) <= TOLERANCE
    (scores,) = reference(model, inputs, [model.outputs[0].name]).values()
    assert scores.max() < 0.9
    assert np.unique(scores).size > 100


def test_a_model_of_three_bit_weights_finds_its_authors_class(
    models_folder: Path, snapshot: Callable
) -> None:
    """QONNX's Quant, which onnxruntime does not have; the golden output is the class."""
    imported = snapshot(load(models_folder / "onnx" / "qonnx_kws_w3a3.onnx"))
    folder = models_folder / "data" / "qonnx_kws_w3a3"
    values = imported.run({"inp.1": np.load(folder / "input.npy").astype(np.float32)})
    (scores,) = outputs_by_name(imported.module, values).values()
    np.testing.assert_array_equal(scores.argmax(axis=1), np.load(folder / "expected_output.npy"))


def test_conditional_on_an_input_becomes_an_operation_with_two_regions(
    models_folder: Path, snapshot: Callable, compare: Callable
) -> None:
    """The voice detector of silero: conditions on shapes are decided, the cell is unrolled."""
    model = load(models_folder / "onnx" / "silero_vad_16k_op15.onnx")
    sizes = {"batch": 1, "sequence": 512}
    inputs = random_inputs(model, 0, sizes) | {"sr": np.array(16000)}
    assert compare(model, inputs, sizes) <= TOLERANCE


@pytest.mark.parametrize("name", ["supres_ort_web"])
def test_unsupported_models_name_every_node(
    name: str, models_folder: Path, snapshot: Callable
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        snapshot(load(models_folder / "onnx" / f"{name}.onnx"))
    assert caught.value.problems == (
        "node Preprocess: SuperResolutionPreProcess (ai.onnx.contrib opset 11): unknown operator",
        "node Postprocess: SuperResolutionPostProcess (ai.onnx.contrib opset 11): unknown operator",
    )


def test_a_model_of_an_unknown_operator_for_the_oracle_says_so(models_folder: Path) -> None:
    model = load(models_folder / "onnx" / "eegformer.onnx")
    with pytest.raises(ModelError, match=r"onnxruntime cannot load the model"):
        reference(model, random_inputs(model, 0))


def _bound(inputs: dict[str, np.ndarray], model) -> dict[str, int]:
    """The sizes that the inputs give to symbolic dimensions."""
    return {
        name: size
        for value in model.inputs
        for name, size in zip(value.shape or (), inputs[value.name].shape, strict=True)
        if isinstance(name, str)
    }


def test_every_result_of_an_imported_model_has_a_location_and_origins_are_values(
    sample_models: Path, snapshot: Callable
) -> None:
    imported = snapshot(load(sample_models / "digits_transformer.onnx"))
    for identity, op in imported.operations.items():
        assert all(value_name(r).startswith(identity) for r in op.results)
        assert all(r.owner is op for r in op.results if origin_of(r) is not None)
