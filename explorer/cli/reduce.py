"""`explorer reduce MODEL --input X.npz -o SMALL.onnx`: the smallest model that still fails.

    explorer reduce net.onnx --input x.npz -o small.onnx        as `explorer check` judges
    explorer reduce net.onnx --input x.npz -o small.onnx --while crash
    explorer reduce net.onnx --input x.npz -o small.onnx --while './mine {model} {input}'

Writes SMALL.onnx, SMALL.npz and SMALL.md, a page with what was expected, what came, and the command
that shows it. Interrupted, the same command goes on where it was. Status 2 where nothing fails.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines, print_note

if TYPE_CHECKING:
    from explorer.reducing import Candidate, Reduced

SUMMARY = "make the smallest model and input that still fail"
EVERY_SECONDS = 60.0
"""Between two lines of progress where there is no terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE.npz", help="arrays by name"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="SMALL.onnx", help="the file to write"
    )
    parser.add_argument(
        "--while",
        dest="condition",
        default="check",
        metavar="check|crash|COMMAND",
        help="what fails: the comparison of `explorer check`, compiling and running, or a command "
        "with {model} and {input}, which ends with another status than 0 (default: check)",
    )
    options.add_target(parser)
    options.add_dimensions(parser)
    options.add_decisions(parser)
    parser.add_argument(
        "--tolerance",
        type=options.tolerance,
        default=1e-4,
        metavar="X",
        help="as of `explorer check` (default: 1e-4)",
    )
    parser.add_argument(
        "--seconds",
        type=options.count,
        default=300,
        metavar="N",
        help="that one trial may take (default: 300)",
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.importers.inputs import read_inputs
    from explorer.reducing.files import reduce_files
    from explorer.reducing.trials import SUFFIX

    model = explorer.load(options.model_of(arguments))
    inputs, _ = read_inputs(model, arguments.input, dict(arguments.dim))
    try:
        with Progress("reducing, trial", EVERY_SECONDS) as progress:

            def report(doing: str, candidate: Candidate, count: int) -> None:
                left = f"{candidate.operations} operations, {candidate.elements:,} numbers"
                progress(f"{doing}: {left}", count, count + 1)

            reduced = reduce_files(
                model,
                inputs,
                arguments.output,
                condition=arguments.condition,
                target=arguments.target,
                tolerance=arguments.tolerance,
                decisions=options.decisions_of(arguments),
                seconds=arguments.seconds,
                report=report,
            )
    except KeyboardInterrupt:
        kept = arguments.output.with_name(arguments.output.name + SUFFIX)
        print_note(f"what was found is in {kept}; the same command goes on there")
        raise
    for kind, reason in sorted(reduced.others.items()):
        print_note(f"another failure on the way, {kind}: {reason}")
    if arguments.json:
        print_json(summary(reduced, arguments.output))
    else:
        print_lines(lines(reduced, arguments.output))
    return 0


def summary(reduced: Reduced, output: Path) -> dict:
    left, whole = reduced.candidate, reduced.whole
    return {
        "kind": reduced.kind,
        "reason": reduced.reason,
        "operations": left.operations,
        "operations_before": whole.operations,
        "operators": [node.op_type for node in left.model.graph.node],
        "numbers": left.elements,
        "numbers_before": whole.elements,
        "trials": reduced.trials,
        "other_failures": reduced.others,
        "files": [str(output.with_suffix(suffix)) for suffix in (".onnx", ".npz", ".md")],
    }


def lines(reduced: Reduced, output: Path) -> list[str]:
    left, whole = reduced.candidate, reduced.whole
    operators = ", ".join(node.op_type for node in left.model.graph.node)
    written = ", ".join(str(output.with_suffix(suffix)) for suffix in (".onnx", ".npz", ".md"))
    return [
        f"{left.operations} of {whole.operations:,} operations, {left.elements:,} of "
        f"{whole.elements:,} numbers, {reduced.trials} trials: {operators}",
        f"{reduced.kind}: {reduced.reason}",
        f"wrote {written}",
    ]
