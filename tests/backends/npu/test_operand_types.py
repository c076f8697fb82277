"""Numbers that are wider than a machine's memory stores run elsewhere, with that reason."""

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.compilation.bit_exactness import is_bit_exact
from explorer.errors import UnsupportedError

MOVED = """<ir_version: 9, opset_import: ["" : 17]>
moved (int16[2,3,4,5] a, int64[1,4,3,3] b, uint16[4,6] c, bool[6,5] d, uint64[6,5] e, int8[6,5] f,
       float[1,4,3,3] x) => (ta, tb, tc, td, te, tf, y)
<
  int64[2] rows = {2, 1}, int64[3] split = {2, 3, 5}, float s = {0.0078125}, int8 z = {0},
  float t = {0.0625}, float[4,4,1,1] w = {1, -2, 3, -4, 2, 2, -1, 1, 0.5, 1, 2, -3, 1, 1, -1, 2}
> {
  ta = Transpose <perm = [0, 2, 3, 1]> (a)
  tb = Concat <axis = 1> (b, b)
  tc = Gather <axis = 0> (c, rows)
  td = Reshape (d, split)
  te = Transpose <perm = [1, 0]> (e)
  tf = Transpose <perm = [1, 0]> (f)
  xq = QuantizeLinear (x, s, z)
  xd = DequantizeLinear (xq, s, z)
  wq = QuantizeLinear (w, t, z)
  wd = DequantizeLinear (wq, t, z)
  p = Conv (xd, wd)
  yq = QuantizeLinear (p, t, z)
  y = DequantizeLinear (yq, t, z)
}"""
"""Tensors of many types next to a layer of the machine's own numbers."""


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    model = onnx.parser.parse_model(MOVED)
    path = tmp_path_factory.mktemp("moved") / "moved.onnx"
    onnx.save(model, path)
    rng = np.random.default_rng(0)
    inputs = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            inputs[value.name] = rng.uniform(-1, 1, shape).astype(dtype)
        elif dtype.kind == "b":
            inputs[value.name] = rng.integers(0, 2, shape).astype(bool)
        else:
            ends = np.iinfo(dtype)
            inputs[value.name] = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
            inputs[value.name].flat[:2] = ends.min, ends.max
    return path, inputs


@pytest.mark.parametrize("machine", ["tiny-8", "vta-16"])
def test_only_numbers_that_fit_are_moved_by_the_machine(moved, machine):
    path, x = moved
    c = explorer.compile(path, machine, inputs=x)
    found, counted = c.run(x), c.counted
    c.close()
    np.testing.assert_array_equal(found["ta"], x["a"].transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(found["tb"], np.concatenate([x["b"]] * 2, axis=1))
    np.testing.assert_array_equal(found["tc"], x["c"][[2, 1]])
    np.testing.assert_array_equal(found["td"], x["d"].reshape(2, 3, 5))
    np.testing.assert_array_equal(found["te"], x["e"].T)
    np.testing.assert_array_equal(found["tf"], x["f"].T)
    reasons = {reason for _, reason in c.host_operations}
    for bits in (16, 64):
        assert f"its numbers have {bits} bits, and {machine} stores 8 of each" in reasons
    assert "its numbers are no integers" in reasons
    assert counted is not None and counted.macs > 0


def test_wide_numbers_are_refused_where_there_is_no_host(moved):
    path, x = moved
    with pytest.raises(UnsupportedError) as refused:
        explorer.compile(path, "tiny-8", inputs=x, host=False)
    problems = "\n".join(refused.value.problems)
    assert "its numbers have 16 bits, and tiny-8 stores 8 of each" in problems
    assert "its numbers are no integers" in problems


PRODUCT = """<ir_version: 9, opset_import: ["" : 17]>
product (float[4,16] x) => (y) <float[16,4] w = {VALUES}> { y = MatMul (x, w) }"""


@pytest.mark.parametrize("machine", ["tiny-8", "vta-16", "odd-12x20"])
def test_a_product_of_wide_numbers_is_that_of_the_integer_program(tmp_path, machine):
    rng = np.random.default_rng(1)
    w = rng.uniform(-1, 1, (16, 4)).astype(np.float32)
    text = PRODUCT.replace("VALUES", ", ".join(map(str, w.reshape(-1))))
    path, table, modes = (tmp_path / name for name in ("p.onnx", "t.table", "t.qtable"))
    onnx.save(onnx.parser.parse_model(text), path)
    table.write_text("x 4 -4 4\n")
    modes.write_text("x INT16\n")
    x = {"x": rng.uniform(-4, 4, (4, 16)).astype(np.float32)}
    c = explorer.compile(path, machine, quantization=table, modes=modes)
    found = c.run(x)["y"]
    assert is_bit_exact(c["place-on-device"].after, c.executable, x)
    c.close()
    assert (
        f"its numbers have 16 bits, and {machine} stores 8 of each"
        in dict(c.host_operations).values()
    )
    # Weights have 8 bits: half a step of each, times 16 numbers of up to 4.
    error = np.abs(found - x["x"].astype(np.float64) @ w.astype(np.float64)).max()
    assert error < 16 * 4 * np.abs(w).max() / 127 / 2
