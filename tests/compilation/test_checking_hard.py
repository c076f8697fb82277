"""Hard inputs of compiled models: what is broken is named with its operation."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import explorer
from explorer.compilation import Compilation
from explorer.compilation.checking_hard import check_hard, push
from explorer.importers.onnx.file.reading import from_proto

FLOAT = onnx.TensorProto.FLOAT
HEAD = '<ir_version: 10, opset_import: ["" : 18]>'
CHAIN = "g (float[4,8] x) => (float[4,8] y) { a = Relu(x) b = Neg(a) y = Softmax(b) }"


def compiled(text: str) -> Compilation:
    return explorer.compile(from_proto(parser.parse_model(f"{HEAD} {text}")), "cpu")


def test_a_right_program_passes():
    compilation = compiled(CHAIN)
    report = check_hard(compilation)
    compilation.close()
    assert report.passed and not report.count("broken")
    kinds = {(v.operator, v.kind) for v in report.verdicts if v.state == "right"}
    assert {("Softmax", "offset 1e8"), ("Softmax", "masked rows"), ("Relu", "NaN")} <= kinds
    assert {("the model", "zeros"), ("the model", "NaN")} <= kinds


def test_a_wrong_kernel_is_named_with_kind_and_operation(monkeypatch):
    right = Compilation.run

    def wrong(self, inputs, check_indices=False):
        found = right(self, inputs, check_indices)
        return {name: np.nan_to_num(array, nan=0.0) for name, array in found.items()}

    compilation = compiled(CHAIN)
    monkeypatch.setattr(Compilation, "run", wrong)
    report = check_hard(compilation)
    compilation.close()
    assert not report.passed
    first = report.verdicts[0]
    assert first.state == "broken"
    broken = {(v.operator, v.kind) for v in report.verdicts if v.state == "broken"}
    assert {("Relu", "NaN"), ("Softmax", "masked rows")} <= broken
    assert ("Neg", "zeros") not in broken and ("Neg", "signed zeros") not in broken


def test_nothing_judged_is_not_passed():
    compilation = compiled(
        "g (float[2] x) => (float[2] y) <int64 n = {0}> "
        "{ s = SequenceConstruct(x) y = SequenceAt(s, n) }"
    )
    report = check_hard(compilation)
    compilation.close()
    assert report.count("not judged") == 2
    assert report.passed == (report.count("right") > 0)


@pytest.mark.parametrize("kind", ["zeros", "infinities", "NaN"])
def test_pushed_inputs_judge_the_outputs(kind):
    compilation = compiled(CHAIN)
    found = push(compilation, compilation.example_inputs())
    compilation.close()
    assert [v.state for v in found if v.kind == kind] == ["right"]


def test_integers_that_may_be_indices_keep_their_values():
    compilation = compiled("g (float[4,8] x, int64[3] i) => (float[a,b] y) { y = Gather(x, i) }")
    example = {"x": np.ones((4, 8), np.float32), "i": np.array([0, 3, -4])}
    assert {v.state for v in push(compilation, example)} == {"right"}
    compilation.close()


def branch(name: str) -> onnx.GraphProto:
    node = helper.make_node("MeanVarianceNormalization", ["x"], [name])
    result = helper.make_tensor_value_info(name, FLOAT, [1, 2, 3, 3])
    return helper.make_graph([node], f"make_{name}", [], [result])


def test_an_operation_around_a_documented_one_is_documented():
    """The reference shows no tensors inside of a branch, so that the branch itself is off."""
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("u"), else_branch=branch("v"))
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("x", FLOAT, [1, 2, 3, 3]),
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", FLOAT, [1, 2, 3, 3])],
    )
    opset = [helper.make_opsetid("", 17)]
    model = from_proto(helper.make_model(graph, opset_imports=opset, ir_version=9))
    assert model.nodes[0].inner_operators == ("MeanVarianceNormalization",)
    compilation = explorer.compile(model, "cpu")
    found = {v.kind: v for v in push(compilation, compilation.example_inputs())}
    compilation.close()
    assert (found["zeros"].operator, found["zeros"].state) == ("If", "documented")
    assert "onnxruntime divides 0 by 0" in found["zeros"].reason
    assert found["NaN"].state == "right"
