"""`explorer rules`: the catalogue of all rewrite rules, out of their docstrings.

explorer rules                              passes, rules and what each rewrites
explorer rules --markdown > docs/rules.md   the page
"""

from __future__ import annotations

import argparse
import dataclasses

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines

SUMMARY = "list all rewrite rules"
COMMAND = "explorer rules --markdown"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", action="store_true", help="write the page docs/rules.md")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from explorer.passes.catalogue import catalogue, to_markdown, to_text

    entries = catalogue()
    if arguments.json:
        print_json({"passes": [dataclasses.asdict(entry) for entry in entries]})
    elif arguments.markdown:
        print_lines(to_markdown(entries, COMMAND).splitlines())
    else:
        print_lines(to_text(entries))
    return 0
