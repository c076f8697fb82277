"""Sequences and optionals as inputs of a model: compiled for the tensors that are given."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.onnx_backend import Representation
from explorer.session import Session

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
INTO_ONE = """into_one (seq(float[n,3]) rows, float[3] b) => (float[m,3] y, int64 count) {
  all = ConcatFromSequence <axis = 0> (rows)
  y = Add (all, b)
  count = SequenceLength (rows)
}"""
OR_ZERO = """or_zero (optional(float[3]) o, float[3] x) => (float[3] y) {
  has = OptionalHasElement (o)
  y = If (has) <
    then_branch = a () => (p) { e = OptionalGetElement (o) p = Add (e, x) },
    else_branch = b () => (q) { q = Identity (x) }
  >
}"""


def saved(folder: Path, text: str) -> Path:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f"{HEADER} {text}"), str(path))
    return path


@pytest.mark.parametrize("count", [1, 3])
def test_a_sequence_is_compiled_for_as_many_tensors_as_are_given(tmp_path: Path, count: int):
    path = saved(tmp_path, INTO_ONE)
    inputs: dict[str, Any] = {"rows": [ROWS + i for i in range(count)], "b": ROWS[1]}
    compilation = ex.compile(path, inputs=inputs)
    names = [port.name for port in compilation.program.inputs]
    assert names == [*(f"rows.{i}" for i in range(count)), "b"]
    found = compilation.run(inputs)
    compilation.close()
    np.testing.assert_array_equal(found["y"], np.concatenate(inputs["rows"]) + ROWS[1])
    assert found["count"] == count


def test_a_session_takes_the_sequence_that_its_model_was_loaded_for(tmp_path: Path):
    inputs: dict[str, Any] = {"rows": [ROWS, ROWS], "b": ROWS[0]}
    with Session(ex.load(saved(tmp_path, INTO_ONE), inputs)) as session:
        found = session.run(inputs)["y"]
    np.testing.assert_array_equal(found, np.concatenate([ROWS, ROWS]) + ROWS[0])


@pytest.mark.parametrize(("given", "expected"), [(ROWS[1], ROWS[0] + ROWS[1]), (None, ROWS[0])])
def test_an_optional_is_there_or_not(tmp_path: Path, given: np.ndarray | None, expected: Any):
    inputs = {"o": given, "x": ROWS[0]}
    compilation = ex.compile(saved(tmp_path, OR_ZERO), inputs=inputs)
    np.testing.assert_array_equal(compilation.run(inputs)["y"], expected)
    compilation.close()


def test_without_its_tensors_a_sequence_is_refused_with_the_way_out(tmp_path: Path):
    with pytest.raises(UnsupportedError, match="input 'rows' is a sequence") as caught:
        ex.compile(saved(tmp_path, INTO_ONE))
    assert "inputs={'rows': [first, second]}" in caught.value.hint


TEXTS = [np.array(["a", "été"], object), np.array(["", "xxxxx"], object)]


@pytest.mark.parametrize(
    "text",
    [
        "same (seq(string[2]) s) => (seq(string[2]) y) { y = Identity (s) }",
        "content (seq(string[2]) s) => (seq(string[2]) y) { y = OptionalGetElement (s) }",
        """longer (seq(string[2]) s, string[2] t) => (seq(string[2]) y) {
          y = SequenceInsert (s, t)
        }""",
        """again (seq(string[2]) s, string[2] t) => (seq(string[2]) y) {
          y = SequenceConstruct (t, t)
        }""",
    ],
)
def test_a_sequence_of_strings_comes_back_as_strings(tmp_path: Path, text: str):
    path = saved(tmp_path, text)
    inputs: dict[str, Any] = {"s": TEXTS, "t": TEXTS[0]}
    model = onnx.load(path)
    inputs = {value.name: inputs[value.name] for value in model.graph.input}
    expected = ReferenceEvaluator(model).run(None, inputs)[0]
    found = Representation(model, "INTERPRETER", lambda _: None).run(inputs)[0]
    assert [a.tolist() for a in found] == [np.asarray(a).tolist() for a in expected]


@pytest.mark.parametrize("given", [TEXTS[1], None])
def test_an_optional_of_strings_is_there_or_not(given: np.ndarray | None):
    text = "has (optional(string[2]) o) => (bool y) { y = OptionalHasElement (o) }"
    model = onnx.parser.parse_model(f"{HEADER} {text}")
    found = Representation(model, "INTERPRETER", lambda _: None).run({"o": given})
    assert found[0] == (given is not None)
