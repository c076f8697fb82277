"""Keys and values in one past: one state with a capacity. onnxruntime judges, at every length."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest

import explorer as ex
from explorer.compilation.checking_calls import check_calls
from explorer.errors import UnsupportedError
from explorer.importers.onnx.file.reading import from_proto

decoders = SimpleNamespace(**run_path(str(Path(__file__).with_name("stacked_decoders.py"))))
CAPACITY = 7
CASES = [
    *((form, axis) for form in ("gather", "slice", "split") for axis in (0, 1, 3, 4)),
    ("turned", 0),
    ("turned", 4),
    ("joined", 1),
]


class Judge:
    """A decoder by onnxruntime without optimizations, which is given the whole past."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(proto.SerializeToString(), options)

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = [value.name for value in self.session.get_outputs()]
        return dict(zip(names, self.session.run(None, inputs), strict=True))

    def inputs(self, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
        random = np.random.default_rng(seed)
        shapes = {
            value.name: [rows if size == "past" else size for size in value.shape]
            for value in self.session.get_inputs()
        }
        return {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize(("form", "axis"), CASES)
def test_one_program_is_right_for_every_length(form: str, axis: int, new: int):
    proto = decoders.stacked(form, axis, layers=2, new=new)
    judge = Judge(proto)
    compilation = ex.compile(from_proto(proto), capacity=CAPACITY)
    assert set(compilation["write-in-place"].artifacts["state copies"].values()) == {""}
    for rows in (CAPACITY - new, 0, 1, 3):
        inputs = judge.inputs(rows)
        close(compilation.run(inputs), judge.run(inputs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("form", "axis"), [("gather", 0), ("turned", 1), ("split", 3)])
def test_states_are_what_a_caller_would_carry(form: str, axis: int):
    proto = decoders.stacked(form, axis)
    judge, along = Judge(proto), decoders.row_axis(form, axis)
    past = judge.inputs(0)["past_0"]
    with ex.compile(from_proto(proto), capacity=CAPACITY).open(
        isolated=False, remembers=True
    ) as program:
        assert program.copied_bytes == 0
        for row in range(CAPACITY):
            x0 = judge.inputs(0, seed=row)["x0"]
            expected = judge.run({"x0": x0, "past_0": past})
            close(program.run({"x0": x0}), {"y": expected["y"]})
            past = expected["present_0"]
            close(program.state(), {"past_0": past})
        kept = np.take(past, range(2), along)
        program.load({"past_0": kept})
        with program.fork() as other:
            program.reset()
            x0 = judge.inputs(0, seed=9)["x0"]
            close(other.run({"x0": x0}), {"y": judge.run({"x0": x0, "past_0": kept})["y"]})
        assert program.valid_rows == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stored", ["float16", "int8"])
@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_rows_are_stored_in_fewer_bytes(stored: str, target: str):
    model = from_proto(decoders.stacked("gather", 0))
    decisions = {"narrow-past/type/past_0": stored}
    compilation = ex.compile(model, target, capacity=CAPACITY, decisions=decisions)
    assert check_calls(compilation, 4).passed
    types = {port.name: port.element_type for port in compilation.program.inputs}
    assert types["past_0"] == stored


@pytest.mark.parametrize("halves", ["values,keys", "keys,keys", "values,values"])
def test_halves_in_another_place_are_refused(halves: str):
    """What is a key now would be a value in the next call."""
    model = from_proto(decoders.stacked("gather", 0, halves=halves))
    with pytest.raises(UnsupportedError, match="present_0 is not past_0 with new rows after it"):
        ex.compile(model, capacity=CAPACITY)


@pytest.mark.sweep
def test_every_pass_is_checked_against_the_model():
    model = from_proto(decoders.stacked("turned", 0))
    assert ex.compile(model, capacity=4).accuracy().passed


def with_nodes(proto: onnx.ModelProto, before: str, *nodes: onnx.NodeProto) -> onnx.ModelProto:
    """The model with other nodes in front of the one that makes a value."""
    place = [node.output[0] for node in proto.graph.node].index(before)
    for node in reversed(nodes):
        proto.graph.node.insert(place, node)
    return proto


def test_a_past_that_is_read_alone_is_refused():
    largest = onnx.helper.make_node("ReduceMax", ["v0"], ["largest"], keepdims=0)
    added = onnx.helper.make_node("Add", ["x1", "largest"], ["more"])
    proto = with_nodes(decoders.stacked("gather", 0), "y", largest, added)
    proto.graph.node[-1].input[0] = "more"
    with pytest.raises(UnsupportedError, match="past_0 is read without its new rows"):
        ex.compile(from_proto(proto), capacity=CAPACITY)


def test_new_values_that_need_the_keys_of_the_call_are_refused():
    largest = onnx.helper.make_node("ReduceMax", ["shares0"], ["largest"], keepdims=0)
    scaled = onnx.helper.make_node("Mul", ["x0", "largest"], ["scaled"])
    proto = with_nodes(decoders.stacked("gather", 0), "nv0", largest, scaled)
    (values,) = [node for node in proto.graph.node if node.output[0] == "nv0"]
    values.input[0] = "scaled"
    with pytest.raises(UnsupportedError, match="present_0 is not past_0 with new rows after it"):
        ex.compile(from_proto(proto), capacity=CAPACITY)
