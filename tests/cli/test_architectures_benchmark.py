"""`benchmarks/architectures/pytorch`: outcomes, a journal that a run goes on with, tables."""

import json
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "architectures" / "pytorch"
OF_THE_BENCHMARK = ("registry", "plain", "vision", "language")

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.fixture(scope="module")
def command():
    """The command, which is run by its path and is no package of ours."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(FOLDER))
    spec = spec_from_file_location("architectures_command", FOLDER / "__main__.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name in OF_THE_BENCHMARK:
            del sys.modules[name]


@pytest.mark.sweep
def test_one_is_right_one_is_refused_and_neither_is_judged_twice(command, tmp_path, capsys):
    journal = tmp_path / "journal.jsonl"
    journal.write_text('{"name": "plain/perceptron", "sta')  # a run that was ended while it wrote
    arguments = ["plain/perceptron", "plain/reservoir", "--journal", str(journal)]
    assert command.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "1 of the 2 that torch.export takes are right." in lines
    assert "| aten.linalg_eigvals: unknown operator | 1 |" in lines
    rows = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert [(row["name"], row["status"]) for row in rows] == [
        ("plain/perceptron", "right"),
        ("plain/reservoir", "refused"),
    ]
    assert "plain.py" in rows[1]["reason"]  # the line of Python
    written = journal.read_bytes()
    assert command.main([*arguments, "--report", str(tmp_path / "report.md")]) == 0
    assert journal.read_bytes() == written
    assert not any(line.startswith("1/") for line in capsys.readouterr().out.splitlines())
    assert "1 of the 2" in (tmp_path / "report.md").read_text()


@pytest.mark.sweep
def test_both_ways_stand_in_one_journal_and_on_one_page(command, tmp_path, capsys):
    journal, report = tmp_path / "journal.jsonl", tmp_path / "report.md"
    journal.write_text('{"name": "plain/perceptron", "status": "right"}')  # of a file
    arguments = ["plain/perceptron", "plain/reservoir", "--journal", str(journal)]
    assert command.main([*arguments, "--way", "torch.compile", "--report", str(report)]) == 0
    assert "1 of the 2 that PyTorch itself runs are right." in capsys.readouterr().out
    rows = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert [(row["way"], row["status"]) for row in rows] == [
        ("torch.compile", "right"),
        ("torch.compile", "in part"),
    ]
    assert "linalg_eigvals" in rows[1]["reason"]
    page = report.read_text()
    assert "1 of the 1 that torch.export takes are right." in page
    assert "1 of the 2 that PyTorch itself runs are right." in page


def test_what_torch_does_not_export_counts_for_nobody(command):
    rows = [
        {"name": "timm/a", "status": "not exported", "reason": "no module timm"},
        {"name": "plain/b", "status": "wrong", "reason": "y | z differs"},
        {"name": "plain/c", "status": "hung", "reason": "it did not end"},
        {"name": "plain/d", "status": "right", "reason": ""},
    ]
    lines = command.tables(rows)
    assert "1 of the 3 that torch.export takes are right." in lines
    assert "| plain/b | wrong | y / z differs |" in lines
    assert lines[0] == "| outcome | timm | plain | all | meaning |"


def test_an_unknown_name_is_refused(command, capsys):
    with pytest.raises(SystemExit) as raised:
        command.main(["torchvision/resnet19"])
    assert raised.value.code == 2
    assert "there is no torchvision/resnet19" in capsys.readouterr().err
