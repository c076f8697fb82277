"""The README's Python and commands run in the order in which they stand, in one folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import explorer
from explorer import cli

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SET_UP = ("make ", "python -m pip ")
"""Commands that `.ci/run` and the set-up run."""


# One test of many commands: each block needs the files that those before it wrote.
def test_what_the_readme_shows_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "sample_models").symlink_to(REPOSITORY / "sample_models")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "readme"}
    commands = 0
    for language, block in BLOCK.findall(README.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, "README.md", "exec"), names)
            continue
        for line in block.splitlines():
            if not line.startswith(SET_UP):
                program, *arguments = shlex.split(line, comments=True)
                assert program == "explorer", line
                assert cli.main(arguments) == 0, (line, capsys.readouterr().err)
                commands += 1
    assert commands > 9


def test_the_readme_fits_200_lines():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


def test_figures_of_the_readme_are_those_of_their_pages():
    text = README.read_text(encoding="utf-8")
    page = (REPOSITORY / "docs" / "conformance.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| node \| (\d+) \| (\d+) \| (\d+) \| \d+ \| (\d+) \|$", page, re.M)
    cases, interpreted, compiled, onnxruntime = (f"{int(number):,}" for number in row)
    assert f"{interpreted} of onnx's {cases} operator tests interpreted, {compiled} as" in text
    assert f"without optimizations, passes {onnxruntime} " in text


def test_the_release_has_one_version_everywhere():
    def first(file: str, pattern: str) -> str:
        found = re.search(pattern, (REPOSITORY / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert found is not None, file
        return found[1]

    assert first("pyproject.toml", r'^version = "(.+)"$') == explorer.__version__
    assert first("CITATION.cff", r"^version: (.+)$") == explorer.__version__
    released = first("CHANGELOG.md", r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$")
    assert released == explorer.__version__


def test_a_release_has_at_most_thirty_entries_in_the_changelog():
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    entries = [len(re.findall(r"^- ", release, re.MULTILINE)) for release in releases]
    assert all(0 < count <= 30 for count in entries)
