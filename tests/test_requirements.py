"""The pinned packages of requirements/ are those that pyproject.toml asks for, each with hashes."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EARLIER = {"explore": None, "test": "explore", "lint": "test", "docs": "test"}
"""The stages of scripts/setup.sh, each with the one before it."""


def wanted(stage: str) -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    own = {"explore": [], "test": ["test"], "lint": ["test", "dev"], "docs": ["test", "docs"]}
    names = ["quick", *own[stage]]
    extra = [line for name in names for line in extras[name]]
    found = [Requirement(line) for line in [*PROJECT["dependencies"], *extra]]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


def pins(stage: str) -> dict[str, str]:
    """The lines of a stage's file and of those before it: name -> version, hashes and markers."""
    text = (REPOSITORY / "requirements" / f"{stage}.txt").read_text()
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    found = {block.split("==")[0]: block.split("==", 1)[1] for block in blocks[1:]}
    earlier = EARLIER[stage]
    assert (f"-r {earlier}.txt\n" in text) == (earlier is not None)
    return found if earlier is None else pins(earlier) | found


@pytest.mark.parametrize("stage", EARLIER)
def test_what_the_project_asks_for_is_pinned_within_its_bounds(stage):
    pinned = pins(stage)
    for requirement in wanted(stage):
        assert requirement.name in pinned, requirement
        version = pinned[requirement.name].split()[0]
        assert requirement.specifier.contains(version), requirement


@pytest.mark.parametrize("stage", EARLIER)
def test_every_pin_has_hashes(stage):
    for name, pin in pins(stage).items():
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", pin), name


def test_the_build_backend_is_pinned_too():
    assert "hatchling" in pins("explore")


def test_no_pin_names_where_packages_come_from():
    place = r"https?://|file://|--(extra-)?index-url|--find-links"
    for file in (REPOSITORY / "requirements").glob("*.txt"):
        assert not re.search(place, file.read_text()), file


def test_the_checkers_of_javascript_are_pinned_with_hashes():
    folder = REPOSITORY / "requirements" / "javascript"
    wanted = json.loads((folder / "package.json").read_text())["devDependencies"]
    lock = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert lock.pop("")["devDependencies"] == wanted
    assert {
        name.removeprefix("node_modules/"): pin["version"] for name, pin in lock.items()
    } == wanted
    for name, pin in lock.items():
        assert pin["integrity"].startswith("sha512-") and "resolved" not in pin, name
