"""What exported decoders compute of a past that grows. onnxruntime judges, at every length."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.onnx.file.reading import from_proto

FOLDER = Path(__file__).parents[1] / "importers"
language_models = SimpleNamespace(**run_path(str(FOLDER / "language_models.py")))
CAPACITY = 7
EVERY = """total_rows = Add(past_rows, new_rows) end = Squeeze(total_rows)
        every = Range(zero, end, one) """
FORMS = {
    "positions of the last rows": """
        counted = CumSum(mask, one) last = Neg(new_rows)
        y = Slice(counted, last, far, ones)""",
    "the last rows of a table": EVERY + "last = Neg(new_rows) y = Slice(every, last, far)",
    "a table by places": EVERY + "y = Gather(squares, every)",
    "a table by what is given": "y = Gather(squares, mask)",
    "last rows of distances": EVERY
    + """last = Neg(new_rows) across = Unsqueeze(every, zeros) down = Unsqueeze(every, ones)
        distances = Sub(across, down) y = Slice(distances, last, far, zeros)""",
    "all rows from the second on": "y = Slice(mask, ones, far, ones)",
    "all rows from the third on": "y = Slice(mask, twos, far, ones)",
    "all rows from the first on": """
        sizes = Shape(present) end = Gather(sizes, ones)
        y = Slice(present, zeros, end, ones)""",
    "a sum over the mask": "y = ReduceSum(mask, ones)",
    "the largest of the mask": "y = ReduceMax<axes = [1]>(mask)",
    "the least of the mask": "y = ReduceMin<axes = [1]>(mask)",
    "the largest row": "y = ReduceMax<axes = [1]>(present)",
    "the least row": "y = ReduceMin<axes = [1]>(present)",
    "a norm of rows": "y = ReduceL2<axes = [1]>(present)",
    "the sum of rows": "y = ReduceSum(present, ones)",
    "the product of rows": "y = ReduceProd<axes = [1]>(present)",
    "a share, or nothing": """
        scores = ReduceSum(present, twos) shares = Softmax<axis = 1>(scores)
        largest = ReduceMax<axes = [1]>(shares) is_large = Greater(largest, half)
        chosen = Where(is_large, nothing, shares) columns = Transpose<perm = [0, 2, 1]>(present)
        y = MatMul(columns, chosen)""",
}
REFUSED = {
    "the mean of rows": "y = ReduceMean<axes = [1]>(present)",
    "more rows than a call adds": "y = Slice(mask, far_back, far, ones)",
    "the last rows of a past": "y = Slice(past, back, far, ones)",
    "the first rows of a past": "y = Slice(past, zeros, four, ones)",
    "all rows of a mask but the last": "y = Slice(mask, zeros, back, ones)",
    "every second row of a mask": "y = Slice(mask, zeros, far, ones, twos)",
}


def model(form: str, new: int) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
      rows (float[1, {new}, 2] new, float[1, past, 2] past, int64[1, total] mask)
        => (float[1, all, 2] present, int64[1, size] y)
        <int64 zero = {{0}}, int64 one = {{1}}, int64[1] ones = {{1}}, int64[1] zeros = {{0}},
         int64[9] squares = {{0, 1, 4, 9, 16, 25, 36, 49, 64}}, int64[1] twos = {{2}},
         int64[1] four = {{4}},
         int64[1] far = {{9223372036854775807}}, int64[1] back = {{-1}},
         int64[1] far_back = {{-{new + 1}}}, float half = {{0.5}}, float nothing = {{0}}> {{
        present = Concat<axis = 1>(past, new)
        past_shape = Shape(past) past_rows = Gather(past_shape, ones)
        new_shape = Shape(new) new_rows = Gather(new_shape, ones)
        {form}
      }}""")
    y = made.graph.output[1].type.tensor_type
    y.ClearField("shape")  # the form decides it
    if "present" in form:
        y.elem_type = onnx.TensorProto.FLOAT
    return made


@pytest.mark.sampled(6)
@pytest.mark.parametrize("new", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_one_program_is_right_for_every_length(form: str, new: int):
    proto = model(FORMS[form], new)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    judge = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    compilation = ex.compile(from_proto(proto), capacity=CAPACITY)
    random = np.random.default_rng(0)
    for rows in (CAPACITY - new, 0, 1, 3):
        given = {
            "new": random.standard_normal((1, new, 2)).astype(np.float32),
            "past": random.standard_normal((1, rows, 2)).astype(np.float32),
            "mask": random.integers(1, 9, (1, rows + new)),
        }
        (expected,) = judge.run(["y"], given)
        found = compilation.run(given)["y"]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", REFUSED)
def test_what_the_number_of_rows_decides_is_refused(form: str):
    with pytest.raises(UnsupportedError, match=r"mixes elements|read without its new rows"):
        ex.compile(from_proto(model(REFUSED[form], 2)), capacity=CAPACITY)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rows", [1, 3])
def test_attention_of_onnx_with_positions_from_a_mask(rows: int):
    proto = language_models.language_model("")
    judge = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    compilation = ex.compile(from_proto(proto), dimensions={"rows": rows}, capacity=CAPACITY)
    random = np.random.default_rng(0)
    for before in (CAPACITY - rows, 0, 1, 3):
        present = {
            name: random.standard_normal((1, 2, before, 16)).astype(np.float32)
            for name in names[1:]
        }
        given = language_models.model_inputs(random.integers(0, 32, (1, rows)), present)
        given["attention_mask"][0, : before // 2] = 0
        found = compilation.run(given)
        for name, array in zip(names, judge.run(names, given), strict=True):
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_mask_is_as_long_as_what_is_valid_unless_it_is_compared_with_another_size():
    """`total` follows from the past; the mask of an encoder has its own size."""
    text = """<ir_version: 8, opset_import: ["": 17]>
      rows (float[1, 1, 2] new, float[1, past, 2] past, float[1, total] mask,
            float[1, other] encoder_mask, float[1, other] encoded)
        => (float[1, all, 2] present, float[1, total] y, float[1, other] z) {
        present = Concat<axis = 1>(past, new)
        y = Neg(mask) z = Add(encoder_mask, encoded)
      }"""
    proto = from_proto(onnx.parser.parse_model(text))
    found = ex.compile(proto, dimensions={"other": 3}, capacity=5).program.length
    assert found is not None
    assert {value.name: value.more for value in found.inputs} == {"past": 0, "mask": 1}
