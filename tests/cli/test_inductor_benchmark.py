"""`benchmarks/inductor`: the table of what a journal has, and its means."""

import json
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "inductor"

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.fixture(scope="module")
def command():
    """The command, which is run by its path and is no package of ours."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(FOLDER))
    spec = spec_from_file_location("inductor_command", FOLDER / "__main__.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(FOLDER.parent) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_means_are_geometric_and_what_was_left_out_is_said(command, tmp_path, capsys):
    journal = tmp_path / "journal.jsonl"
    sides = ("eager", "inductor", "inductor, frozen", "explorer")
    seconds = dict(zip(sides[1:], (4.0, 8.0, 2.0), strict=True))
    rows = [
        {
            "name": name,
            "first_seconds": seconds,
            "first_processor_seconds": seconds,
            "ms": dict.fromkeys(sides, 1.5),
            "ratios": dict.fromkeys(sides[:3], ratio),
            "noise": dict.fromkeys(sides[:3], 1.01),
            "max_relative": {"explorer": 3e-7, "inductor": 0.0},
            "left_to_torch": left,
        }
        for name, ratio, left in (("lstm", 0.5, ""), ("unet", 2.0, "some nodes stay PyTorch's"))
    ]
    journal.write_text("\n".join(map(json.dumps, rows)))
    assert command.main(["--known", "--journal", str(journal)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| lstm | 1.50 | 1.50 | 1.50 | 1.50 | 0.50 (1.01) | 0.50 (1.01) |" in lines[2]
    assert "explorer / inductor: 1.00" in lines
    assert "first result, explorer / inductor: 0.50 by the clock, 0.50 of processor time" in lines
    assert "unet: some nodes stay PyTorch's" in lines


def test_an_unknown_name_is_refused(command, capsys):
    with pytest.raises(SystemExit):
        command.main(["resnet19"])
    assert "there is no resnet19; there are resnet18, " in capsys.readouterr().err
