"""Deeploy's RequantShift: integers by integers, whatever the factors and offsets."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.importers.onnx import from_proto, to_top
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot
from explorer.ir.structure import operations

SHAPE = (1, 3, 5, 7)


def by_channel(*numbers):
    return np.reshape(numbers, (3, 1, 1))


def proto(factor, offset, divisor=2**16, levels=256, signed=1, computed=()):
    arrays = {"factor": factor, "offset": offset}
    given = {n: np.asarray(a, np.float32) for n, a in arrays.items() if n not in computed}
    node = helper.make_node(
        "RequantShift", ["x", "factor", "offset"], ["y"], name="requantize",
        div=numpy_helper.from_array(np.float32(divisor)),
        n_levels_out=numpy_helper.from_array(np.array([levels], np.float32)),
        signed=numpy_helper.from_array(np.array([signed], np.float32)),
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
        + [helper.make_tensor_value_info(n, TensorProto.FLOAT, ()) for n in computed],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
        [numpy_helper.from_array(a, n) for n, a in given.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def expected(x, factor, offset, divisor=2**16, levels=256, signed=1):
    """In whole numbers of any size."""
    whole = x.astype(np.int64) * np.asarray(factor, np.int64) + np.asarray(offset, np.int64)
    low = -levels // 2 if signed else 0
    return np.clip((2 * whole + divisor) // (2 * divisor), low, low + levels - 1)


def numbers(factor, divisor=2**16):
    """Near the limits, ties among them, and far outside; whole numbers that singles hold."""
    random = np.random.default_rng(0)
    reach = int(300 * divisor / np.min(factor))
    x = random.integers(-reach, reach, SHAPE)
    x.flat[:6] = [-(2**22), 2**22, 0, -1, 1, divisor // 2]
    most = min(2**24, 2**31 // np.max(factor) - 2**13)  # products have 32 bits
    return np.clip(x, -most, most).astype(np.float32)


CASES = [
    (dict(factor=514, offset=0, signed=0), "one factor"),
    (dict(factor=257, offset=0), "with signs"),
    (dict(factor=by_channel(514, 3, 1000), offset=0), "by channel"),
    (dict(factor=by_channel(514, 514, 514), offset=by_channel(514, -5140, 0)), "biases"),
    (dict(factor=by_channel(514, 3, 1000), offset=by_channel(7, -100, 5001)), "other offsets"),
    (dict(factor=32768, offset=0), "halves"),
    (dict(factor=131072, offset=0, signed=0), "doubles"),
    (dict(factor=1, offset=0, divisor=1), "as it is"),
    (dict(factor=3, offset=0, divisor=8, levels=16), "four bits"),
    (dict(factor=12345, offset=0, divisor=2**22), "a shift beyond what singles hold"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fields", [f for f, _ in CASES], ids=[name for _, name in CASES])
def test_integers_are_those_of_whole_arithmetic(fields):
    x = numbers(fields["factor"], fields.get("divisor", 2**16))
    model = from_proto(proto(**fields))
    snapshot = Snapshot(*to_top(model))
    assert not any(op.name == "top.unary" for op in operations(snapshot.program))
    (found,) = outputs_by_name(snapshot.module, snapshot.run({"x": x})).values()
    np.testing.assert_array_equal(found, expected(x, **fields))
    assert found.dtype == np.float32
    c = explorer.compile(model, "cpu")
    np.testing.assert_array_equal(c.run({"x": x})["y"], found)
    c.close()


@pytest.mark.parametrize(
    "fields",
    [
        dict(factor=514, offset=0, computed=("factor",)),
        dict(factor=514, offset=0.5),
        dict(factor=514, offset=0, divisor=1000),
        dict(factor=-514, offset=0),
        dict(factor=514, offset=0, levels=65536),
        dict(factor=np.arange(1.0, 16).reshape(3, 5, 1), offset=0),
    ],
    ids=lambda fields: str(list(fields.items())[1:]),
)
def test_what_says_no_type_is_written_out_in_floats(fields):
    model = from_proto(proto(**fields))
    snapshot = Snapshot(*to_top(model))
    assert "top.requantize" not in {op.name for op in operations(snapshot.program)}
    computed = {n: np.float32(fields[n]) for n in fields.get("computed", ())}
    x = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    (found,) = outputs_by_name(snapshot.module, snapshot.run({"x": x, **computed})).values()
    divisor, levels = fields.get("divisor", 2**16), fields.get("levels", 256)
    real = np.floor((x * fields["factor"] + fields["offset"]) / divisor + 0.5)
    np.testing.assert_array_equal(found, np.clip(real, -levels / 2, levels / 2 - 1))
