"""`explorer dumps PATH`: dumps of another compiler's passes, with what each pass changed.

    explorer dumps FOLDER                    MLIR, StableHLO, XLA, LLVM, TVM, or any texts
    opt -O2 -print-after-all net.ll 2> all.txt; explorer dumps all.txt -o passes.html

Nothing in the dumps is executed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines, print_note

PLACE = "tab=ir&panes=graph_at-passes-inspector-none-none"
"""Of the page: the passes on the left, the text in the middle, for there are no graphs."""
SUMMARY = "open the dumps of another compiler's passes, and what each of them changed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="a folder of dumps, or one file")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE.html", help="a page that works offline"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from explorer.errors import InputError
    from explorer.files import check_output, write_file
    from explorer.traces.dumps import changed_lines, read_dumps
    from explorer.views.page import export_page
    from explorer.views.parts.plain import columns

    output = arguments.output
    if output is not None:
        check_output(output)
        if output.suffix != ".html":
            raise InputError("a page is written", file=str(output), hint="name a .html file")
    saved = read_dumps(arguments.path)
    trace = saved.trace()
    if output is not None:
        write_file(output, export_page(trace, place=PLACE))
    changes = list(zip(saved.names, changed_lines(saved), trace.snapshots, strict=True))
    if arguments.json:
        print_json(
            [
                {"pass": name, "lines": len(step.text.lines), "removed": removed, "added": added}
                for name, (removed, added), step in changes
            ]
        )
    else:
        rows = [
            (name, f"{len(step.text.lines):,}", f"−{removed:,}", f"+{added:,}")
            for name, (removed, added), step in changes
            if removed or added
        ]
        print_lines(columns(rows, ("pass", "lines", "removed", "added"), "lrrr"))
        same = len(changes) - len(rows)
        print_lines([f"{len(changes):,} dumps, {same:,} of them without a change"])
    if output is not None:
        print_note(f"wrote {output}")
    return 0
