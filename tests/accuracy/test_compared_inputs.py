"""Example inputs of models that compare a number with constants: it is one of these."""

import numpy as np
import onnx.parser
import pytest

from explorer.accuracy.oracle import random_inputs, reference
from explorer.errors import ModelError
from explorer.importers import compared_values
from explorer.importers.onnx.file.reading import from_proto

RATES = """<ir_version: 9, opset_import: ["" : 17]>
g (float[1,6] x, int64{shape} rate, int64[3] others) => (float[a,b] y)
<int64 k = {{16000}}, int64[2] three = {{2, 3}}, int64[2] five = {{5, 1}}> {{
  n = Identity (rate)
  m = Cast <to = 7> (n)
  flat = Reshape (m, one)
  c = Equal ({order})
  s = Squeeze (c)
  p = Equal (others, k)
  y = If (s) <
    then_branch = t () => (float[2,3] u) {{ u = Reshape (x, three) }},
    else_branch = e () => (float[5,1] v) {{ v = Reshape (x, five) }}
  >
}}"""


def model_of(shape: str = "", order: str = "flat, k"):
    text = RATES.format(shape=shape, order=order).replace(
        "<int64 k", "<int64[1] one = {1}, int64 k"
    )
    return from_proto(onnx.parser.parse_model(text))


@pytest.mark.parametrize("shape", ["", "[1]", "[1,1]"])
@pytest.mark.parametrize("order", ["flat, k", "k, flat"])
def test_a_number_that_is_compared_is_the_constant(shape: str, order: str):
    """Any other leads into a branch that no input fits."""
    model = model_of(shape, order)
    assert compared_values(model) == {"rate": (16000,)}  # `others` has several elements
    for seed in range(4):
        inputs = random_inputs(model, seed)
        assert inputs["rate"].dtype == np.int64 and np.all(inputs["rate"] == 16000)
        assert reference(model, inputs, ["y"])["y"].shape == (2, 3)
        assert np.all(inputs["others"] < 8)
    with pytest.raises(ModelError):
        reference(model, {**inputs, "rate": np.full_like(inputs["rate"], 8)}, ["y"])


def test_each_of_several_constants_is_drawn():
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (int64 rate) => (bool y) <int64 a = {8000}, int64 b = {16000}> {
      p = Equal (rate, a)
      q = Equal (rate, b)
      y = Or (p, q)
    }"""
    model = from_proto(onnx.parser.parse_model(text))
    drawn = {int(random_inputs(model, seed)["rate"]) for seed in range(12)}
    assert drawn == {8000, 16000}
