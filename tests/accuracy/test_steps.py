"""A quantized number may be off by one step in few places: more than that is a mistake."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32, i8
from xdsl.ir import Block, Region

import explorer
from explorer.accuracy.steps import rounding_ties
from explorer.ir.operation import set_identity
from explorer.ir.origins import Origin, set_origins
from explorer.ir.program import Snapshot
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.quantization.dynamic import DynamicQuantizeOp
from explorer.ir.types import QuantizedType, tensor_type
from explorer.ir.weights import Weights

KIND = QuantizedType.get(i8, [0.5], [3])


@pytest.fixture
def snapshot() -> Snapshot:
    """One quantized value `q` that is the source's tensor `t`."""
    block = Block(arg_types=[tensor_type(i8, (1000,))])
    op = BitcastOp.make([block.args[0]], to=KIND)
    set_identity(op, "q")
    set_origins(op, [Origin("t")])
    block.add_op(op)
    block.add_op(ReturnOp.make([[op.output]]))
    types = ([block.args[0].type], [op.output.type])
    module = ModuleOp([func.FuncOp("main", types, Region(block))])
    return Snapshot(module, Weights())


def numbers(*steps: int) -> np.ndarray:
    array = np.full(1000, 7, np.int8)
    array[: len(steps)] += np.array(steps, np.int8)
    return array


def test_one_step_in_few_places_is_a_tie(snapshot):
    ((name, record),) = rounding_ties(snapshot, {"q": numbers(0, 1, -1)}, {"q": numbers()})
    assert (name, record.tensor, record.elements, record.index) == ("q", "t", 2, (1,))
    assert (record.found, record.expected) == (8, 7)
    assert record.gap == 0.5 / 2.0  # a step of 0.5 beside numbers of (7 - 3) * 0.5


@pytest.mark.parametrize(
    "found", [numbers(), numbers(2), numbers(*[1] * 21), numbers(*[1] * 20, 2)]
)
def test_equal_numbers_and_mistakes_are_no_ties(snapshot, found):
    assert not rounding_ties(snapshot, {"q": found}, {"q": numbers()})


def test_a_step_is_wrong_where_the_file_states_the_rounding(snapshot):
    values = {"q": numbers(0, 1, -1)}, {"q": numbers()}
    assert not rounding_ties(snapshot, *values, may_tie=frozenset())
    assert rounding_ties(snapshot, *values, may_tie=frozenset({"t"}))


def test_bytes_of_a_dynamic_quantization_are_quantized_numbers_too():
    block = Block(arg_types=[tensor_type(f32, (1000,))])
    op = DynamicQuantizeOp.make([block.args[0]])
    set_identity(op, "q")
    set_origins(op, [Origin("t"), None, None])
    block.add_op(op)
    block.add_op(ReturnOp.make([[op.output]]))
    types = ([block.args[0].type], [op.output.type])
    snapshot = Snapshot(ModuleOp([func.FuncOp("main", types, Region(block))]), Weights())
    arrays = ({"q": numbers(0, 1).astype(np.uint8)}, {"q": numbers().astype(np.uint8)})
    ((name, record),) = rounding_ties(snapshot, *arrays, {"q"})
    assert (name, record.tensor, record.elements, record.gap) == ("q", "t", 1, 1 / 7)
    assert not rounding_ties(snapshot, *arrays)


def model_with_a_tie() -> bytes:
    """y = dequantize(quantize(conv(dequantize(x), dequantize(w)))): sums of 0.1 times 0.1."""
    random = np.random.default_rng(0)
    weights = {
        "s": np.array(0.1, np.float32),
        "z": np.array(3, np.uint8),
        "w": random.integers(-128, 128, (8, 4, 3, 3)).astype(np.int8),
        "ws": np.array(0.1, np.float32),
        "ys": np.array(0.37, np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["real"], name="dx"),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["filters"], name="dw"),
        helper.make_node("Conv", ["real", "filters"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["c", "ys", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "ys", "z"], ["y"], name="dq"),
    ]
    graph = helper.make_graph(
        nodes,
        "tie",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 4, 24, 24))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 24, 24))],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tie.onnx"
    path.write_bytes(model_with_a_tie())
    return explorer.compile(path, target="cpu")


def inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(2).integers(0, 256, (1, 4, 24, 24)).astype(np.uint8)}


def test_integer_arithmetic_passes_the_comparison_with_the_literal_graph(compiled):
    assert compiled.accuracy(inputs()).passed


def test_another_rounding_does_not(compiled):
    fork = compiled.fork(decisions={"target/requantization.rounding": "down"})
    assert not fork.accuracy(inputs()).passed


def test_scales_that_only_shift_are_a_coarser_quantization(compiled):
    coarse = compiled.fork(decisions={"target/requantization.scheme": "shift"})
    assert coarse["round-scales"].changed and not compiled.accuracy(inputs()).report.float_outputs
    report = coarse.accuracy(inputs()).report
    assert report.passed and report.bit_exact
    assert all(0 < output.sqnr_db < 60 for output in report.float_outputs)


def test_forks_of_the_scheme_compute_what_they_say(compiled):
    """The binary of every scheme equals the meaning of its operations, bit by bit."""
    arrays, results = inputs(), {}
    for scheme in ("float", "multiplier_shift", "shift"):
        fork = compiled.fork(decisions={"target/requantization.scheme": scheme})
        meaning = fork["eliminate-dead-code"].after.run(arrays)
        (found,) = fork.run(arrays).values()
        assert any(np.array_equal(found, value) for value in meaning.values())
        results[scheme] = found
    assert not np.array_equal(results["float"], results["shift"])
    steps = np.abs(results["float"] - results["multiplier_shift"]) / 0.37
    assert steps.max() <= 1.01  # at most a tie of rounding


def test_the_scheme_is_a_knob(compiled):
    knobs = {knob.address: knob for knob in compiled.knobs}
    assert knobs["target/requantization.scheme"].value == "float"
    assert "shift" in knobs["target/requantization.scheme"].choices
    assert "nearest_up" in knobs["target/requantization.rounding"].choices
    assert knobs["target/requantization.multiplier_bits"].value == 32
