"""Programs that remember: a run goes on with what the run before has left, as if it was given."""

import threading

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import explorer
from explorer.errors import DeviceError, InputError
from explorer.importers.model import State
from explorer.importers.onnx.file.reading import from_proto
from explorer.runtime.stateful import StatefulProgram, with_states

STATES = (
    State("last", "last:next", np.array([[1, 2, 3]], np.float32)),
    State("sum", "sum:next", np.array([[10, 20, 30]], np.float32)),
)


def model() -> ModelProto:
    """The last input, and the sum of all before it; each is read while the other is written."""
    nodes = [
        helper.make_node("Add", ["sum", "last"], ["sum:next"]),
        helper.make_node("Identity", ["x"], ["last:next"]),
        helper.make_node("Mul", ["sum:next", "x"], ["scaled"]),
        helper.make_node("Sub", ["scaled", "two"], ["y"]),
    ]

    def values(*names: str) -> list:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in names]

    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    graph = helper.make_graph(
        nodes, "sums", values("x", "last", "sum"), values("y", "last:next", "sum:next"), [two]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def compilation():
    return explorer.compile(from_proto(model()))


@pytest.fixture(params=[False, True], ids=["in this process", "isolated"])
def program(compilation, request):
    with StatefulProgram(compilation.open(isolated=request.param), STATES) as opened:
        yield opened


def frames(count: int) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [random.normal(size=(1, 3)).astype(np.float32) for _ in range(count)]


def expected(count: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The outputs and the last states, computed by hand."""
    last, total = (state.initial for state in STATES)
    outputs = []
    for frame in frames(count):
        last, total = frame, total + last
        outputs.append(total * frame - 2)
    return outputs, {"last": last, "sum": total}


def test_a_run_goes_on_with_what_the_run_before_has_left(program):
    outputs, states = expected(5)

    found = [program.run({"x": frame}) for frame in frames(5)]

    assert [list(one) for one in found] == [["y"]] * 5
    np.testing.assert_array_equal([one["y"] for one in found], outputs)
    np.testing.assert_array_equal(program.state()["last"], states["last"])
    np.testing.assert_array_equal(program.state()["sum"], states["sum"])


def test_it_begins_anew_from_the_first_states_or_from_others(program):
    first = program.run({"x": frames(1)[0]})["y"]
    left = program.state()
    second = program.run({"x": frames(2)[1]})["y"]

    program.reset()
    np.testing.assert_array_equal(program.run({"x": frames(1)[0]})["y"], first)
    program.load(left)
    np.testing.assert_array_equal(program.run({"x": frames(2)[1]})["y"], second)
    after = program.state()
    for wrong in ({**left, "sum": np.zeros((3, 1), np.float32)}, {"sum": left["sum"]}):
        with pytest.raises(InputError, match=r"`sum`: expected float32|`last` is missing"):
            program.load(wrong)
        np.testing.assert_array_equal(program.state()["sum"], after["sum"])
    with pytest.warns(DeprecationWarning, match="reset"):
        program.restart()


def test_a_fork_goes_on_by_itself(program):
    outputs, _ = expected(4)
    runs = [{"x": frame} for frame in frames(4)]
    for each in runs[:2]:
        program.run(each)

    with program.fork() as other, other.fork() as third:
        other.run({"x": frames(1)[0] * 100})
        found = [program.run(runs[2])["y"], third.run(runs[2])["y"], program.run(runs[3])["y"]]
        assert not np.array_equal(other.run(runs[3])["y"], outputs[3])
        third.reset()
        np.testing.assert_array_equal(third.run(runs[0])["y"], outputs[0])
        program.close()
        np.testing.assert_array_equal(third.run(runs[1])["y"], outputs[1])
        with pytest.raises(DeviceError, match="closed"):
            program.state()

    np.testing.assert_array_equal(found, [outputs[2], outputs[2], outputs[3]])


def test_states_do_not_change_during_a_call(compilation):
    """A device that waits in the midst of a call, and another thread that asks for the states."""
    started, go_on = threading.Event(), threading.Event()

    class Waiting:
        program = compilation.program

        def run(self, inputs):
            started.set()
            assert go_on.wait(10)
            return dict.fromkeys(("y", "last:next", "sum:next"), inputs["x"])

        def close(self) -> None:
            pass

    program = StatefulProgram(Waiting(), STATES)  # pyright: ignore[reportArgumentType]
    before = program.state()
    thread = threading.Thread(target=program.run, args=({"x": frames(1)[0]},))
    thread.start()
    assert started.wait(10)
    for change in (program.reset, program.fork, lambda: program.load(before)):
        with pytest.raises(InputError, match="a call of the program runs"):
            change()
    go_on.set()
    thread.join()
    np.testing.assert_array_equal(program.state()["sum"], frames(1)[0])


def test_a_run_with_taps_is_a_run_and_timing_is_none(program):
    outputs, _ = expected(2)
    one, two = ({"x": frame} for frame in frames(2))
    before = program.state()

    program.time(one, 3)
    np.testing.assert_array_equal(program.state()["sum"], before["sum"])
    found, taps = program.run_with_taps(one)

    assert list(found) == ["y"] and taps
    np.testing.assert_array_equal(found["y"], outputs[0])
    np.testing.assert_array_equal(program.run(two)["y"], outputs[1])


def test_states_are_no_inputs(program):
    x = frames(1)[0]
    with pytest.raises(InputError, match="no input `sum`"):
        program.run({"x": x, "sum": x})
    assert [port.name for port in program.program.inputs] == ["x"]


def test_a_closed_program_says_so(compilation):
    program = StatefulProgram(compilation.open(isolated=False), STATES)
    program.close()
    with pytest.raises(DeviceError, match="closed"):
        program.run({"x": frames(1)[0]})


def test_a_state_that_is_none_is_refused(compilation):
    opened = compilation.open(isolated=False)
    with opened, pytest.raises(InputError, match="no state `z`"):
        StatefulProgram(opened, [State("z", "z:next", np.zeros(1))])
    assert with_states(opened, ()) is opened


def test_two_states_of_one_memory_are_refused(compilation):
    last, total = STATES
    with compilation.open(isolated=False) as opened:
        for other in (State("last", "sum:next"), State("sum", "last:next")):
            with pytest.raises(InputError, match="two states are one memory"):
                StatefulProgram(opened, [last, other])
    assert total.initial is not None
