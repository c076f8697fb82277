"""`explorer disassemble DIR`: the instructions that `explorer compile --emit DIR` wrote, as text.

Each layer's stand below its name; docs/npu-instructions.md says what they do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.terminal import print_lines

SUMMARY = "print an emitted program of instructions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="what --emit wrote")
    parser.add_argument(
        "--target", metavar="T", help="the target, where it is a .toml file of one's own"
    )


def run(arguments: argparse.Namespace) -> int:
    from explorer.backends.npu.emitted import read_emitted

    print_lines(read_emitted(arguments.folder, arguments.target).listing().splitlines())
    return 0
