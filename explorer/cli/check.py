"""`explorer check MODEL`: is the program right after every pass, and the binary on its device?

    explorer check net.onnx --input inputs.npz --tolerance 1e-4 --json

Every snapshot is executed and every tensor compared with the source model's (docs/json.md).
Status 1 when something is off; the first fault is then named on stderr.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines, printable

if TYPE_CHECKING:
    from explorer.results import AccuracyReport, TensorError

SUMMARY = "compare the program after every pass with the source model"
NOT_PASSED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_target(parser)
    parser.add_argument(
        "--input", type=Path, metavar="FILE.npz", help="arrays by name (default: seeded random)"
    )
    parser.add_argument(
        "--tolerance",
        type=options.tolerance,
        default=1e-4,
        metavar="X",
        help="largest max_relative of any tensor (default: 1e-4)",
    )
    options.add_dimensions(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import sys

    import explorer
    from explorer.cli.inputs import read_inputs
    from explorer.cli.models import load_with_weights
    from explorer.views.static import accuracy_text

    model = load_with_weights(arguments.model)
    inputs, sizes = None, dict(arguments.dim)
    if arguments.input is not None:
        inputs, sizes = read_inputs(model, arguments.input, sizes)
    with Progress("compiling") as progress:
        compilation = explorer.compile(model, arguments.target, dimensions=sizes, progress=progress)
    try:
        with Progress("checking") as progress:
            accuracy = compilation.accuracy(inputs, arguments.tolerance, progress)
        if arguments.json:
            print_json(summarize(accuracy.report, compilation.model.name))
        else:
            print_lines(accuracy_text(accuracy.report).split("\n"))
        if accuracy.passed:
            return 0
        fault = accuracy.bisect()
    finally:
        compilation.close()
    if fault is not None:
        print(f"first fault: {printable(fault)}", file=sys.stderr)
    return NOT_PASSED


def summarize(report: AccuracyReport, model: str) -> dict:
    """What `--json` prints. `worst` is the worse of both modes, or null where nothing compared."""
    isolated = report.isolated or report.passes
    return {
        "model": model,
        "target": report.target,
        "passed": report.passed,
        "passes": [
            {"name": together.name, "worst": _worst((*together.tensors, *apart.tensors))}
            for together, apart in zip(report.passes, isolated, strict=True)
        ],
        "outputs": [
            {
                "name": output.tensor,
                "max_absolute": float(output.max_absolute),
                "max_relative": float(output.max_relative),
                "cosine": float(output.cosine),
            }
            for output in report.outputs
        ],
    }


def _worst(errors: tuple[TensorError, ...]) -> dict | None:
    """The tensor with the largest error; NaN, which compares with nothing, is the worst of all."""
    worst = max(
        errors, key=lambda e: (e.max_relative != e.max_relative, e.max_relative), default=None
    )
    if worst is None:
        return None
    return {
        "tensor": worst.tensor,
        "max_relative": float(worst.max_relative),
        "cosine": float(worst.cosine),
        "sqnr_db": float(worst.sqnr_db),
    }
