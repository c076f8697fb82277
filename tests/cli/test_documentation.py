"""What the documentation shows is true: its Python runs, its targets load, its links lead on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explorer import cli
from explorer.importers import format as formats
from explorer.ir.top import OPERATIONS
from explorer.kernels import schedules
from explorer.targets import load_target

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted((REPOSITORY / "docs").glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    (tmp_path / "sample_models").symlink_to(REPOSITORY / "sample_models")
    monkeypatch.chdir(tmp_path)
    # Pages add one of each.
    monkeypatch.setattr(formats, "FORMATS", formats.FORMATS)
    monkeypatch.setattr(schedules, "KINDS", schedules.KINDS)
    monkeypatch.setattr(cli, "COMMANDS", cli.COMMANDS)
    for text in blocks(page, "js"):  # a file of its own, whose name is the first comment
        (tmp_path / re.match(r"// ([\w.]+)", text)[1]).write_text(text, encoding="utf-8")
    names: dict[str, object] = {"__name__": "documentation"}
    for number, block in enumerate(blocks(page, "python"), 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


def test_the_target_of_the_documentation_compiles(explorer_command, sample_models, tmp_path):
    (text,) = blocks(REPOSITORY / "docs" / "adding-a-target.md", "toml")
    path = tmp_path / "eight.toml"
    path.write_text(text, encoding="utf-8")
    assert load_target(path).vector_floats == 8

    finished = explorer_command("check", sample_models / "digits_mlp.onnx", "--target", path)

    assert finished.status == 0, finished.errors


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_paths_and_links_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:explorer|tests)/[\w/.]*)`", text)
    links = re.findall(r"\]\(([\w.-]+)\)", text)
    missing = [p for p in paths if not (REPOSITORY / p).exists()]
    missing += [link for link in links if not (page.parent / link).exists()]

    assert not missing


def test_the_architecture_counts_the_operations_that_there_are():
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"`top` has {len(OPERATIONS)} operations." in text
