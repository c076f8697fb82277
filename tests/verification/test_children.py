"""Child processes that crash, hang or find something: one outcome each, and the next case runs."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from explorer.runtime.child import Child
from verification.conformance.jobs import run_cases
from verification.conformance.suite import Case

SCRIPT = """
    import json, os, signal, sys, time

    with os.fdopen(int(sys.argv[1]), "w") as replies:
        for line in sys.stdin:
            request = json.loads(line)
            match request["case"]:
                case "crashes":
                    os.kill(os.getpid(), signal.SIGSEGV)
                case "hangs":
                    time.sleep(60)
                case "finds":
                    print("==7==ERROR: AddressSanitizer: use-after-poison on 0x7f", file=sys.stderr)
                    print("    #0 0x7f11 in relu_1_phase0 program.c:12", file=sys.stderr)
                    sys.exit(1)
                case "gives up":
                    print("no memory", file=sys.stderr)
                    sys.exit(3)
            outcome = {**request, "status": "passed", "reason": str(os.getpid()), "seconds": 0.1}
            replies.write(json.dumps(outcome) + "\\n")
            replies.flush()
"""


@pytest.fixture
def child(tmp_path: Path):
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(SCRIPT))
    child = Child((str(script),))
    yield child
    child.close()


def ask(child: Child, name: str, seconds: float = 30.0) -> dict:
    return child.ask({"case": name}, seconds)


def test_one_child_runs_case_after_case(child):
    first, second = ask(child, "one"), ask(child, "two")
    assert (first["case"], second["case"]) == ("one", "two")
    assert first["reason"] == second["reason"]  # the same process


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("crashes", "crashed", "the process ended with SIGSEGV"),
        ("gives up", "crashed", "the process ended with status 3: no memory"),
        (
            "finds",
            "finding",
            "ERROR: AddressSanitizer: use-after-poison on 0x7f in relu_1_phase0",
        ),
    ],
)
def test_a_child_that_dies_is_an_outcome_and_the_next_case_runs(child, name, status, reason):
    assert ask(child, name) == {"status": status, "reason": reason}
    assert ask(child, "next")["status"] == "passed"


def test_a_case_that_does_not_end_is_stopped(child):
    assert ask(child, "starts")["status"] == "passed"  # a new child gets time to start on top
    assert ask(child, "hangs", seconds=0.2)["status"] == "hung"
    assert ask(child, "next")["status"] == "passed"


def test_outcomes_come_by_device_in_the_order_of_the_cases():
    cases = [Case(f"test_{name}", "node", ()) for name in ("relu", "abs")]
    seen = []
    outcomes = run_cases(
        cases,
        ("INTERPRETER", "CPU"),
        report=lambda outcome, number, total: seen.append((number, total)),
    )
    assert [(o.case, o.device, o.status) for o in outcomes] == [
        ("test_relu", "INTERPRETER", "passed"),
        ("test_abs", "INTERPRETER", "passed"),
        ("test_relu", "CPU", "passed"),
        ("test_abs", "CPU", "passed"),
    ]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


FORKS = """
    import os, sys
    from verification.forks import answer_in_forks

    answered = []

    def answer(request):
        print("about", request["case"], file=sys.stderr)
        if request["signal"]:
            os.kill(os.getpid(), request["signal"])
        answered.append(request["case"])
        return {"answered": answered, "of": os.getppid(), "ratio": 1 / request["divisor"]}

    answer_in_forks(answer, int(sys.argv[1]))
"""


def test_a_fork_leaves_nothing_to_the_next_and_its_end_is_the_end_of_the_child(tmp_path: Path):
    script = tmp_path / "forks.py"
    script.write_text(textwrap.dedent(FORKS))
    child = Child((str(script),), environment={"PYTHONPATH": os.pathsep.join(sys.path)})

    def ask(case: str, signal: int = 0, divisor: int = 1) -> dict:
        return child.ask({"case": case, "signal": signal, "divisor": divisor}, 30.0)

    try:
        one, two = ask("one"), ask("two")
        assert (one["answered"], two["answered"]) == (["one"], ["two"])
        assert one["of"] == two["of"]
        for signal, name in ((9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM")):
            killed = ask("three", signal)
            assert killed["reason"] == f"the process ended with {name}: about three"
            assert killed["status"] == "crashed"
        raised = ask("four", divisor=0)
        assert raised["reason"].endswith("status 1: ZeroDivisionError: division by zero")
        assert ask("five")["answered"] == ["five"]
    finally:
        child.close()
