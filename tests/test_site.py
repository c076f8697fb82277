"""The documentation site names every page, every command and every public name."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pytest

import explorer
from explorer.cli import make_parser

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
CONFIGURATION = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
MADE = {"commands.md", "contributing.md", "changelog.md"}
"""Pages of the navigation that scripts/documentation makes."""
EXAMPLES = {"weights"}
"""Commands that pages add."""
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^`?explorer ([a-z-]+)([^`\n#]*)", re.MULTILINE)


def commands() -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def test_the_navigation_has_every_page_once():
    named = re.findall(r"^ *- (?:\w+: )?([\w-]+\.md)$", CONFIGURATION, re.MULTILINE)
    assert sorted(named) == sorted({page.name for page in DOCS.glob("*.md")} | MADE)


def generated_pages() -> set[str]:
    """Those that commands make, by the navigation."""
    (part,) = re.findall(r"- Generated tables:\n((?: +- [\w.-]+\n)+)", CONFIGURATION)
    return set(re.findall(r"[\w-]+\.md", part))


WRITTEN = sorted(path for path in DOCS.glob("*.md") if path.name not in generated_pages())


def test_pages_that_are_no_tables_are_written():
    assert {"quantization.md", "json.md"} <= {path.name for path in WRITTEN}
    assert {"measurements.md", "rules.md"} <= generated_pages()


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: p.name)
def test_a_page_opens_with_what_its_reader_can_do(page: Path):
    opening = page.read_text(encoding="utf-8").split("\n\n")[1]
    assert "After this page you " in opening


def test_the_page_of_the_interface_has_every_public_name():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^(?::::|###) explorer\.(?:[\w.]+\.)?(\w+)$", text, re.MULTILINE))
    assert documented >= set(explorer.__all__) - {"ExplorerError"}
    assert "::: explorer.errors" in text


def test_the_page_of_the_commands_has_every_option(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts" / "documentation"))
    sys.modules.pop("commands", None)
    from commands import commands_page  # pyright: ignore[reportMissingImports]

    text = commands_page()
    for name, parser in commands().items():
        section = text.split(f"\n## explorer {name}\n", 1)[1].split("\n## ", 1)[0]
        for action in parser._actions:
            if action.help != argparse.SUPPRESS and action.dest != "help":
                assert all(option in section for option in action.option_strings), (name, action)


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a command and of its subcommands."""
    found: set[str] = set()
    for action in parser._actions:
        found.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found |= options_of(child)
    return found


def wrong_calls(text: str) -> list[str]:
    """Commands and options that a text names and that there are not."""
    known = commands()
    wrong = []
    calls = [call for code in CODE.findall(text) for call in CALL.findall(code)]
    for name, rest in calls:
        if name in EXAMPLES or name.startswith("-"):
            continue
        if name not in known:
            wrong.append(name)
            continue
        for option in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", rest):
            if option not in options_of(known[name]):
                wrong.append(f"{name} {option}")
    return wrong


@pytest.mark.parametrize(
    "page", [*sorted(DOCS.glob("*.md")), *sorted(REPOSITORY.glob("*.md"))], ids=lambda p: p.name
)
def test_commands_and_options_that_a_page_names_exist(page: Path):
    if page.name != "CHANGELOG.md":
        assert wrong_calls(page.read_text(encoding="utf-8")) == []


def test_a_wrong_command_and_a_wrong_option_are_found():
    text = "`explorer compile M --nothing -o X` and\n```sh\nexplorer inspects M\n```\n"
    assert wrong_calls(text) == ["compile --nothing", "compile -o", "inspects"]
