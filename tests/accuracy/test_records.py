"""Reports as JSON and back, those of older versions included."""

import numpy as np

from explorer.accuracy.details import tensor_detail
from explorer.memory import GreedyPlanner
from explorer.results import (
    AccuracyReport,
    BufferLifetime,
    Fault,
    MemoryPlan,
    NearTie,
    PassAccuracy,
    TensorError,
)
from explorer.results.encoding import from_json, to_json


def full_report() -> AccuracyReport:
    actual = np.array([1.0, np.nan, -np.inf], np.float32)
    detail = tensor_detail(actual, np.array([1.0, 2.0, np.inf], np.float32))
    assert detail is not None
    error = TensorError(
        tensor="t",
        operation="op",
        max_absolute=1.0,
        max_relative=0.5,
        cosine=1.0,
        sqnr_db=60.0,
        worst_index=(2,),
        worst_value=1.0,
        expected_value=2.0,
        detail=0,
    )
    tie = NearTie("top", "best", 1, (0,), 3, 4, 1e-7)
    accuracy = PassAccuracy("import", "accumulated", (error,), ("top",), (tie,))
    fault = Fault(
        pass_name="import",
        rule="rule",
        operation="op",
        tensor="t",
        max_relative=0.5,
        address="import/rule/op",
    )
    return AccuracyReport(
        target="cpu",
        oracle="text",
        tolerance=1e-4,
        passes=(accuracy,),
        isolated=(),
        outputs=(error,),
        passed=False,
        details=(detail,),
        details_left_out=3,
        fault=fault,
    )


def test_a_report_with_details_ties_and_a_fault_comes_back():
    report = full_report()
    data = to_json(report)
    assert to_json(from_json(AccuracyReport, data)) == data  # as JSON, for NaN equals nothing


def test_a_report_of_an_older_version_is_read_without_them():
    data = to_json(full_report())
    newer = ("end_to_end", "isolated_outputs", "rests_on", "problem", "oracle_note")
    for name in ("details", "details_left_out", "fault", *newer):
        del data[name]
    for error in (*data["passes"][0]["tensors"], *data["outputs"]):
        del error["detail"]
    del data["passes"][0]["near_ties"]
    old = from_json(AccuracyReport, data)
    assert (old.details, old.details_left_out, old.fault) == ((), 0, None)
    assert (old.end_to_end, old.rests_on, old.problem) == ((), "end_to_end", "")
    assert old.passes[0].tensors[0].detail is None
    assert old.passes[0].ties == ("top",)
    assert old.passes[0].near_ties == ()


def test_a_plan_of_an_older_version_is_read_without_refused_places():
    buffers = [
        BufferLifetime(id=name, values=(name,), size_bytes=64, first=0, last=2)
        for name in ("a", "b")
    ]
    plan = GreedyPlanner()(buffers)
    assert plan.refusals
    assert from_json(MemoryPlan, to_json(plan)) == plan
    data = to_json(plan)
    for name in ("refusals", "refusals_left_out"):
        del data[name]
    for attempt in data["attempts"]:
        del attempt["is_chosen"]
    old = from_json(MemoryPlan, data)
    assert (old.refusals, old.refusals_left_out) == ((), 0)
    assert old.chosen_attempt == 0
