"""Real quantized networks on every shipped machine: bit-equal, and predicted to the cycle."""

import numpy as np
import pytest

import explorer
from explorer.compilation.bit_exactness import is_bit_exact
from explorer.importers import load
from explorer.quantization.table import Threshold, ThresholdTable

MACHINES = ("vta-16", "vta-32", "edge-64", "tiny-8", "mac-128", "odd-12x20")
QUANTIZED_HERE = (
    "digits_cnn", "digits_mlp", "digits_resnet", "digits_mobilenet", "resnet8_cifar10_kaijiang",
    "vww_96_float", "mobilenet_v2_035_128_st",
)  # fmt: skip
QUANTIZED = ("qdq_multi_consumer", "shufflenet-v2-12-int8", "mobilenetv2_ort_maui")
ON_THE_HOST = ("it reads or makes floats", "its vector engine has no softmax")
"""Reasons, of which VTA alone has the last one."""
CONVERSIONS = ("quantize", "dequantize", "reshape")
"""What is left in floats of a network that was quantized here; a reshape is a view."""


@pytest.fixture(scope="module")
def prepared(sample_models, models_folder):
    """A model, a table for those of floats, and inputs, by name."""
    known = {}

    def of(name):
        if name not in known:
            here = sample_models / f"{name}.onnx"
            path = here if here.exists() else models_folder / "onnx" / f"{name}.onnx"
            model = load(path)
            shape = [d if isinstance(d, int) else 1 for d in model.inputs[0].shape]
            data = np.random.default_rng(0).uniform(0, 1, (4, *shape[1:])).astype(np.float32)
            table = None
            if name in QUANTIZED_HERE:
                examples = {model.inputs[0].name: data}
                table = explorer.calibrate(path, examples, method="min-max", corrections=(),
                                           arithmetic="integer")  # fmt: skip
            known[name] = path, table, {model.inputs[0].name: data[:1]}
        return known[name]

    return of


STATED = ("mlperf_kws_deeploy", "mlperf_ic_deeploy", "mlperf_ad_deeploy", "eegformer")
"""Of whole factors and shifts."""
BYTES = ThresholdTable({"input": Threshold("input", 255.0, 0.0, 255.0)})


@pytest.mark.sweep
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", STATED)
def test_factors_of_a_file_give_its_authors_numbers(models_folder, name, machine):
    given, expected = (
        next(iter(np.load(models_folder / f"data/deeploy/{name}/{end}puts.npz").values()))
        for end in ("in", "out")
    )
    inputs = {"input": given.astype(np.float32)}
    path = models_folder / "onnx" / f"{name}.onnx"
    c = explorer.compile(path, machine, quantization=BYTES, inputs=inputs)
    (found,) = c.run(inputs).values()
    counted, beside = c.counted, c.host_operations
    c.close()
    np.testing.assert_array_equal(found, expected)
    assert counted.cycles == counted.predicted_cycles
    assert [reason for _, reason in beside] == ["it reads or makes floats"] * 2


@pytest.mark.sweep
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", [*QUANTIZED_HERE, *QUANTIZED])
def test_a_network_is_computed_bit_by_bit_in_the_predicted_cycles(prepared, name, machine):
    path, table, inputs = prepared(name)
    c = explorer.compile(path, machine, quantization=table, inputs=inputs)
    given = inputs if table is not None else c.example_inputs()
    c.run(given)
    found = c.counted
    is_exact = is_bit_exact(c["place-on-device"].after, c.executable, given)
    c.close()
    assert found.cycles == found.predicted_cycles
    others = [entry for entry in c.host_operations if not entry[1].endswith(ON_THE_HOST)]
    if table is not None:
        in_floats = [op for op, reason in c.host_operations if reason.endswith(ON_THE_HOST[0])]
        assert all(op.startswith(CONVERSIONS) for op in in_floats), in_floats
    assert others == []
    assert is_exact
