"""Defaults of a project's file, and the page of all settings."""

import argparse
import re
from pathlib import Path

import pytest

from explorer.cli import commands_of, make_parser
from explorer.cli.defaults import OPTIONS, apply_defaults, settings_file
from explorer.errors import InputError

REPOSITORY = Path(__file__).resolve().parents[2]


def parsed(folder: Path, *words: str) -> argparse.Namespace:
    parser = make_parser()
    apply_defaults(commands_of(parser), folder)
    return parser.parse_args(words)


def test_a_file_sets_defaults_and_the_command_line_wins(tmp_path):
    (tmp_path / "explorer.toml").write_text('target = "vta-16"\n[check]\ntolerance = 1e-5\n')
    assert parsed(tmp_path, "check", "net.onnx").target == "vta-16"
    assert parsed(tmp_path, "check", "net.onnx").tolerance == 1e-5
    assert parsed(tmp_path, "check", "net.onnx", "--target", "cpu").target == "cpu"
    assert parsed(tmp_path, "compile", "net.onnx").target == "vta-16"


def test_the_table_of_a_project_above_counts(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.explorer.tune]\nseed = 7\nthreads = 3\n")
    below = tmp_path / "a b" / "ü"
    below.mkdir(parents=True)
    assert parsed(below, "tune", "net.onnx").seed == 7
    assert parsed(below, "tune", "net.onnx").threads == 3
    assert parsed(below, "run", "n", "--input", "a", "--output", "b").threads != 3


def test_a_project_without_settings_ends_the_search(tmp_path):
    (tmp_path / "explorer.toml").write_text("seed = 1\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project]\n")
    assert settings_file(inner) is None
    assert settings_file(tmp_path) is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('traget = "cpu"', "did you mean 'target'"),
        ('output = "/tmp/x"', "there is no setting 'output'"),
        ('[chek]\ntarget = "cpu"', "did you mean 'check'"),
        ('[check]\nsave = "x"', "there is no setting 'save'"),
        ('threads = "many"', "threads cannot be 'many'"),
        ("threads = [1]", "a number or a text"),
        ("threads = ", "explorer.toml"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(text, words, tmp_path):
    (tmp_path / "explorer.toml").write_text(text)
    with pytest.raises(InputError) as raised:
        parsed(tmp_path, "check", "net.onnx")
    assert words in str(raised.value) and "explorer.toml" in str(raised.value)


def test_every_setting_is_an_option_of_some_command():
    commands = commands_of(make_parser()).values()
    for name in OPTIONS:
        assert any(f"--{name}" in a.option_strings for c in commands for a in c._actions), name


def test_the_page_has_every_variable_and_setting():
    page = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")
    named = re.compile(r'"((?:EXPLORER|POCL|XDG|OCL)_[A-Z_]+|CC|TMPDIR)"')
    for path in (REPOSITORY / "explorer").rglob("*.py"):
        for variable in named.findall(path.read_text(encoding="utf-8")):
            assert f"`{variable}`" in page, (variable, path)
    assert all(f"`{name}`" in page for name in OPTIONS)
