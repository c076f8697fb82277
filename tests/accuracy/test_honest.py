"""What a comparison says of models that a plain number would be untrue of: rounding ties, models
without a tensor to compare, references that cannot run them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import explorer
from explorer.cli.check import summarize
from explorer.compilation.checking import Accuracy
from explorer.importers.onnx import from_proto

HEAD = '<ir_version: 8, opset_import: ["" : 16]>'
TRAP = f"""{HEAD} trap (int64[2] x) => (int64[2] y)
<int64[1] a = {{-9223372036854775808}}, int64[1] b = {{-1}}> {{
  q = Div(a, b)
  r = Add(x, q)
  y = Abs(r)
}}"""


def accuracy(text: str, inputs: dict | None = None) -> Accuracy:
    compilation = explorer.compile(from_proto(parser.parse_model(text)))
    try:
        return compilation.accuracy(inputs)
    finally:
        compilation.close()


# -- ties ------------------------------------------------------------------------------------------


def differences_of_quantized_numbers() -> helper.ModelProto:
    """h = x W (int8, a diagonal), rounded to steps of 0.2, then y_i = h_i - h_(i-1).

    With x = 1.0 (10 steps of 0.1) and W = 100 steps of 0.013, h is 6.5 steps: the literal graph,
    which rounds three floats on the way, comes to 7, one multiplication of the integer 1000 to 6.
    """
    steps = {"sx": 0.1, "sw": 0.013, "sy": 0.2, "one": 1.0}
    eye = np.eye(4, dtype=np.int8)
    stored = {
        **{name: np.float32(step) for name, step in steps.items()},
        "zero": np.int8(0),
        "W": eye * np.int8(100),
        "D": eye - np.roll(eye, 1, axis=1),
    }
    rows = [
        ("QuantizeLinear", ["x", "sx", "zero"], "xq"),
        ("DequantizeLinear", ["xq", "sx", "zero"], "xd"),
        ("DequantizeLinear", ["W", "sw", "zero"], "wd"),
        ("MatMul", ["xd", "wd"], "h"),
        ("QuantizeLinear", ["h", "sy", "zero"], "hq"),
        ("DequantizeLinear", ["hq", "sy", "zero"], "hd"),
        ("DequantizeLinear", ["D", "one", "zero"], "dd"),
        ("MatMul", ["hd", "dd"], "y"),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, names, [made]) for kind, names, made in rows],
        "tied",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture(scope="module")
def tied():
    compilation = explorer.compile(from_proto(differences_of_quantized_numbers()))
    yield compilation.accuracy({"x": np.float32([[1.0, 1.1, 1.1, 0.8]])})
    compilation.close()


def test_a_rounding_tie_that_changes_the_output_is_told_end_to_end(tied: Accuracy):
    report = tied.report
    assert tied.passed and report.rests_on == "isolated"
    assert report.end_to_end[0].max_relative == pytest.approx(0.5, abs=1e-6)
    assert report.outputs[0].max_relative < 1e-6
    assert report.isolated_outputs[0].max_relative < 1e-6
    assert "end to end, behind ties, output y is off by 5.0e-01" in tied.summary


def test_the_end_to_end_error_is_what_a_user_gets(tied: Accuracy):
    found = tied.compilation.run(tied.inputs)["y"]
    assert np.allclose(tied.expected["y"], [[0.4, 0, 0, -0.4]])
    assert np.allclose(found, [[0.2, 0.2, 0, -0.4]])


def test_the_json_tells_both_and_the_tie(tied: Accuracy):
    summary = json.loads(json.dumps(summarize(tied.report, tied.compilation.model)))
    (output,) = summary["outputs"]
    assert output["end_to_end"]["max_relative"] == pytest.approx(0.5, abs=1e-6)
    assert output["isolated"]["max_relative"] == output["max_relative"] < 1e-6
    assert summary["rests_on"] == "isolated" and summary["passed"]
    (tie,) = summary["ties"]
    assert (tie["kind"], tie["tensor"], tie["element"]) == ("rounding", "hq", [0, 0])
    assert (tie["value"], tie["expected"]) == (6, 7)


def test_without_a_tie_the_verdict_rests_on_what_a_user_gets(tied: Accuracy):
    plain = tied.compilation.accuracy({"x": np.float32([[0.8, 1.1, 1.1, 0.8]])})
    summary = summarize(plain.report, tied.compilation.model)
    assert (summary["rests_on"], summary["ties"]) == ("end_to_end", [])
    assert plain.report.end_to_end == plain.report.outputs
    assert "end to end" not in plain.summary


# -- nothing but views -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "(float[1,2,4,4] x, float[1,3,3,2] g) => (float[1,2,3,3] y) { y = GridSample(x, g) }",
        "(float[2,3] x) => (float[2,3] y) { y = Identity(x) }",
        "(float[2,3] x) => (float[6] y) <int64[1] s = {6}> { y = Reshape(x, s) }",
    ],
    ids=["GridSample", "Identity", "Reshape"],
)
def test_outputs_are_compared_after_every_pass_whatever_else_is_there(text: str):
    found = accuracy(f"{HEAD} net {text}")
    assert found.passed, found.summary
    both = (*found.report.passes, *found.report.isolated)
    assert all("y" in {t.tensor for t in p.tensors} for p in both)


def test_nothing_that_can_be_compared_is_said():
    compilation = explorer.compile(
        from_proto(parser.parse_model(f"{HEAD} net (float[3] x) => (float[3] y) {{ y = Neg(x) }}"))
    )
    found = compilation.accuracy(golden={"other": np.zeros(3, np.float32)})
    compilation.close()
    assert not found.passed and found.bisect() is None
    assert "nothing could be compared after import" in found.report.problem
    assert found.report.problem in found.summary


# -- references that cannot run a model ------------------------------------------------------------


def test_a_model_that_kills_the_reference_is_compared_with_the_imported_program():
    found = accuracy(TRAP, {"x": np.int64([1, 2])})
    report = found.report
    assert found.passed and report.oracle == "the imported program"
    assert report.oracle_note == "onnxruntime was ended by SIGFPE when it ran 'model'"
    assert "equal to the program as it was imported (onnxruntime was ended" in found.summary
    summary = summarize(report, found.compilation.model)
    assert summary["reference"] == "the imported program"
    assert "SIGFPE" in summary["reference_note"]
