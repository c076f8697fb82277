"""Calls of a known form: they are answered without a second look, and never by a wrong program."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from explorer.errors import InputError
from explorer.importers.onnx import from_proto
from explorer.runtime.native.program import NativeProgram
from explorer.session import Session, session


def model(*shape: str | int, operator: str = "Add", inputs: tuple[str, ...] = ("x",)) -> Any:
    """y = x + x, or of both inputs."""
    graph = helper.make_graph(
        [helper.make_node(operator, [inputs[0], inputs[-1]], ["y"], name="sum")],
        "sum",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


@pytest.mark.parametrize("isolated", [True, False], ids=["worker", "here"])
def test_every_call_has_the_numbers_of_its_own_inputs(isolated):
    with Session(model("n", 2), isolated=isolated, ranges={}) as known:
        for value in range(6):
            x = np.full((2 + value % 2, 2), value, np.float32)
            np.testing.assert_array_equal(known.run({"x": x})["y"], x + x)
        assert [call.event for call in known.calls] == ["compiled"] * 2 + ["hit"] * 4
        assert {call.signature for call in known.calls} == {"x: float32 2×2", "x: float32 3×2"}


def test_inputs_in_another_order_are_the_same_inputs():
    both = {"x": np.full((2, 2), 5, np.float32), "z": np.full((2, 2), 3, np.float32)}
    with Session(model("n", 2, operator="Sub", inputs=("x", "z")), isolated=False) as known:
        for _ in range(2):
            for given in (both, dict(reversed(both.items()))):
                assert (known.run(given)["y"] == 2).all()
        assert len(known.programs) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((2, 2), np.float64), "expected float32, got float64"),
        (np.zeros((2, 3), np.float32), "axis 1 has size 3, expected 2"),
        (np.zeros(2, np.float32), "expected 2 axes, got 1"),
    ],
)
def test_wrong_inputs_are_refused_after_right_ones(wrong, message):
    with Session(model("n", 2), isolated=False) as known:
        known.run({"x": np.zeros((2, 2), np.float32)})
        with pytest.raises(InputError, match=message):
            known.run({"x": wrong})


def test_a_program_that_was_dropped_is_met_no_more():
    with Session(model("n"), most_programs=1, calls_per_program=1, isolated=False) as known:
        for size in (1, 2, 1, 2):
            x = np.ones(size, np.float32)
            np.testing.assert_array_equal(known.run({"x": x})["y"], x + x)
        assert [call.event for call in known.calls] == ["compiled"] * 4
        assert len(known.programs) == 1


def test_a_first_call_that_takes_long_holds_up_no_other(monkeypatch):
    """One thread is within a program that it met for the first time; another one calls."""
    inside, go_on = threading.Event(), threading.Event()

    with Session(model("n"), isolated=False) as known:
        known.run({"x": np.ones(1, np.float32)})
        run = NativeProgram.run

        def run_slowly(program: NativeProgram, inputs: Any) -> Any:
            if inputs["x"].size == 2:
                inside.set()
                assert go_on.wait(60)
            return run(program, inputs)

        monkeypatch.setattr(NativeProgram, "run", run_slowly)
        slow = threading.Thread(target=known.run, args=({"x": np.ones(2, np.float32)},))
        slow.start()
        assert inside.wait(60)
        other = ThreadPoolExecutor(1).submit(known.run, {"x": np.ones(1, np.float32)})
        try:
            assert other.result(timeout=30)["y"] == 2
        finally:
            go_on.set()
            slow.join()


def test_a_closed_session_refuses_what_it_knew():
    known = Session(model("n"), isolated=False)
    x = {"x": np.ones(1, np.float32)}
    known.run(x)
    known.close()
    with pytest.raises(InputError, match="closed"):
        known.run(x)


def test_the_log_is_bounded_and_the_reason_is_kept(monkeypatch):
    monkeypatch.setattr(session, "MAX_CALLS", 5)
    with Session(model("n"), isolated=False) as known:
        for _ in range(12):
            known.run({"x": np.ones(1, np.float32)})
        assert [call.number for call in known.calls] == [8, 9, 10, 11, 12]
        assert known.why() == "call 1 (compiled): nothing was compiled before"


def test_forms_that_are_known_are_bounded(monkeypatch):
    monkeypatch.setattr(session, "MAX_FORMS", 3)
    with Session(model("n"), ranges={"n": [(1, 9)]}, isolated=False) as known:
        for size in (*range(1, 10), 4, 1):
            x = np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(known.run({"x": x})["y"], x + x)
            assert len(known._known) <= 3
        assert len(known.programs) == 1
