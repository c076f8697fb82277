"""A loop over tokens in a session: a past that grows meets one program. onnxruntime judges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.importers.onnx.file.reading import from_proto
from explorer.session.pasts import GrowingPast

FOLDER = Path(__file__).parents[1] / "passes"
decoders = SimpleNamespace(**run_path(str(FOLDER / "decoders.py")))


def loop(session: ex.Session, proto: onnx.ModelProto, steps: int) -> None:
    """A prompt of 3 tokens and so many steps, with the past of each call for the next one."""
    judge = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    past = {
        value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
        for value in judge.get_inputs()
        if value.name.startswith("past")
    }
    ours, ids = dict(past), np.array([[3, 1, 2]])
    for _ in range(steps + 1):
        found = session.run({"input_ids": ids, **ours})
        expected = dict(zip(names, judge.run(None, {"input_ids": ids, **past}), strict=True))
        for name in names:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)
        past, ours = (
            {name.replace("present", "past_key_values"): outputs[name] for name in names[1:]}
            for outputs in (expected, found)
        )
        ids = expected["logits"][:, -1:].argmax(-1)


@pytest.mark.parametrize("isolated", [False, True])
def test_a_loop_over_tokens_takes_two_compilations(isolated: bool):
    proto = decoders.exported("compared")
    with ex.Session(from_proto(proto), isolated=isolated) as session:
        loop(session, proto, steps=20)
        assert Counter(call.event for call in session.calls) == {"compiled": 2, "hit": 19}


def test_a_past_beyond_the_capacity_gets_a_larger_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("explorer.session.pasts.MIN_CAPACITY", 8)
    proto = decoders.exported("no mask")
    with ex.Session(from_proto(proto), isolated=False) as session:
        loop(session, proto, steps=12)
        events = [call.event for call in session.calls]
        assert events.count("compiled") == 3  # the prompt, 8 rows, 16 rows
        capacities = [p.compilation.program.length for p in session.programs if p.compilation]
        assert [c.capacity for c in capacities if c] == [8, 16]


def test_the_rows_of_the_axis_that_grows_are_the_capacity():
    grows: Any = SimpleNamespace(axis=2, input="past")
    first: Any = SimpleNamespace(axis=0, input="rows")
    fixed: Any = SimpleNamespace(axis=None, input="state")
    given = {"past": np.zeros((1, 2, 300, 4)), "rows": np.zeros((300, 1)), "state": np.zeros(2)}

    def capacity(*states: Any) -> int | None:
        model: Any = SimpleNamespace(states=states)
        return GrowingPast().capacity(model, given)

    assert capacity(grows, fixed) == capacity(first) == capacity(grows, first) == 1024
    assert capacity(fixed) is None
    given["rows"] = np.zeros((0, 1))
    assert capacity(grows, first) is capacity(first) is None


def test_rows_of_a_longer_call_are_forgotten():
    """What is no number there, after what is valid, stays there."""
    proto = decoders.exported("no mask")
    with ex.Session(from_proto(proto), isolated=False) as session:

        def call(rows: int, value: float) -> np.ndarray:
            past = np.full((1, 2, rows, decoders.SIZE), value, np.float32)
            names = ("past_key_values.0.key", "past_key_values.0.value")
            found = session.run({"input_ids": np.array([[1]]), **dict.fromkeys(names, past)})
            return found["logits"]

        before = call(2, 0.5)
        assert np.isnan(call(9, np.nan)).all()
        np.testing.assert_array_equal(call(2, 0.5), before)


def test_a_past_that_cannot_be_kept_is_open():
    def value(name: str, *shape: int | str):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        [
            helper.make_node("Concat", ["past", "new"], ["present"], axis=1),
            helper.make_node("ReduceMean", ["present"], ["y"], axes=[1], keepdims=0),
        ],
        "g",
        [value("new", 1, 1, 4), value("past", 1, "p", 4)],
        [value("present", 1, "all", 4), value("y", 1, 4)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with ex.Session(from_proto(made), isolated=False) as session:
        for rows in (1, 2, 256):
            past, new = np.ones((1, rows, 4), np.float32), np.zeros((1, 1, 4), np.float32)
            found = session.run({"past": past, "new": new})["y"]
            np.testing.assert_allclose(found, rows / (rows + 1))
        assert [call.event for call in session.calls] == ["compiled", "hit", "hit"]
        assert "mixes elements of the axis that grows" in session.why()
        assert "it grows from call to call: one program for p = 1..256" in session.why()


def test_a_table_of_positions_ends_the_capacity():
    """Rows of a table of 64 positions; the loop goes on to its end with two compilations."""
    proto = decoders.exported("table")
    with ex.Session(from_proto(proto), isolated=False) as session:
        loop(session, proto, steps=61)
        assert Counter(call.event for call in session.calls) == {"compiled": 2, "hit": 60}
        lengths = [p.compilation.program.length for p in session.programs if p.compilation]
        assert [length.capacity for length in lengths if length] == [64]


def test_a_mask_of_another_length_than_the_past_has_no_capacity():
    def value(name: str, *shape: int | str):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        [
            helper.make_node("Concat", ["past", "new"], ["present"], axis=1),
            helper.make_node("ReduceSum", ["mask"], ["y"], keepdims=0),
        ],
        "g",
        [value("new", 1, 1, 4), value("past", 1, "p", 4), value("mask", 1, "m")],
        [value("present", 1, "all", 4), value("y")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with ex.Session(from_proto(made), isolated=False) as session:
        for rows in (1, 2, 3):
            past, new = np.ones((1, rows, 4), np.float32), np.zeros((1, 1, 4), np.float32)
            found = session.run({"past": past, "new": new, "mask": np.ones((1, 9), np.float32)})
            assert (found["y"], found["present"].sum()) == (9, 4 * rows)
        assert all(p.compilation.program.length is None for p in session.programs if p.compilation)


def merged_decoder() -> onnx.ModelProto:
    """As optimum merges a prompt and a step: one branch has the past, the other one has none."""

    def value(name: str, *shape: int | str, kind: int = TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)

    def branch(has_past: bool) -> onnx.GraphProto:
        name = "step" if has_past else "prompt"
        keys, y = f"{name}_keys", f"{name}_y"
        nodes = [
            helper.make_node("Concat", ["past", "x"], [keys], axis=1)
            if has_past
            else helper.make_node("Identity", ["x"], [keys]),
            helper.make_node("Transpose", [keys], [f"{name}_t"], perm=[0, 2, 1]),
            helper.make_node("MatMul", ["x", f"{name}_t"], [f"{name}_s"]),
            helper.make_node("Softmax", [f"{name}_s"], [f"{name}_p"], axis=-1),
            helper.make_node("MatMul", [f"{name}_p", keys], [y]),
        ]
        results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (y, keys)]
        return helper.make_graph(nodes, name, [], results)

    node = helper.make_node(
        "If",
        ["use_cache_branch"],
        ["y", "present"],
        then_branch=branch(True),
        else_branch=branch(False),
    )
    graph = helper.make_graph(
        [node],
        "g",
        [
            value("x", 1, "rows", 4),
            value("past", 1, "p", 4),
            value("use_cache_branch", 1, kind=TensorProto.BOOL),
        ],
        [value("y", 1, "rows", 4), value("present", 1, "all", 4)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_branch_without_a_past_and_one_with_it_are_two_programs():
    proto = merged_decoder()
    judge = onnxruntime.InferenceSession(proto.SerializeToString())
    random = np.random.default_rng(3)
    with ex.Session(from_proto(proto), isolated=False) as session:
        past = np.zeros((1, 0, 4), np.float32)

        def compared(rows: int, uses_past: bool) -> np.ndarray:
            x = random.standard_normal((1, rows, 4), np.float32)
            given = {"x": x, "past": past, "use_cache_branch": np.array([uses_past])}
            found, expected = session.run(given), judge.run(["y", "present"], given)
            np.testing.assert_allclose(found["y"], expected[0], rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(found["present"], expected[1])
            return expected[1]

        past = compared(3, False)
        for _ in range(6):
            past = compared(1, True)
        assert Counter(call.event for call in session.calls) == {"compiled": 2, "hit": 5}
        compared(1, False)  # of the same sizes as a step: the condition is no size
        past = compared(1, True)
        assert [call.event for call in session.calls][-2:] == ["compiled", "hit"]
