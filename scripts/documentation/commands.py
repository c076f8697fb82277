"""The page that lists every command of `explorer` with its arguments, from argparse."""

import argparse
from collections.abc import Iterable

from explorer.cli import make_parser

TITLE = """# Commands

Generated from the commands themselves. `explorer COMMAND --help` prints the same, and
[the JSON page](json.md) says what `--json` prints.

"""


def commands_page() -> str:
    """The whole page in Markdown: a table of the commands, then a section for each."""
    commands = _subcommands(make_parser())
    rows = [f"| [`{name}`](#{_anchor(name)}) | {_cell(help_)} |" for name, help_, _ in commands]
    table = "\n".join(["| command | what it does |", "| --- | --- |", *rows])
    return TITLE + table + "\n" + "".join(_section(*command) for command in commands)


def _anchor(name: str) -> str:
    return f"explorer-{name}".replace(" ", "-")


def _subcommands(
    parser: argparse.ArgumentParser,
) -> list[tuple[str, str, argparse.ArgumentParser]]:
    """Name, help and parser of every subcommand, in the order in which they were added."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            found += [(name, helps.get(name, ""), child) for name, child in action.choices.items()]
    return found


def _section(name: str, summary: str, parser: argparse.ArgumentParser) -> str:
    inner = _subcommands(parser)
    usage = parser.format_usage().removeprefix("usage: ").strip()
    text = f"\n## explorer {name}\n\n{summary or parser.description or ''}\n\n"
    text += f"```text\n{usage}\n```\n\n"
    text += _table(parser._actions)
    for child, help_, subparser in inner:
        text += _section(f"{name} {child}", help_, subparser)
    return text


def _table(actions: Iterable[argparse.Action]) -> str:
    rows = []
    for action in actions:
        if isinstance(action, argparse._SubParsersAction) or action.dest == "help":
            continue
        if action.help == argparse.SUPPRESS:
            continue
        rows.append(f"| {_cell(_argument(action))} | {_cell(_meaning(action))} |")
    if not rows:
        return ""
    return "\n".join(["| argument | meaning |", "| --- | --- |", *rows]) + "\n"


def _argument(action: argparse.Action) -> str:
    """The argument as it is typed: `-o, --output FILE`."""
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices is not None and action.metavar is None:
        value = "|".join(map(str, action.choices))
    value = " ".join(value) if isinstance(value, tuple) else value
    names = ", ".join(action.option_strings)
    return f"`{' '.join(part for part in (names, value) if part)}`"


def _meaning(action: argparse.Action) -> str:
    if not action.help:
        return ""
    values = {**vars(action), "prog": "explorer"}
    return action.help % values


def _cell(text: str) -> str:
    """Text as a cell of a table: one line, in which nothing but code is markup."""
    line = " ".join(text.split()).replace("|", "\\|")
    return line if line.startswith("`") else line.replace("<", "&lt;").replace("*", "\\*")
