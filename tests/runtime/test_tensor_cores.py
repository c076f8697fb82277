"""Matrix instructions are tried on the device before a kernel uses them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.runtime import tensor_cores
from explorer.runtime.devices import DeviceRecord, list_devices
from explorer.runtime.tensor_cores import tensor_core_refusal
from explorer.targets import load_target

HALF = 2.0**-10
"""What rounding both factors to 11 bits changes a product by, at most and relatively."""


@pytest.fixture
def device() -> DeviceRecord:
    found = [d for d in list_devices(("opencl",)) if d.usable and d.processor == "cpu"]
    if not found:
        pytest.skip("no OpenCL device that is a processor")
    return found[0]


@pytest.mark.opencl
def test_a_processor_has_no_ptx(device):
    assert "no device of NVIDIA's" in tensor_core_refusal(device)


@pytest.mark.opencl
def test_the_probe_takes_an_instruction_that_gives_the_right_numbers(device):
    assert tensor_core_refusal(device, "emulated") == ""


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        ("own[0] += 1.0f;", "one tile was wrong by up to"),
        ("this is no C", "it cannot build and run one tile"),
    ],
)
def test_the_probe_refuses_other_numbers_and_what_does_not_build(
    call, refusal, device, monkeypatch
):
    monkeypatch.setattr(tensor_cores, "CALLS", {"emulated": call})
    tensor_core_refusal.cache_clear()
    try:
        assert refusal in tensor_core_refusal(device, "emulated")
    finally:
        tensor_core_refusal.cache_clear()


@pytest.mark.opencl
def test_a_driver_that_dies_is_refused(device, monkeypatch, tmp_path: Path):
    probe = tmp_path / "probe.py"
    probe.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(tensor_cores.tensor_core_probe, "__file__", str(probe))
    tensor_core_refusal.cache_clear()
    try:
        assert "ended the process with SIGSEGV" in tensor_core_refusal(device)
    finally:
        tensor_core_refusal.cache_clear()


def two_layers(folder: Path) -> str:
    """relu(x @ w1) @ w2 for 32 rows of 64 numbers."""
    random = np.random.default_rng(0)
    weights = {"w1": (64, 48), "w2": (48, 40)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"]),
            helper.make_node("Relu", ["h"], ["a"]),
            helper.make_node("MatMul", ["a", "w2"], ["y"]),
        ],
        "two_layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (32, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (32, 40))],
        [
            numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    file = folder / "two_layers.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), file)
    return str(file)


@pytest.mark.sweep
@pytest.mark.opencl
def test_a_model_in_mixed_precision_differs_by_the_rounding_of_halves(device, tmp_path):
    model = two_layers(tmp_path)
    gpu = load_target("opencl_gpu")
    exact = explorer.compile(model, target=gpu)
    mixed = explorer.compile(model, target=gpu.with_(precision="mixed", tensor_cores="emulated"))
    assert {mixed.schedule[name]["schedule"] for name in mixed.kernels} == {"tensor_cores"}
    inputs = exact.example_inputs()
    expected, found = exact.run(inputs)["y"], mixed.run(inputs)["y"]
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    assert 1e-5 < difference < 2 * HALF  # two layers round, whose errors do not add up in one sum
    assert not mixed.accuracy(inputs).passed  # the report says so
    assert mixed.accuracy(inputs, tolerance=2 * HALF).passed
