"""Comparison after every pass: two modes, ties of indices, and what can never pass."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.accuracy.comparison import Subject, compare, expected_values
from explorer.accuracy.measuring import Measurements
from explorer.accuracy.ties import near_ties
from explorer.ir.origins import Origin, set_origins
from explorer.results import PassAccuracy

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

X = np.array([-2, -1, 0, 3], np.float32)
CHAIN = """
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %a = top.unary(%x) {kind = "abs"} : tensor<4xf32>
  %b = top.unary(%a) {kind = "neg"} : tensor<4xf32>
  %y = top.unary(%b) {kind = "floor"} : tensor<4xf32>
  top.return(%y)
}
"""


def subject(text: str, name: str = "import", same: bool = False) -> Subject:
    snapshot = programs.program(text).snapshot
    run = lambda inputs, replaced: snapshot.run(inputs, None, replaced)  # noqa: E731
    return Subject(name, snapshot, run, same)


def check(*subjects: Subject, reference=None, outputs=(("y", "y"),), inputs=None):
    right = programs.program(CHAIN).snapshot.run({"x": X}) if reference is None else reference
    return compare(
        subjects, {"x": X} if inputs is None else inputs, right, outputs, "cpu", "text", 1e-6
    )


def errors(accuracy) -> dict[str, float]:
    return {t.tensor: t.max_relative for t in accuracy.tensors}


def test_an_equal_program_passes_in_both_modes():
    report = check(subject(CHAIN))
    assert report.passed
    assert errors(report.passes[0]) == errors(report.isolated[0]) == {"a": 0.0, "b": 0.0, "y": 0.0}
    assert [o.max_relative for o in report.outputs] == [0.0]


def test_errors_travel_in_accumulated_mode_and_stay_in_isolated_mode():
    report = check(subject(CHAIN), subject(CHAIN.replace('"neg"', '"ceil"'), "broken"))
    assert not report.passed
    assert errors(report.passes[1]) == {"a": 0.0, "b": 2.0, "y": 2.0}
    assert errors(report.isolated[1]) == {"a": 0.0, "b": 2.0, "y": 0.0}


def test_an_error_that_is_masked_later_still_fails():
    """relu(-|x|) is 0 whatever |x| was: only isolation and intermediates show the fault."""
    masking = CHAIN.replace('"floor"', '"relu"')
    right = programs.program(masking).snapshot.run({"x": X})
    report = check(subject(masking.replace('"abs"', '"relu"')), reference=right)
    assert report.outputs[0].max_relative == 0.0
    assert not report.passed
    assert errors(report.passes[0])["a"] == 2 / 3


def test_nothing_compared_is_a_failure():
    assert not check().passed
    strangers = {"other": X, "y": -np.abs(X)}
    report = check(subject(CHAIN.replace("%y", "%z")), reference=strangers, outputs=())
    assert report.passes[0].tensors == ()
    assert not report.passed


def test_an_output_that_is_not_there_is_a_failure():
    report = check(subject(CHAIN), outputs=(("y", "y"), ("logits", "gone")))
    assert [o.max_relative for o in report.outputs] == [0.0, np.inf]
    assert not report.passed


def test_nan_never_passes():
    broken = CHAIN.replace('"floor"', '"log"')
    report = check(subject(broken))
    assert errors(report.passes[0])["y"] == np.inf
    assert not report.passed


def test_passes_that_changed_nothing_keep_the_errors_before():
    def explode(inputs, replaced):
        raise AssertionError("it runs although nothing changed")

    first = subject(CHAIN)
    second = Subject("unchanged", first.snapshot, explode, is_same_as_before=True)
    report = check(first, second)
    assert [p.name for p in report.passes] == ["import", "unchanged"]
    assert report.passes[1].tensors == report.passes[0].tensors
    assert report.passed


def test_values_in_another_form_are_compared_element_by_element():
    working = programs.program("""
        func.func @main(%x : tensor<2x3xf32>) -> tensor<3x2xf32> {
          %t = top.transpose(%x) {permutation = [1, 0]} : tensor<3x2xf32>
          %y = top.unary(%t) {kind = "neg"} : tensor<3x2xf32>
          top.return(%y)
        }""")
    y = working.snapshot.operations["y"]
    set_origins(y, [Origin("source").then("permute", [1, 0])])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = expected_values(working.snapshot, {"source": -x})
    np.testing.assert_array_equal(expected["y"], -x.T)
    run = lambda inputs, replaced: working.snapshot.run(inputs, None, replaced)  # noqa: E731
    right = check(
        Subject("p", working.snapshot, run), reference={"source": -x}, outputs=(), inputs={"x": x}
    )
    assert right.passed
    turned = {"source": -x.reshape(3, 2).T}
    wrong = check(
        Subject("p", working.snapshot, run), reference=turned, outputs=(), inputs={"x": x}
    )
    assert not wrong.passed


# -- near ties -------------------------------------------------------------------------------------

ARGMAX = """
func.func @main(%x : tensor<4xf32>, %t : tensor<4xf32>) -> tensor<f32> {
  %s = top.unary(%x) {kind = "abs"} : tensor<4xf32>
  %i = top.arg(%s) {kind = "max", axis = 0, keepdims = false, select_last = false} : tensor<i64>
  %y = top.gather(%t, %i) {axis = 0} : tensor<f32>
  top.return(%y)
}
"""
TABLE = np.array([10, 20, 30, 40], np.float32)


def argmax_report(scores, nudged):
    """The reference has `scores`; the subject computes with `nudged` ones."""
    inputs = {"x": np.array(nudged, np.float32), "t": TABLE}
    given = {**inputs, "x": np.array(scores, np.float32)}
    reference = programs.program(ARGMAX).snapshot.run(given)
    return check(subject(ARGMAX), reference=reference, inputs=inputs)


def tied(snapshot, values, expected) -> list[str]:
    return [tie.value for tie in near_ties(snapshot, values, expected)]


def test_a_near_tie_is_reported_and_what_follows_is_compared_in_isolation():
    report = argmax_report([1.0, 1.0000002, 0, 0], [1.0000002, 1.0, 0, 0])
    assert report.passes[0].ties == ("i",)
    (tie,) = report.passes[0].near_ties
    assert (tie.operation, tie.tensor, tie.elements, tie.index) == ("i", "i", 1, ())
    assert (tie.found, tie.expected) == (0, 1)
    assert 0 < tie.gap < 1e-6
    compared = errors(report.passes[0])
    assert set(compared) == {"s", "y"}
    assert compared["y"] == 0.0
    assert compared["s"] < 1e-6


def test_another_index_that_is_no_tie_is_wrong():
    report = argmax_report([1.0, 2.0, 0, 0], [2.0, 1.0, 0, 0])
    assert report.passes[0].ties == ()
    assert errors(report.passes[0])["i"] == np.inf
    assert errors(report.passes[0])["y"] == 0.5
    assert not report.passed


def test_ties_are_told_from_the_reference_scores():
    snapshot = programs.program(ARGMAX).snapshot
    scores = np.array([3.0, 3.0, 1.0, 0.0], np.float32)
    expected = {"s": scores, "i": np.array(0)}
    assert tied(snapshot, {"i": np.array(1)}, expected) == ["i"]
    assert tied(snapshot, {"i": np.array(0)}, expected) == []
    assert tied(snapshot, {"i": np.array(2)}, expected) == []


def test_ties_along_an_axis_are_found_with_and_without_keepdims():
    for keep, kind in ((False, "tensor<2xi64>"), (True, "tensor<2x1xi64>")):
        text = f"""func.func @main(%x : tensor<2x3xf32>) -> {kind} {{
          %s = top.unary(%x) {{kind = "abs"}} : tensor<2x3xf32>
          %i = top.arg(%s) {{kind = "max", axis = 1, keepdims = {str(keep).lower()},
                             select_last = false}} : {kind}
          top.return(%i)
        }}"""
        snapshot = programs.program(text).snapshot
        scores = np.array([[1, 5, 5], [7, 0, 0]], np.float32)
        shape = (2, 1) if keep else (2,)
        expected = {"s": scores, "i": np.array([1, 0]).reshape(shape)}
        equal, wrong = (np.array(i).reshape(shape) for i in ([2, 0], [2, 1]))
        assert tied(snapshot, {"i": equal}, expected) == ["i"]
        assert tied(snapshot, {"i": wrong}, expected) == []


def test_an_index_outside_of_the_scores_is_no_tie():
    snapshot = programs.program(ARGMAX).snapshot
    expected = {"s": np.array([3, 3, 3, 3], np.float32), "i": np.array(0)}
    assert tied(snapshot, {"i": np.array(4)}, expected) == []
    assert tied(snapshot, {"i": np.array(-1)}, expected) == []
    assert tied(snapshot, {"i": np.array([1, 1])}, expected) == []


def test_launches_made_of_an_argmax_tie_like_it():
    working = programs.program(ARGMAX)
    top = working.snapshot
    results = programs.lower(working, lanes=4)
    inputs = {"x": np.array([1.0000002, 1.0, 0, 0], np.float32), "t": TABLE}
    reference = top.run({**inputs, "x": np.array([1.0, 1.0000002, 0, 0], np.float32)})
    subjects = [
        Subject(r.name, r.after, lambda i, fed, s=r.after: s.run(i, None, fed))
        for r in (results[0], results[2])
    ]
    report = compare(subjects, inputs, reference, (("y", "y.device"),), "cpu", "text", 1e-6)
    assert [p.ties for p in report.passes] == [("i",), ("i",)]
    assert all(errors(p)["y"] == 0.0 for p in report.passes)
    assert report.passed  # what the host receives from the device included


# -- ties of a top-k -------------------------------------------------------------------------------

TOP_K = """
func.func @main(%x : tensor<4xf32>, %t : tensor<4xf32>) -> tensor<2xf32> {
  %s = top.unary(%x) {kind = "abs"} : tensor<4xf32>
  %k, %k.1 = top.top_k(%s) {k = 2, axis = 0, largest = true} : tensor<2xf32>, tensor<2xi64>
  %picked = top.gather(%t, %k.1) {axis = 0} : tensor<2xf32>
  %z = top.unary(%k) {kind = "neg"} : tensor<2xf32>
  %y = top.binary(%picked, %z) {kind = "add"} : tensor<2xf32>
  top.return(%y)
}
"""


def top_k_report(scores, nudged):
    """The reference has `scores`; the subject computes with `nudged` ones."""
    inputs = {"x": np.array(nudged, np.float32), "t": TABLE}
    given = {**inputs, "x": np.array(scores, np.float32)}
    reference = programs.program(TOP_K).snapshot.run(given)
    return check(subject(TOP_K), reference=reference, inputs=inputs)


def test_a_near_tie_of_a_top_k_is_reported_and_its_values_are_still_compared():
    report = top_k_report([5.0, 3.0, 3.0000002, 0], [5.0, 3.0000002, 3.0, 0])
    assert report.passes[0].ties == ("k",)
    (tie,) = report.passes[0].near_ties
    assert (tie.operation, tie.tensor, tie.elements, tie.index) == ("k", "k.1", 1, (1,))
    assert (tie.found, tie.expected) == (1, 2)
    compared = errors(report.passes[0])
    assert set(compared) == {"s", "k", "picked", "z", "y"}
    assert compared["picked"] == 0.0  # of the isolated run, which is fed the reference's index
    assert 0 <= compared["z"] < 1e-6


def test_another_element_of_a_top_k_that_is_no_tie_is_wrong():
    report = top_k_report([5.0, 3.0, 4.0, 0], [5.0, 4.0, 3.0, 0])
    assert report.passes[0].ties == ()
    assert errors(report.passes[0])["k.1"] == np.inf
    assert not report.passed


def test_a_top_k_that_picks_an_element_twice_is_no_tie():
    snapshot = programs.program(TOP_K).snapshot
    expected = {"s": np.array([3, 3, 3, 0], np.float32), "k.1": np.array([0, 1])}
    assert tied(snapshot, {"k.1": np.array([1, 2])}, expected) == ["k.1"]
    assert tied(snapshot, {"k.1": np.array([1, 1])}, expected) == []
    assert tied(snapshot, {"k.1": np.array([0, 3])}, expected) == []
    assert tied(snapshot, {"k.1": np.array([0, 4])}, expected) == []


def test_launches_made_of_a_top_k_tie_like_it():
    working = programs.program(TOP_K)
    top = working.snapshot
    results = programs.lower(working, lanes=4)
    inputs = {"x": np.array([5.0, 3.0000002, 3.0, 0], np.float32), "t": TABLE}
    reference = top.run({**inputs, "x": np.array([5.0, 3.0, 3.0000002, 0], np.float32)})
    subjects = [
        Subject(r.name, r.after, lambda i, fed, s=r.after: s.run(i, None, fed))
        for r in (results[0], results[2])
    ]
    report = compare(subjects, inputs, reference, (("y", "y.device"),), "cpu", "text", 1e-6)
    assert [p.ties for p in report.passes] == [("k",), ("k",)]
    for accuracy in report.passes:
        assert errors(accuracy)["picked"] == 0.0
        assert max(errors(accuracy).values()) < 1e-6
    assert report.passed


# -- details ---------------------------------------------------------------------------------------


def test_the_worst_elements_stand_at_their_positions_in_the_source_tensor():
    working = programs.program("""
        func.func @main(%x : tensor<2x3xf32>) -> tensor<3x2xf32> {
          %t = top.transpose(%x) {permutation = [1, 0]} : tensor<3x2xf32>
          %y = top.unary(%t) {kind = "neg"} : tensor<3x2xf32>
          top.return(%y)
        }""")
    set_origins(working.snapshot.operations["y"], [Origin("source").then("permute", [1, 0])])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    source = -x
    source[1, 0] = 7.0
    run = lambda inputs, replaced: working.snapshot.run(inputs, None, replaced)  # noqa: E731
    report = check(
        Subject("p", working.snapshot, run),
        reference={"source": source},
        outputs=(),
        inputs={"x": x},
    )
    (error,) = [t for t in report.passes[0].tensors if t.tensor == "source"]
    assert (error.worst_index, error.worst_value, error.expected_value) == ((1, 0), -3.0, 7.0)
    assert error.detail is not None
    detail = report.details[error.detail]
    assert [(w.index, w.value, w.expected) for w in detail.worst] == [((1, 0), -3.0, 7.0)]
    assert detail.equal == 5


def test_equal_tensors_share_a_detail_between_passes_and_modes():
    broken = CHAIN.replace('"neg"', '"ceil"')
    report = check(subject(CHAIN), subject(broken, "broken"))
    places = {
        (p.name, p.mode): {t.tensor: t.detail for t in p.tensors}
        for p in (*report.passes, *report.isolated)
    }
    right = places[("import", "accumulated")]
    assert places[("import", "isolated")] == right
    assert places[("broken", "accumulated")]["a"] == right["a"]
    assert places[("broken", "accumulated")]["b"] != right["b"]
    assert places[("broken", "isolated")]["y"] == right["y"]
    assert len(report.details) == 5  # a, b, y; and b and y of the broken program


def test_details_beyond_the_cap_are_left_out_the_smallest_errors_first():
    x = np.zeros(3, np.float32)
    measurements = Measurements({f"t{i}": x for i in range(5)}, most_details=2)
    wrong = [0.1, 0.4, 0.0, 0.3, 0.2]
    found = [
        measurements.error("op", np.array([0, 0, w], np.float32), x, Origin(f"t{i}"))
        for i, w in enumerate(wrong)
    ]
    settled = measurements.settled(PassAccuracy("p", "accumulated", tuple(found)))
    kept = [t.detail for t in settled.tensors]
    assert kept == [None, 0, None, 1, None]
    assert [d.worst[0].value for d in measurements.details] == [
        pytest.approx(0.4),
        pytest.approx(0.3),
    ]
    assert measurements.left_out == 3
