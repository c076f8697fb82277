"""Operators of whole attention over a past with a capacity. onnxruntime judges, at every length."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import explorer as ex
from explorer.importers.onnx.file.reading import from_proto

CAPACITY, HEADS, SIZE = 7, 2, 4
WIDTH = HEADS * SIZE
STACKED = f"float[2, 1, {HEADS}, past, {SIZE}] past_0"
SEPARATE = ", ".join(f"float[1, {HEADS}, past, {SIZE}] past_{part}" for part in ("key", "value"))
CAUSAL = "num_heads = 2, unidirectional = 1"
CASES = {
    "stacked": f"y, present_0 = com.microsoft.Attention<{CAUSAL}>(x, w, b, mask, past_0)",
    "filled": f"""y, present_0 = com.microsoft.Attention<{CAUSAL}, mask_filter_value = -3.0e+38>(
        x, w, b, mask, past_0)""",
    "biased": f"""q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
      y, present_key, present_value =
        com.microsoft.MultiHeadAttention<{CAUSAL}, mask_filter_value = -3.0e+38>(
          q, k, v, , , bias, past_key, past_value)""",
    "unmasked": "y, present_0 = com.microsoft.Attention<num_heads = 2>(x, w, b, , past_0)",
    "separate": """q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
      y, present_key, present_value = com.microsoft.MultiHeadAttention<num_heads = 2>(
        q, k, v, , , bias, past_key, past_value)""",
}  # fmt: skip


def model(case: str, new: int) -> onnx.ModelProto:
    body = CASES[case]
    pasts = SEPARATE if "past_key" in body else STACKED
    given = {"mask": "int32[1, total] mask", "bias": f"float[1, 2, {new}, total] bias"}
    inputs = [text for name, text in given.items() if f", {name}" in body]
    presents = pasts.replace("past_", "present_").replace(" past", " total")
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
      decoder ({", ".join([f"float[1, {new}, {WIDTH}] x", *inputs, pasts])})
        => (float[1, {new}, {WIDTH}] y, {presents}) {{ {body} }}""")
    random = np.random.default_rng(0)
    shapes = {"w": (WIDTH, 3 * WIDTH), "b": (3 * WIDTH,)} if pasts == STACKED else {}
    for name, shape in (shapes or dict.fromkeys(("wq", "wk", "wv"), (WIDTH, WIDTH))).items():
        array = random.standard_normal(shape).astype(np.float32) / 2
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_one_program_is_right_for_every_length(case: str, new: int):
    proto = model(case, new)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    judge = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [value.name for value in judge.get_outputs()]
    compilation = ex.compile(from_proto(proto), capacity=CAPACITY)
    assert set(compilation["write-in-place"].artifacts["state copies"].values()) == {""}
    random = np.random.default_rng(1)
    for rows in (CAPACITY - new, 0, 1, 3):
        inputs: dict[str, np.ndarray] = {}
        for value in judge.get_inputs():
            sizes = {"past": rows, "total": rows + new}
            shape = [sizes.get(size, size) for size in value.shape]
            inputs[value.name] = random.standard_normal(shape).astype(np.float32)
            if value.name == "mask":
                inputs["mask"] = np.array(
                    [[0] * (rows // 2) + [1] * (rows + new - rows // 2)], "i4"
                )
        found = compilation.run(inputs)
        for name, array in zip(names, judge.run(names, inputs), strict=True):
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("case", ["filled", "separate"])
def test_what_was_in_a_row_before_is_read_by_nothing(case: str):
    """Rows that are not valid hold the largest numbers there are."""
    compilation = ex.compile(from_proto(model(case, 1)), capacity=4)
    random, length = np.random.default_rng(2), compilation.program.length
    assert length is not None
    whole = {
        port.name: random.standard_normal(port.shape).astype(port.element_type)
        for port in compilation.program.inputs
        if port.name != length.name
    }
    found = []
    for filling in (0, np.finfo(np.float32).max):
        for name, array in whole.items():
            if name.startswith("past"):
                array[..., 2:, :] = filling
        if "mask" in whole:
            whole["mask"] = np.ones((1, 4), np.int32)
        found.append(compilation.run({**whole, length.name: np.array(2)})["y"])
    np.testing.assert_array_equal(*found)
