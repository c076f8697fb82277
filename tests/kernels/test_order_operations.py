"""Launches in the order in which the fewest bytes live at once."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.importers.onnx.file.reading import from_proto
from explorer.memory.ordering import Order

BRANCHES = """<ir_version: 8, opset_import: ["": 17]>
  net (float[1, 64] x) => (float[1, 8] y) {
    e0 = Concat<axis = 1>(x, x, x, x)
    a = Softmax(e0)
    b = Sin(e0)
    c = Cos(e0)
    a1 = ReduceSum<keepdims = 0>(a, k)
    b1 = ReduceMax<keepdims = 0>(b)
    c1 = ReduceMin<keepdims = 0>(c)
    s = Add(a1, b1)
    t = Add(s, c1)
    y = Expand(t, shape)
  }"""


def model(text: str = BRANCHES):
    proto = onnx.parser.parse_model(text)
    for name, array in (("k", np.array([0, 1])), ("shape", np.array([1, 8]))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.int64), name))
    return from_proto(proto)


@pytest.fixture(scope="module", params=["cpu", "opencl"])
def compiled(request: pytest.FixtureRequest):
    return explorer.compile(model(), request.param)


def test_branches_run_one_after_the_other(compiled):
    c = compiled
    given = c.fork(disable=["order-operations"])
    assert c.memory.bound_bytes < given.memory.bound_bytes
    assert c.memory.steps != given.memory.steps
    assert sorted(c.memory.steps) == sorted(given.memory.steps)
    (order,) = c["order-operations"].artifacts["orders"].values()
    assert isinstance(order, Order) and order.method == "exact"
    (event,) = c["order-operations"].rewrites
    assert event.applied and "no order needs fewer bytes" in event.explanation
    inputs = c.example_inputs()
    np.testing.assert_array_equal(c.run(inputs)["y"], given.run(inputs)["y"])


def test_the_order_is_a_decision(compiled):
    c = compiled
    (knob,) = [k for k in c.knobs if k.address.startswith("order-operations/order/")]
    assert knob.value is True and "bytes become" in knob.why
    fork = c.fork(decisions={knob.address: False})
    assert fork.memory.steps == c.fork(disable=["order-operations"]).memory.steps
    (event,) = fork["order-operations"].rewrites
    assert not event.applied
    assert c.fork(decisions=c.decisions()).memory.steps == c.memory.steps


def test_an_order_that_saves_nothing_stays():
    c = explorer.compile(
        from_proto(
            onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
            net (float[1, 64] x) => (float[1, 64] y) { a = Exp(x)
              b = Softmax(a)
              y = Neg(b) }""")
        )
    )
    assert not c["order-operations"].changed and c["order-operations"].rewrites == ()
