"""Blocks of booleans that overlap, and masks that are longer than what they are for."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from explorer.onnx_backend import Representation
from explorer.references.onnx_runtime import open_proto
from verification.conformance.suite import open_here

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'


@pytest.mark.parametrize("device", ["INTERPRETER", "CPU"])
def test_a_sum_of_booleans_is_whether_one_is_true(device: str):
    model = onnx.parser.parse_model(f"""{HEADER}
      g (bool[1,4,4] x, int64[2] image, int64[2] block) => (bool[1,1,3,3] y) {{
        y = Col2Im (x, image, block)
      }}""")
    x = np.random.default_rng(2).integers(0, 2, (1, 4, 4)).astype(bool)
    inputs = {"x": x, "image": np.array([3, 3]), "block": np.array([2, 2])}
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    for value in (whole.graph.input[0], whole.graph.output[0]):
        value.type.tensor_type.elem_type = onnx.TensorProto.INT64
    (sums,) = ReferenceEvaluator(whole).run(None, {**inputs, "x": x.astype(np.int64)})
    assert sums.max() > 1
    representation = Representation(model, device, open_here)
    (found,) = representation.run(inputs)
    representation.close()
    np.testing.assert_array_equal(found, sums > 0)


@pytest.mark.parametrize("device", ["INTERPRETER", "CPU"])
@pytest.mark.parametrize("attributes", ["", "<axis = 1>"])
def test_a_mask_beyond_the_axis_does_not_count(attributes: str, device: str):
    model = onnx.parser.parse_model(f"""{HEADER}
      g (float[2,2] x, bool[5] m) => (float[n] y) {{ y = Compress {attributes} (x, m) }}""")
    inputs = {
        "x": np.arange(1, 5, dtype=np.float32).reshape(2, 2),
        "m": np.array([False, True, False, False, True]),
    }
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with open_proto(model, "model", is_optimized=False) as opened:
        (expected,) = opened.run(inputs).values()
    representation = Representation(model, device, open_here)
    (found,) = representation.run(inputs)
    representation.close()
    np.testing.assert_array_equal(found, expected)
