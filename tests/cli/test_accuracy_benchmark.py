"""What the accuracy benchmark does with models, data and results: the output that a softmax reads,
images from a file, the journal, the intervals of pairs, the table."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.errors import InputError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "accuracy"))
try:
    from cases import handwritten
    from logits import with_logits
    from results import OURS, Journal, Result, decibels_interval, paired_interval, table
finally:
    sys.path.pop(0)

BEST = Result(
    model="m", method=OURS, count=100, sqnr_db=30.0, cosine=1.0, differ=(1,), accuracy=90.0,
    exact_accuracy=91.0,
)  # fmt: skip


def test_a_run_goes_on_and_tries_again_what_failed(tmp_path):
    path = tmp_path / "journal.json"
    journal = Journal(path)
    journal.add(replace(BEST, noise=(0.5, 2.0), signal=(3.0, 4.0)))
    journal.add(replace(BEST, method="kl", problem="fails: no memory"))
    again = Journal(path)
    assert again.results == journal.results
    assert again.has("m", OURS)
    assert not again.has("m", "kl")
    again.add(replace(BEST, method="kl"))
    assert Journal(path).results[1:] == [replace(BEST, method="kl")]
    assert again.missing(["m"], [OURS, "kl", "mse"]) == ["mse"]
    assert again.missing(["m", "n"], [OURS]) == [OURS]


def test_points_lost_are_those_of_the_same_examples(tmp_path):
    path = tmp_path / "journal.json"
    Journal(path).add(replace(BEST, lost=(1, 2, 3, 4, 5, 6), won=(50,)))
    (kept,) = Journal(path).results
    lines = table([kept, replace(kept, method="a")], ("m",), (OURS, "a"), ("a",))
    found = [line for line in lines if "points lost" in line]
    words = "right only in floats 6, only in integers 1 of 100"
    assert found == [f"m: +5.00 points lost, 95 % -0.45 to +10.25 ({words})"]


def test_pairs_that_agree_say_nothing():
    """b = 6 and c = 1 of 100: (5 +- 1.96 sqrt(8 - 25 / 102)) / 102."""
    shared = [90, 91, 92]
    interval = paired_interval([*range(6), *shared], [50, *shared], 100)
    assert interval == pytest.approx((-0.449, 10.253), abs=1e-3)
    low, high = paired_interval(shared, shared, 100)
    assert low == -high
    assert low < 0


def test_ours_is_compared_with_the_best_peer_of_each_measure():
    peers = [
        replace(BEST, method="a", sqnr_db=28.0, differ=(1, 2)),
        replace(BEST, method="b", sqnr_db=20.0, differ=()),
        replace(BEST, method="c", problem="fails: unknown operator"),
    ]
    methods = (OURS, "a", "b", "c", "d")
    lines = table([BEST, *peers], ("m", "n"), methods, methods[1:])
    ours, first, second = (
        "90.0, 1, 30.0, 1.00000",
        "90.0, 2, 28.0, 1.00000",
        "90.0, 0, 20.0, 1.00000",
    )
    assert lines[0] == f"| model (tested) | float | {' | '.join(methods)} |"
    assert lines[2] == f"| m (100) | 91.0 | {ours} | {first} | {second} | fails | - |"
    assert lines[3] == ""  # nothing was measured of n
    assert any(line.startswith("| m | 28.0 (a) | 30.0 | 0 (b) | 1 |") for line in lines)
    assert "above the best peer's SQNR: 1 of 1 models, +2.0 dB on average" in lines
    assert lines[-1] == "m, c: fails: unknown operator"


def examples(noise: np.ndarray, method: str) -> Result:
    signal = tuple(np.linspace(1, 2, len(noise)))
    return replace(BEST, method=method, count=len(noise), noise=tuple(noise), signal=signal)


def test_decibels_are_compared_on_the_same_examples():
    """Ten times less noise in every example is 10 dB in every draw, however unlike they are."""
    noise = 10.0 ** np.random.default_rng(1).normal(-3, 1, 50)
    ours, theirs = examples(noise / 10, OURS), examples(noise, "a")
    assert decibels_interval(ours, theirs) == pytest.approx((10, 10, 10))
    (row,) = (
        line for line in table([ours, theirs], ("m",), (OURS, "a"), ("a",)) if "to +10" in line
    )
    assert row == f"| m | {OURS} | a | +10.0 | +10.0 to +10.0 |"


def test_one_doubtful_example_makes_the_interval_of_decibels_wide():
    """All but one are 3 dB better; the one, which has nearly all noise, is 20 dB worse."""
    noise = np.full(20, 1e-4)
    ours, theirs = noise / 2, noise.copy()
    ours[7], theirs[7] = 1.0, 0.01
    difference, low, high = decibels_interval(examples(ours, OURS), examples(theirs, "a"))
    assert difference == pytest.approx(10 * np.log10(theirs.sum() / ours.sum()))
    assert low < difference < -15
    assert high == pytest.approx(10 * np.log10(2))  # of draws without that example


def test_what_the_softmax_reads_is_one_more_output(tmp_path):
    weights = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["read"]),
        helper.make_node("Softmax", ["read"], ["p"]),
        helper.make_node("Flatten", ["p"], ["flat"]),
    ]
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in (("x", [1, 3]), ("flat", [1, 4]))
    ]
    graph = helper.make_graph(nodes, "g", *ports, [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    source, folder = tmp_path / "m.onnx", tmp_path / "made"
    folder.mkdir()
    onnx.save(model, source)
    path = with_logits(source, folder)
    assert path is not None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = np.array([[1, -2, 3]], np.float32)
    flat, read = session.run(None, {"x": x})
    np.testing.assert_allclose(read, x @ weights, rtol=1e-6)
    np.testing.assert_allclose(flat, np.exp(read) / np.exp(read).sum(), rtol=1e-6)
    assert with_logits(path, folder) is None  # it returns that already
    del model.graph.node[1:]
    model.graph.output[0].name = "read"
    onnx.save(model, source)
    assert with_logits(source, folder) is None  # nothing hides it


def test_images_of_a_large_file_calibrate_or_are_tested(tmp_path):
    """Rows in the order of their labels; the first pixel is the row's number."""
    rows = np.zeros((2600, 785), np.int32)
    rows[:, 0], rows[:, -1] = np.arange(2600), np.arange(2600) // 260
    path = tmp_path / "mnist.csv.gz"
    np.savetxt(path, rows, "%d", ",")
    case = handwritten(tmp_path, tmp_path, path)
    (calibrating,), (tested,) = case.calibration.values(), case.test.values()
    assert calibrating.shape == (500, 1, 1, 28, 28)
    seen, held_out = calibrating[:, 0, 0, 0, 0], tested[:, 0, 0, 0, 0]
    assert len({*seen, *held_out}) == 2500
    assert case.labels is not None
    np.testing.assert_array_equal(case.labels, held_out // 260)
    assert len({*(seen // 260)}) == 10
    np.savetxt(path, rows[:100], "%d", ",")
    with pytest.raises(InputError, match="100 rows of 785 numbers"):
        handwritten(tmp_path, tmp_path, path)
