"""One clear message from every error, also after a journey between processes."""

import pickle

import pytest

from explorer.errors import (
    BuildError,
    DeviceError,
    ExplorerError,
    InputError,
    MemoryBudgetError,
    ModelError,
    PassError,
    UnsupportedError,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InputError("what failed"), "what failed"),
        (ModelError("it is cut off", file="a.onnx"), "it is cut off; where: file a.onnx"),
        (
            ModelError("bad shape", file="a.onnx", node="conv1", hint="export it again"),
            "bad shape; where: file a.onnx, node conv1; try: export it again",
        ),
        (DeviceError("no answer", device="gpu 0"), "no answer; where: device gpu 0"),
        (
            PassError("lost an origin", pass_name="fuse", operation="conv_3", node="c"),
            "lost an origin; where: pass fuse, operation conv_3, node c",
        ),
        (
            MemoryBudgetError("no plan fits", operations=("conv_1", "add_2")),
            "no plan fits; where: operations conv_1, add_2",
        ),
        (
            UnsupportedError("2 problems", problems=["Loop at l", "If at i"], file="a.onnx"),
            "2 problems; where: file a.onnx\n  - Loop at l\n  - If at i",
        ),
        (BuildError("refused", log="a long text"), "refused"),
    ],
)
def test_the_message_says_what_where_and_what_to_try(error: ExplorerError, text: str):
    assert str(error) == text


def test_errors_survive_pickling():
    error = DeviceError("ended", device="cpu", signal="SIGSEGV", log="words", hint="look")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is DeviceError
    assert str(copy) == str(error)
    assert (copy.signal, copy.log) == ("SIGSEGV", "words")


def test_a_problem_of_many_nodes_is_one_line_with_their_number():
    problems = [f"node n{i}: Foo (my.ops opset 1): unknown operator" for i in range(5)]
    problems.insert(1, "node b: Bar: not with axis 7")
    error = UnsupportedError("6 nodes", problems=problems)
    assert str(error).splitlines()[1:] == [
        "  - Foo (my.ops opset 1): unknown operator (5 nodes: n0, n1, n2 and 2 more)",
        "  - node b: Bar: not with axis 7",
    ]
    assert error.problems == tuple(problems)
