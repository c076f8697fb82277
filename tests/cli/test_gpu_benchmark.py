"""The benchmark for GPUs: a model that fails costs itself alone; what was measured stays."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "gpu"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(monkeypatch, tmp_path) -> ModuleType:
    """`run.py` whose child does what its request's name says."""
    child = tmp_path / "child.py"
    child.write_text(
        "import json, os, pathlib, signal, sys, time\n"
        "request = json.loads(sys.argv[2])\n"
        "def write(**row):\n"
        "    pathlib.Path(sys.argv[1]).write_text(json.dumps({**row, 'name': request['name']}))\n"
        "if request['name'] == 'good': write(milliseconds=2.0, tolerance=1.0, max_relative=0.0)\n"
        "if request['name'] == 'crash': os.kill(os.getpid(), signal.SIGSEGV)\n"
        "if request['name'] == 'hang': time.sleep(60)\n"
        "if request['name'] == 'late': write(milliseconds=3.0); sys.exit('the driver went away')\n"
    )
    module = load("run", monkeypatch)
    monkeypatch.setattr(module, "HERE", tmp_path)
    return module


def row_of(run: ModuleType, report: ModuleType, name: str, seconds: float):
    request = {"action": "model", "name": name, "precision": "float32"}
    return run.measure(request, run.time.time() + seconds, report.ModelRow)


def test_a_crash_and_a_hang_cost_their_model_alone(run, monkeypatch):
    report = load("report", monkeypatch)
    assert row_of(run, report, "good", 30).milliseconds == 2.0
    assert row_of(run, report, "crash", 30).refusal == "SIGSEGV"
    assert row_of(run, report, "hang", 1).refusal.startswith("it did not end within")
    assert row_of(run, report, "good", -1).refusal == run.NOT_REACHED


def test_what_was_measured_before_a_failure_stays(run, monkeypatch):
    row = row_of(run, load("report", monkeypatch), "late", 30)
    assert (row.milliseconds, row.note, row.refusal) == (3.0, "the driver went away", "")


def test_the_report_names_what_was_left_out_and_why(monkeypatch, tmp_path):
    report = load("report", monkeypatch)
    rows = [
        report.ModelRow("net", max_relative=1e-7, tolerance=1e-5, milliseconds=4.0, gigaflops=2.0),
        report.ModelRow("net", "mixed", 1e-1, 1.0, tolerance=1e-2, gigaflops=2.0),
        report.ModelRow("broken", refusal="SIGSEGV"),
    ]
    written = report.Report(
        date="2024-01-01",
        device={"name": "a device", "driver": "a driver", "version": "1.2"},
        target="opencl",
        peaks=report.Peaks(1000.0, 100.0, 8000.0),
        absent={"torch-eager": "not installed"},
        tensor_cores="",
        rows=rows,
    )
    as_json, as_table = report.write_report(written, tmp_path / "out")
    found = json.loads(as_json.read_text())
    assert [row["refusal"] for row in found["rows"]] == ["", "", "SIGSEGV"]
    assert found["rows"][2]["milliseconds"] is None
    text = as_table.read_text()
    assert "| net | 4.000 | 50.0% |" in text
    assert "| net (mixed) | 1.000 | 25.0% |" in text  # of the matrix instructions' peak
    assert "1.0e-01 (wrong)" in text
    assert "| broken | left out: SIGSEGV |" in text
    assert "Not measured: torch-eager (not installed)." in text


def test_what_is_missing_is_named_and_nothing_is_installed(run, monkeypatch, capsys):
    monkeypatch.setattr(run, "NEEDED", ("numpy", "a_package_that_is_not_there"))
    assert run.main(["--quick"]) == 2
    assert "missing in" in capsys.readouterr().out


def test_unknown_peers_and_precisions_are_refused(run, capsys):
    for arguments in (["--peers", "tvm"], ["--precision", "half"]):
        with pytest.raises(SystemExit):
            run.main(arguments)
    assert "there is no 'half'; there are float32, mixed" in capsys.readouterr().err
