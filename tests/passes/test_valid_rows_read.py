"""Programs with a capacity read the valid rows of their states only, up to whole vectors.

Rows after that are no numbers here: they would spread to every result that reads them.
"""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import explorer as ex
from explorer.importers.onnx.file.reading import from_proto
from explorer.kernels.loops.extents import VECTOR

CAPACITY, HEADS, SIZE = 40, 2, 4
WIDTH = HEADS * SIZE
FORMS = {
    "operator": """y, present_key, present_value =
        com.microsoft.MultiHeadAttention<num_heads = 2>(x, x, x, , , , past_key, past_value)""",
    "formulas": """
        heads = Constant<value_ints = [1, -1, 2, 4]>() rows = Constant<value_ints = [1, -1, 8]>()
        split = Reshape(x, heads) new = Transpose<perm = [0, 2, 1, 3]>(split)
        present_key = Concat<axis = 2>(past_key, new)
        present_value = Concat<axis = 2>(past_value, new)
        turned = Transpose<perm = [0, 1, 3, 2]>(present_key) scores = MatMul(new, turned)
        shares = Softmax<axis = -1>(scores) found = MatMul(shares, present_value)
        joined = Transpose<perm = [0, 2, 1, 3]>(found) y = Reshape(joined, rows)""",
}


def compiled(form: str, new: int, target: str = "cpu") -> ex.Compilation:
    past, total = (f"float[1, {HEADS}, {size}, {SIZE}]" for size in ("past", "total"))
    return ex.compile(
        from_proto(
            onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
              decoder (float[1, {new}, {WIDTH}] x, {past} past_key, {past} past_value)
                => (float[1, {new}, {WIDTH}] y, {total} present_key, {total} present_value)
                {{ {FORMS[form]} }}""")
        ),
        capacity=CAPACITY,
        target=target,
    )


def attention(x: np.ndarray, keys: np.ndarray, values: np.ndarray, scale: float) -> np.ndarray:
    """In float64, of whole arrays."""
    queries = x.astype(np.float64).reshape(1, -1, HEADS, SIZE).transpose(0, 2, 1, 3)
    keys, values = (np.concatenate([past, queries], 2) for past in (keys, values))
    scores = queries @ keys.transpose(0, 1, 3, 2) * scale
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    found = shares / shares.sum(-1, keepdims=True) @ values
    return found.transpose(0, 2, 1, 3).reshape(x.shape)


@pytest.mark.parametrize(
    ("form", "new", "target"),
    [
        ("operator", 1, "cpu"),
        ("formulas", 1, "cpu"),
        ("formulas", 3, "cpu"),
        ("formulas", 1, "opencl"),
    ],
)
def test_rows_that_are_not_valid_are_not_read(form: str, new: int, target: str):
    compilation = compiled(form, new, target)
    assert compilation.program.length is not None
    random = np.random.default_rng(0)
    scale = SIZE**-0.5 if form == "operator" else 1.0
    for length in (0, 1, VECTOR - new, VECTOR - new + 1, CAPACITY - new, 2):
        x = random.standard_normal((1, new, WIDTH)).astype(np.float32)
        pasts = random.standard_normal((2, 1, HEADS, CAPACITY, SIZE)).astype(np.float32)
        right = attention(x, *pasts[..., :length, :], scale)
        read = -(-(length + new) // VECTOR) * VECTOR
        pasts[..., length:read, :] = 0
        pasts[..., read:, :] = np.nan
        given = {"x": x, "past_key": pasts[0], "past_value": pasts[1]}
        found = compilation.run({**given, compilation.program.length.name: np.array(length)})
        np.testing.assert_allclose(found["y"], right, rtol=1e-5, atol=1e-6, err_msg=f"{length}")


def test_loops_over_keys_end_with_the_valid_length():
    clipped = {
        event.site for event in compiled("formulas", 1)["clip-loops"].events if event.applied
    }
    kinds = {name.rstrip("_0123456789") for name in clipped}
    assert {"matmul", "softmax"} <= kinds


def test_what_only_long_pasts_use_is_computed_for_all():
    """Elements are chosen below the past's size less two, which no kernel is given."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
      step (float[1, 8] x, float[past, 1] past_row, float[1, 1] row)
        => (float[1, 8] y, float[total, 1] present_row)
      <int64[1, 8] places = {0, 1, 2, 3, 4, 5, 6, 7}, int64 first = {0}, int64 two = {2}> {
        present_row = Concat<axis = 0>(past_row, row)
        shape = Shape(past_row) size = Gather(shape, first) end = Sub(size, two)
        chosen = Less(places, end) grown = Softmax(x) other = Neg(x)
        y = Where(chosen, grown, other) }""")
    compilation = ex.compile(from_proto(proto), capacity=12)
    x = np.linspace(-1, 1, 8, dtype=np.float32)[None]
    for size in (11, 0, 1, 2, 3, 5):
        given = {"x": x, "past_row": np.ones((size, 1), np.float32)}
        found = compilation.run({**given, "row": np.ones((1, 1), np.float32)})["y"]
        right = np.where(np.arange(8) < size - 2, np.exp(x) / np.exp(x).sum(), -x)
        np.testing.assert_allclose(found, right, rtol=1e-6, err_msg=f"{size}")
