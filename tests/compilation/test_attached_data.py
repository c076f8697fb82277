"""Data that are attached to a compilation: what fits, what is refused, and what they tell."""

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import explorer
from explorer.compilation import Compilation
from explorer.compilation.data.attached import AttachedData, fit_data
from explorer.compilation.data.judging import judge_outputs
from explorer.errors import InputError
from explorer.importers.samples import sample
from explorer.results.data import DataRecord
from explorer.results.runs.events import ProfileRecord


def scores_model(path: Path, batch: int | str = 1, weight: float = 1.0) -> Path:
    """y = x @ (weight I) for rows of three."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "scores")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3])],
        [numpy_helper.from_array(weight * np.eye(3, dtype=np.float32), "w")],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Compilation:
    return explorer.compile(scores_model(tmp_path_factory.mktemp("m") / "scores.onnx"))


ROWS = np.eye(3, dtype=np.float32)[[0, 1, 2, 1]]


@pytest.mark.parametrize(
    "array", [ROWS, ROWS[:, None], ROWS.astype(np.int64), ROWS.astype(np.float64)]
)
def test_examples_are_along_the_first_axis(scores: Compilation, array: np.ndarray):
    data = fit_data(AttachedData("d", {"x": array}, np.array([0, 1, 2, 2])), scores)
    assert (data.count, data.examples_per_run) == (4, 1)
    found = [data.at(run)["x"] for run in range(4)]
    assert [a.dtype for a in found] == [np.float32] * 4
    np.testing.assert_array_equal(np.concatenate(found), ROWS)
    labels = data.labels_at(3)
    assert labels is not None
    assert labels.tolist() == [2]
    assert str(data.record) == "d, 4 examples"


@pytest.mark.parametrize("array", [ROWS[:1], ROWS[0]])
def test_one_example_is_one_run(scores: Compilation, array: np.ndarray):
    data = fit_data(AttachedData("d", {"x": array}), scores)
    assert (data.count, str(data.record)) == (1, "d, 1 example")
    assert data.at(0)["x"].shape == (1, 3)


def test_examples_that_fill_no_batch_are_left_out(tmp_path: Path):
    c = explorer.compile(scores_model(tmp_path / "s.onnx", "batch"), dimensions={"batch": 3})
    data = fit_data(AttachedData("d", {"x": ROWS}, np.array([0, 1, 2, 1])), c)
    assert (data.count, data.examples_per_run) == (1, 3)
    assert (data.record.examples, data.record.left_out) == (3, 1)


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        ({"x": ROWS, "y": ROWS}, None, "no input 'y'"),
        ({"x": ROWS[:, :2]}, None, r"takes arrays of shape \(1, 3\)"),
        ({"x": ROWS[:0]}, None, "has 0 examples"),
        ({"x": np.array(["a", "b", "c"])[None]}, None, "the array is str"),
        ({"x": ROWS}, [0, 1], "2 labels for 4 examples"),
        ({"x": ROWS}, [[0], [1], [2], [1]], "labels are whole numbers"),
        ({"x": ROWS}, [0.5, 1, 2, 1], "labels are whole numbers"),
        ({}, None, "no array for an input"),
        ("no_such.npz", None, "no such file"),
        (7, None, "inputs are arrays by name or files"),
    ],
)
def test_data_that_do_not_fit_are_refused_and_change_nothing(
    scores: Compilation, inputs: object, labels: object, words: str
):
    before = scores.data
    with pytest.raises(InputError, match=words):
        scores.attach(inputs, labels)  # pyright: ignore[reportArgumentType]
    assert scores.data is before


def test_inputs_of_different_numbers_of_examples_are_refused(tmp_path: Path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
    )
    path = tmp_path / "add.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    c = explorer.compile(path)
    rows = np.ones((4, 2), np.float32)
    with pytest.raises(InputError, match="different numbers of examples: a 4, b 3"):
        c.attach({"a": rows, "b": rows[:3]})
    # One example of an input is that of all runs; an input without data is drawn, and reported.
    assert fit_data(AttachedData("d", {"a": rows, "b": rows[:1]}), c).count == 4
    data = fit_data(AttachedData("d", {"a": rows}), c)
    assert str(data.record) == "d, 4 examples; b drawn"


def test_right_answers_and_errors_are_of_all_examples(scores: Compilation):
    c = scores.fork()
    c.attach(ROWS, [0, 1, 2, 2], name="four.npz")
    report = c.accuracy().report
    assert report.task is not None
    assert (report.task.right, report.task.total, report.task.source_right) == (3, 4, 3)
    assert str(report.data) == "four.npz, 4 examples"
    assert [e.sqnr_db for e in report.against_source] == [math.inf]
    assert c.fork().data is c.data  # forks are judged on the same data
    assert c.attach(None).data is None


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_of_no_class_is_refused(scores: Compilation, label: int):
    c = scores.fork().attach(ROWS, [0, 1, 2, label])
    with pytest.raises(InputError, match=f"label {label} is no class .* which has 3 scores"):
        c.accuracy()


def test_errors_are_summed_over_all_runs(scores: Compilation, tmp_path: Path):
    """The program has another weight than its source: 10 log10(sum b^2 / sum (a - b)^2)."""
    other = explorer.compile(scores_model(tmp_path / "other.onnx", weight=1.5))
    wrong = scores.fork()
    wrong._executable = other.executable
    rows = np.array([[4, 0, 0], [0, 0, 0], [0, 2, 1]], np.float32)
    found = judge_outputs(wrong, fit_data(AttachedData("d", {"x": rows}), wrong))
    assert found.outputs[0].sqnr_db == pytest.approx(10 * math.log10(4))
    assert found.outputs[0].max_relative == pytest.approx(2 / 4)
    assert found.runs == 3
    other.close()


def test_a_number_that_is_none_is_an_infinite_error(scores: Compilation):
    class Broken:
        def run(self, inputs: object) -> dict[str, np.ndarray]:
            return {"y": np.full((1, 3), np.nan, np.float32)}

    wrong = scores.fork()
    wrong._executable = Broken()  # pyright: ignore[reportAttributeAccessIssue]
    found = judge_outputs(wrong, fit_data(AttachedData("d", {"x": ROWS}), wrong)).outputs[0]
    assert (found.sqnr_db, found.max_relative) == (-math.inf, math.inf)


def test_a_profile_says_what_ran(scores: Compilation):
    c = scores.fork()
    assert str(c.profile(repeats=1).data) == "seeded noise"
    assert str(c.attach(ROWS, name="four.npz").profile(repeats=1).data) == "four.npz, 1 example"
    given = c.profile({"x": ROWS[:1]}, repeats=1)
    assert isinstance(given, ProfileRecord)
    assert given.data == DataRecord(name="the given inputs", examples=1)


def test_the_only_array_may_have_any_name_and_brings_its_labels():
    c = explorer.compile(sample("digits_mlp"))
    c.attach(sample("digits_test"))
    assert c.data is not None
    assert c.data.labels is not None
    assert c.data.name == "digits_test.npz"
    assert set(c.judged_inputs()) == {value.name for value in c.model.inputs}
