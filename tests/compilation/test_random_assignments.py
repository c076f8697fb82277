"""Any legal assignment computes what one device computes: host parts, several outputs, too."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer as ex
from explorer.compilation import Compilation
from explorer.targets import load_target

SAMPLES = Path(__file__).parents[2] / "sample_models"
SECOND = replace(load_target("cpu"), name="second")
MODELS = ("digits_cnn", "digits_mobilenet", "digits_resnet", "digits_transformer")
FOUND = """<ir_version: 9, opset_import: ["" : 17]>
found (float[1,4,10,10] x) => (float[k] y, float[1,4,10,10] r) {
  c = Softmax <axis = 3> (x)
  r = Relu (c)
  s = Sigmoid (r)
  i = NonZero (r)
  t = Transpose <perm = [1, 0]> (i)
  y = GatherND (s, t)
}"""
SHARED_OUTPUTS = """<ir_version: 9, opset_import: ["" : 17]>
shared (float[2,8] x) => (float[2,8] a, float[16] f, float[2,8] a2, float[2,8] c) {
  a = Exp (x)
  shape = Constant <value = int64[1] {16}> ()
  f = Reshape (a, shape)
  a2 = Identity (a)
  b = Neg (x)
  d = Add (a, b)
  c = Mul (d, a)
}"""


def parsed(text: str, path: Path):
    model = onnx.parser.parse_model(text)
    onnx.save(model, path)
    return ex.load(path)


def check_assignments(c: Compilation, plain: Compilation, seeds: range) -> None:
    """Every seed chooses a device for each operation; outputs are as those of one device."""
    heads = "assign/device/"
    legal = {k.address: k.choices for k in c.knobs if k.address.startswith(heads)}
    inputs = plain.example_inputs(seed=1)
    expected = plain.run(inputs)
    for seed in seeds:
        chance = random.Random(seed)
        chosen = {address: chance.choice(devices) for address, devices in legal.items()}
        forked = c.fork(decisions=chosen)
        try:
            for _ in range(2):  # what a call leaves is no part of the next one
                found = forked.run(inputs)
                for name, array in expected.items():
                    assert found[name].dtype == array.dtype and found[name].shape == array.shape
                    if array.dtype.kind != "f":
                        np.testing.assert_array_equal(found[name], array)
                    np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
        finally:
            forked.close()
    plain.close()


@pytest.mark.parametrize("text", [FOUND, SHARED_OUTPUTS], ids=["host part", "shared outputs"])
def test_odd_programs_are_right_under_any_assignment(text: str, tmp_path: Path):
    model = parsed(text, tmp_path / "odd.onnx")
    c = ex.compile(model, target=["cpu", SECOND])
    check_assignments(c, ex.compile(model, target="cpu"), range(1))


@pytest.mark.parametrize(
    "name", ["digits_mlp", *(pytest.param(n, marks=pytest.mark.sweep) for n in MODELS)]
)
def test_models_are_right_under_any_assignment(name: str):
    model = ex.load(SAMPLES / f"{name}.onnx")
    c = ex.compile(model, target=["cpu", SECOND])
    check_assignments(c, ex.compile(model, target="cpu"), range(1))


@pytest.mark.sweep
@pytest.mark.opencl
@pytest.mark.parametrize("name", ["digits_mlp", *MODELS, "host part", "shared outputs"])
def test_models_are_right_under_any_assignment_to_opencl(
    name: str, opencl_device_record, tmp_path: Path
):
    texts = {"host part": FOUND, "shared outputs": SHARED_OUTPUTS}
    if name in texts:
        model = parsed(texts[name], tmp_path / "odd.onnx")
    else:
        model = ex.load(SAMPLES / f"{name}.onnx")
    c = ex.compile(model, target=["cpu", "opencl"])
    check_assignments(c, ex.compile(model, target="cpu"), range(10))
