"""`explorer compare A B`: two models side by side, tensor by tensor, and where they part.

    explorer compare float.onnx int8.tflite --input images.npz
    explorer compare before.onnx after.onnx --json
    explorer compare float.onnx int8.tflite -o compared.html

Status 0 where no tensor differs by more than rounding explains, 1 where one does or no output of
one model is found in the other, 2 where the models cannot be run on the same data.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines, print_note

if TYPE_CHECKING:
    from explorer.importers import SourceModel
    from explorer.results.model_comparison import ModelComparison

SUMMARY = "match the tensors of two models, and find the first one that differs"
DIFFERENT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="A", help="a model file")
    parser.add_argument("other", type=Path, metavar="B", help="another one, of any format")
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE.npz",
        help="arrays by the names of the inputs of one model (default: seeded random)",
    )
    parser.add_argument(
        "--seed", type=options.amount, default=0, metavar="N", help="of random inputs (default: 0)"
    )
    parser.add_argument(
        "--tolerance",
        type=options.tolerance,
        default=1e-4,
        metavar="X",
        help="of tensors of floats, root mean square in parts of the first model's (default: 1e-4)",
    )
    options.add_dimensions(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE.html", help="write the comparison as a page"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.importers.arrays import read_arrays
    from explorer.results.encoding import to_json

    first, second = explorer.load(arguments.model), explorer.load(arguments.other)
    inputs = None if arguments.input is None else read_arrays(arguments.input)
    compared = explorer.compare_models(
        first,
        second,
        inputs,
        dimensions=dict(arguments.dim),
        seed=arguments.seed,
        tolerance=arguments.tolerance,
    )
    if arguments.json:
        print_json({**to_json(compared), "agrees": compared.agrees})
    else:
        print_lines(compared.to_text().splitlines())
    if arguments.output is not None:
        write_page(first, compared, arguments.output)
        print_note(f"wrote {arguments.output}")
    return 0 if compared.agrees else DIFFERENT


def write_page(model: SourceModel, compared: ModelComparison, path: Path) -> None:
    """The first model's graph with the comparison as a view, in one file that works offline."""
    import explorer
    from explorer.files import write_file
    from explorer.results.model_comparison import PART
    from explorer.views.page import export_page

    trace = explorer.inspect(model).trace()
    write_file(path, export_page(replace(trace, parts={PART: compared}), at={"dock": "models"}))
