"""What editors and type checkers know of the package: a script without and with mistakes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import explorer
from explorer import passes
from explorer.ir.rewriting.passes import Pass
from explorer.memory.choosing import PlannerName, default_planners
from explorer.quantization.block_numbers import DTYPES, BlockType
from explorer.quantization.methods import RANGES
from explorer.quantization.quantize_weights import ROUNDINGS
from explorer.results.pass_names import PassName
from explorer.targets.names import TargetName
from explorer.traces.exploring import ViewName
from explorer.traces.tables import FRAMES, FrameKind
from explorer.tuning.block_weights import Rounding
from explorer.tuning.calibration import Method
from explorer.views.register import VIEWS, shown_views

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SCRIPT = (HERE / "user_script.py").read_text()

MISTAKES = {
    'compile(model, target="cpu",': 'compile(model, traget="cpu",',
    "budget_bytes=65536": 'budget_bytes="lots"',
    "pipeline=compiled.pipeline": "pipline=compiled.pipeline",
    'compiled.run({"image": images})': "compiled.run(images)",
    'view("memory")': 'view("memroy")',
    'to_frame("kernels")': 'to_frame("kernel")',
    '"pass": "fuse-bias"': '"pas": "fuse-bias"',
    'disable=["fuse-activation"]': 'disabled=["fuse-activation"]',
    'method="best"': 'method="bset"',
    "tune(compiled, 4,": 'tune(compiled, "x",',
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory) -> dict[str, list[str]]:
    """The lines with errors of the script as it is, and of the one with mistakes."""
    pytest.importorskip("pyright", reason="the type checker is not installed")
    folder = tmp_path_factory.mktemp("typed")
    wrong = SCRIPT
    for right, mistake in MISTAKES.items():
        assert wrong.count(right) == 1, right
        wrong = wrong.replace(right, mistake)
    # In strict mode the unknown result of a wrong call is an error wherever it is used.
    scripts = {"right.py": f"# pyright: strict\n{SCRIPT}", "wrong.py": wrong}
    for name, text in scripts.items():
        (folder / name).write_text(text)
    settings = {
        "include": list(scripts),
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
        "extraPaths": [str(REPOSITORY)],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    checked = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found: dict[str, list[str]] = {name: [] for name in scripts}
    for error in json.loads(checked.stdout)["generalDiagnostics"]:
        name = Path(error["file"]).name
        line = scripts[name].splitlines()[error["range"]["start"]["line"]]
        found[name].append(line)
    return found


def test_a_script_without_mistakes_passes_in_strict_mode(errors):
    assert errors["right.py"] == []


@pytest.mark.parametrize("mistake", MISTAKES.values())
def test_a_mistake_is_an_error_of_the_type_checker(mistake, errors):
    assert sum(mistake in line for line in errors["wrong.py"]) == 1


def test_nothing_else_is_an_error(errors):
    assert len(errors["wrong.py"]) == len(MISTAKES)


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (ViewName, [view.name for view in shown_views(VIEWS)]),
        (FrameKind, list(FRAMES)),
        (TargetName, explorer.targets()),
        (PlannerName, list(default_planners())),
        (Method, ["best", *RANGES]),
        (BlockType, list(DTYPES)),
        (Rounding, list(ROUNDINGS)),
    ],
    ids=["views", "tables", "targets", "planners", "methods", "blocks", "roundings"],
)
def test_a_literal_type_has_the_names_that_are_known(names, known):
    assert sorted(get_args(names)) == sorted(known)


def test_names_of_passes_are_completed():
    compiled = explorer.compile(explorer.sample("digits_mlp"))
    assert set(compiled.names) <= set(get_args(PassName))
    assert compiled._ipython_key_completions_() == compiled.names
    assert compiled.passes._ipython_key_completions_() == compiled.names
    of_top = {kind.name for kind in vars(passes).values() if is_pass(kind)}
    assert of_top <= set(get_args(PassName))


def is_pass(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Pass) and hasattr(kind, "name")


def test_the_types_are_in_the_package():
    assert (REPOSITORY / "explorer" / "py.typed").is_file()
