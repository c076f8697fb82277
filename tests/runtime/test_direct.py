"""Calls in this process: what is bound beforehand changes nothing of what a call answers."""

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.errors import InputError
from explorer.importers.onnx import from_proto
from explorer.runtime.native.program import NativeProgram


@pytest.fixture
def program(c_program, weights):
    with NativeProgram(c_program, weights, isolated=False) as executable:
        yield executable


def test_an_output_is_an_array_of_its_own(program, inputs):
    first = program.run(inputs)["y"]
    first[...] = 0
    assert program.run(inputs)["y"].tolist() == [[22, 44], [66, 88]]


def test_other_forms_of_the_same_numbers_are_taken(program, inputs):
    class Labelled(np.ndarray):
        pass

    for array in (inputs["x"].view(Labelled), np.asfortranarray(inputs["x"])):
        assert program.run({"x": array})["y"].tolist() == [[22, 44], [66, 88]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": np.zeros((2, 3), np.float32)}, "expected float32 of shape"),
        ({"x": np.zeros((2, 2), ">f4")}, "got >f4"),
        ({"x": [[1, 2], [3, 4]]}, "expected an array"),
        ({}, "input `x` is missing"),
        ({"x": np.zeros((2, 2), np.float32), "z": np.zeros(1)}, "no input `z`"),
    ],
)
def test_wrong_inputs_are_refused_after_right_ones(program, inputs, wrong, message):
    program.run(inputs)
    with pytest.raises(InputError, match=message):
        program.run(wrong)
    assert program.run(inputs)["y"].tolist() == [[22, 44], [66, 88]]


def test_taps_and_times_work_between_calls(program, inputs):
    before = program.run(inputs)["y"]
    _, taps = program.run_with_taps(inputs)
    assert taps["add_0", 0].ravel().tolist() == [11, 22, 33, 44]
    assert len(program.time(inputs, 3)) == 3
    assert program.run(inputs)["y"].tolist() == before.tolist()


def test_sizes_of_an_open_dimension_may_alternate(open_batch_model):
    with explorer.Session(open_batch_model, isolated=False, ranges={"batch": [(1, 40)]}) as session:
        for size in [*range(1, 41), 3, 40, 1]:  # more sizes than are kept bound
            x = np.arange(size * 4, dtype=np.float32).reshape(size, 4)
            (y,) = session.run({"x": x}).values()
            np.testing.assert_array_equal(y, np.maximum(x - 5, 0))
        assert len(session.programs) == 1


@pytest.fixture
def open_batch_model(tmp_path):
    from onnx import TensorProto, helper, numpy_helper, save

    graph = helper.make_graph(
        [
            helper.make_node("Sub", ["x", "five"], ["d"], "sub"),
            helper.make_node("Relu", ["d"], ["y"], "relu"),
        ],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(np.array(5, np.float32), "five")],
    )
    path = tmp_path / "open.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("is_constant", [True, False], ids=["in place", "copied"])
def test_weights_that_may_change_are_copied(c_program, weights, inputs, is_constant):
    """Constant ones that are aligned are read where they lie."""
    memory = np.zeros(weights.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    block = memory[start : start + weights.nbytes]
    block[:] = weights.reshape(-1).view(np.uint8)
    block.flags.writeable = not is_constant
    with NativeProgram(c_program, block, isolated=False) as executable:
        executable.run(inputs)
        memory[start : start + weights.nbytes] = 0  # the owner can still write
        expected = [[20, 40], [60, 80]] if is_constant else [[22, 44], [66, 88]]
        assert executable.run(inputs)["y"].tolist() == expected


def test_calls_of_open_sizes_follow_their_arrays():
    """Also where one has the shapes of the call before, but another type, or fewer inputs."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[n,3] x, int64[n] i) => (float[n,3] y) '
        "{ y = Gather (x, i) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"n": (1, 6)})
    with compiled.open(isolated=False) as program:
        for size in (6, 2, 2, 5, 2, 1, 1):
            x = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
            index = np.arange(size)[::-1].copy()
            for _ in range(2):
                found = program.run({"x": x, "i": index})["y"]
                np.testing.assert_array_equal(found, x[index])
                index = np.zeros_like(index)
        with pytest.raises(InputError, match="expected float32"):
            program.run({"x": x.astype(np.float64), "i": index})
        with pytest.raises(InputError, match="`i` is missing"):
            program.run({"x": x})
        with pytest.raises(InputError, match="n"):
            program.run({"x": x, "i": np.zeros(2, np.int64)})
        np.testing.assert_array_equal(program.run({"x": x, "i": index})["y"], x[index])
