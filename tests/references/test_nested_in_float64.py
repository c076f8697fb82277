"""A node with nested graphs in float64: what these read around them comes along."""

import numpy as np
import onnx.parser

from explorer.references.onnx_float64 import evaluate_exactly, names_read

MODEL = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
g (float[3] x, bool c) => (float[3] y) <float third = {0.33333334}, float[3] w = {1.0, 2.0, 3.0}> {
  a = Neg (x)
  y = If (c) <
    then_branch = t () => (float[3] u) {
      k = Constant <value_float = 0.25> ()
      h = Constant <value = float[1] {0.1}> ()
      d = Cast <to = 1> (a)
      p = Mul (d, third)
      r = Add (p, h)
      u = Mul (r, w)
    },
    else_branch = e () => (float[3] v) { v = Identity (w) }
  >
}""")
NODE = MODEL.graph.node[-1]


def test_what_nested_graphs_read_is_read_by_the_node():
    assert names_read(NODE) == ["c", "a", "third", "w"]


def test_branches_are_computed_in_float64():
    """Constants keep the float32 that stands in the file; nothing is rounded after them."""
    a = np.array([1, 1e-3, 3e7], np.float32)
    third, w = np.float32(1 / 3), np.array([1, 2, 3], np.float32)
    (found,) = evaluate_exactly(NODE, MODEL, [np.array(True), a, third, w])
    assert found.dtype == np.float64
    exact = (a.astype(float) * float(third) + float(np.float32(0.1))) * w
    np.testing.assert_array_equal(found, exact)
    (other,) = evaluate_exactly(NODE, MODEL, [np.array(False), a, third, w])
    np.testing.assert_array_equal(other, w)
