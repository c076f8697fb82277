"""What fails, in a child process or as a command: only that is run, with limits."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from explorer.errors import InputError, PassError, UnsupportedError
from explorer.reducing import Candidate, Outcome, differing
from explorer.reducing.candidate import candidate_of_proto
from explorer.reducing.conditions import Command, InChild, difference, outcome_of
from explorer.runtime.child import Child


@pytest.fixture
def pooled(make_model) -> Candidate:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    values = {"x": np.full((1, 1, 4, 4), 0.25, np.float32)}
    return candidate_of_proto(make_model(nodes, values, ["y"]), values)


def script(folder: Path, text: str) -> str:
    path = folder / "a script.sh"
    path.write_text(text)
    return f"sh '{path}'"


def test_a_command_fails_with_any_status_but_0(pooled: Candidate, tmp_path: Path):
    command = script(tmp_path, 'test -s "$1" && test -s "$2" && echo both && exit $3')
    assert Command(f"{command} {{model}} {{input}} 0", 5)(pooled) == Outcome("")
    assert Command(f"{command} {{model}} {{input}} 3", 5)(pooled) == Outcome("status 3", "both")
    killed = script(tmp_path, "kill -SEGV $$")
    assert Command(f"{killed} {{model}}", 5)(pooled).kind == "SIGSEGV"


def test_a_command_runs_without_a_shell_unless_it_needs_one(pooled: Candidate, tmp_path: Path):
    shown = script(tmp_path, 'for each in "$@"; do echo "<$each>"; done; exit 1')
    plain = Command(f"{shown} {{model}} 'a b' x=(1)", 5)(pooled).reason.splitlines()
    assert plain[1:] == ["<a b>", "<x=(1)>"]
    made = tmp_path / "made"
    Command(f"{shown} {{model}} > '{made}'", 5)(pooled)
    assert made.read_text().startswith("<")


@pytest.mark.parametrize(
    ("text", "message"),
    [("true", "no place for the model"), ("cat '{model}", "cannot be read: No closing quotation")],
)
def test_a_command_that_cannot_be_meant_is_refused(text: str, message: str):
    with pytest.raises(InputError, match=message):
        Command(text, 5)


def test_a_command_that_is_not_there_is_refused(pooled: Candidate, tmp_path: Path):
    with pytest.raises(InputError, match="cannot be run: No such file"):
        Command(f"{tmp_path / 'nothing'} {{model}}", 5)(pooled)


def test_a_command_that_hangs_is_ended_with_what_it_started(pooled: Candidate, tmp_path: Path):
    marker = tmp_path / "marker"
    command = script(tmp_path, f"(sleep 1; touch '{marker}') & sleep 60")
    assert Command(f"{command} {{model}}", 0.2)(pooled).kind == "hung"
    assert not marker.exists()


def test_numbers_differ_beyond_rounding_only():
    one = np.float32([1, 2, 4])
    assert difference(one * np.float32(1.0001), one) == ""
    assert difference(one * np.float32(1.1), one).startswith("at [2] expected 4.0, came 4.4")
    assert difference(np.float32([1, np.nan]), np.float32([1, np.nan])) == ""
    assert (
        difference(np.float32([1, np.nan]), np.float32([1, 2])) == "at [1] expected 2.0, came nan"
    )
    assert "inf" in difference(np.float32([np.inf]), np.float32([-np.inf]))
    assert difference(np.float32([-0.0, 1e-9]), np.float32([0, 0])) == ""
    assert difference(np.int8([1, 2]), np.int8([2, 2])) == "", "a tie may be rounded either way"
    assert difference(np.int8([-128]), np.int8([127])) != ""
    assert difference(np.uint64([2**64 - 1]), np.uint64([2**64 - 3])) != ""
    assert difference(np.array([True]), np.array([False])) != ""
    assert difference(np.float32([[1]]), np.float32([1])).startswith("expected float32 of [1]")
    assert difference(np.float64([1]), np.float32([1])) != ""
    assert difference(np.zeros(0, np.float32), np.zeros(0, np.float32)) == ""
    half = np.ones(2, ml_dtypes.bfloat16)
    assert difference(half, half) == ""


def test_errors_have_a_kind_by_where_they_are_raised(pooled: Candidate):
    def fails(error: Exception) -> Outcome | bool:
        def compute(candidate: Candidate) -> dict[str, np.ndarray]:
            raise error

        return differing(compute)(pooled)

    assert outcome_of(PassError("no", pass_name="fuse-add")).kind == "PassError in fuse-add"
    found = fails(KeyError("x"))
    assert isinstance(found, Outcome)
    assert found.kind == "KeyError in test_conditions.py, compute"
    assert fails(UnsupportedError("no such operator")) == Outcome("")
    assert differing(lambda c: c.expected)(pooled) == Outcome("")
    assert differing(lambda c: {})(pooled) == Outcome("differs", "y: there is no such output")


def test_check_and_crash_in_a_child(pooled: Candidate, tmp_path: Path, monkeypatch):
    """The child's kernels of pooling begin at 1; then it is ended by a signal."""
    (tmp_path / "sitecustomize.py").write_text(
        "import explorer.ir.top.pooling as pooling\npooling.lowest = lambda kind: 1.0\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    monkeypatch.setenv("EXPLORER_CACHE", "off")
    condition = InChild("check", seconds=60)
    try:
        found = condition(pooled)
        assert found == Outcome("differs", "y: at [0, 0, 0, 0] expected 0.25, came 1.0")
        assert InChild.__call__(condition, pooled) == found
        condition.what = "crash"
        assert condition(pooled) == Outcome("")
        monkeypatch.setattr(condition, "_child", Child(("-c", "import os; os.abort()")))
        assert condition(pooled).kind == "crashed"
    finally:
        condition.close()


def test_a_check_is_made_with_the_decisions_that_were_given(
    pooled: Candidate, monkeypatch: pytest.MonkeyPatch
):
    asked = []

    def ask(self: Child, request: dict, seconds: float) -> dict:
        asked.append(request)
        return {"status": "answered", "kind": "differs", "reason": ""}

    monkeypatch.setattr(Child, "ask", ask)
    for decisions in ({"fuse-bias/add": False}, None):
        InChild("check", decisions=decisions)(pooled)
    assert [request["decisions"] for request in asked] == [{"fuse-bias/add": False}, {}]
