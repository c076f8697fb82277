"""A batch that is open, over functions of several devices: each ends with the size of the call."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer as ex
from explorer.errors import ExplorerError
from explorer.targets import load_target

# Two convolutions with a residual, a mean over rows and columns, and a product.
NET = """<ir_version: 9, opset_import: ["" : 17]>
net (float[batch,3,6,6] x) => (float[batch,5] y, float[batch,4,6,6] r)
<float[4,3,3,3] w1, float[4,4,1,1] w2, float[4,5] w3> {
  a = Conv <pads = [1,1,1,1]> (x, w1)
  b = Relu (a)
  c = Conv (b, w2)
  r = Add (b, c)
  m = ReduceMean <axes = [2,3], keepdims = 0> (r)
  y = MatMul (m, w3)
}"""
OVER_ROWS = """<ir_version: 9, opset_import: ["" : 17]>
net (float[batch,4] x) => (float[4] y) { y = ReduceSum <keepdims = 0> (x, axes) }
"""
TARGETS = ["cpu", replace(load_target("cpu"), name="second")]
LARGEST = 5


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    made = onnx.parser.parse_model(NET)
    random = np.random.default_rng(0)
    for value in list(made.graph.value_info):
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if value.name.startswith("w"):
            array = random.standard_normal(shape).astype(np.float32)
            made.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    path = tmp_path_factory.mktemp("open") / "net.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture(scope="module")
def pictures():
    x = np.random.default_rng(1).standard_normal((LARGEST, 3, 6, 6)).astype(np.float32)
    x[0, 0, 0] = (0.0, -0.0, 1e30, -1e30, 1e-40, 3e4)
    return x


@pytest.mark.parametrize("pattern", [(0, 1), (1, 1, 0)])
def test_every_size_gives_the_numbers_of_one_device(model, pictures, pattern):
    with closing(ex.compile(model, dimensions={"batch": (1, LARGEST)})) as one:
        expected = {n: one.run({"x": pictures[:n]}) for n in (1, 2, LARGEST)}
    with closing(ex.compile(model, target=TARGETS, dimensions={"batch": (1, LARGEST)})) as c:
        names = [op.operation for op in c.placement.operations]
        devices = ["cpu", "second"]
        pins = {
            f"assign/device/{name}": devices[pattern[i % len(pattern)]]
            for i, name in enumerate(names)
        }
        with closing(c.fork(decisions=pins)) as d:
            assert {part.device for part in d.program.parts} == set(devices)
            for n in (LARGEST, 1, 2, 1):
                found = d.run({"x": pictures[:n]})
                for name, array in expected[n].items():
                    assert found[name].tobytes() == array.tobytes(), (n, name)
            assert d.accuracy({"x": pictures}).passed


def test_a_size_outside_of_the_range_is_refused_with_its_input(model, pictures):
    with (
        closing(ex.compile(model, target=TARGETS, dimensions={"batch": (2, 3)})) as c,
        pytest.raises(ExplorerError, match="batch is 5 in input 'x'"),
    ):
        c.run({"x": pictures})


def test_what_several_devices_cannot_leave_open_is_refused(model, tmp_path):
    with pytest.raises(ExplorerError, match="tiny-8 runs programs of one size"):
        ex.compile(model, target=["tiny-8", "cpu"], dimensions={"batch": (1, 3)})
    made = onnx.parser.parse_model(OVER_ROWS)
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "axes"))
    path = tmp_path / "sum.onnx"
    onnx.save(made, path)
    with pytest.raises(ExplorerError, match="one program for a range of 'batch' is not possible"):
        ex.compile(path, target=TARGETS, dimensions={"batch": (1, 3)})
