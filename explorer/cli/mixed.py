"""`explorer mixed MODEL`: which tensors are better INT16 or F32, for a wanted accuracy or SQNR.

    explorer mixed net.onnx --table net.table --data images.npz --sqnr 35 -o net.qtable
    explorer mixed net.onnx --table net.table --data images.npz --labels labels --accuracy 92
    explorer mixed net.onnx --table net.table --cases models.toml --examples 500 --accuracy 92
    explorer check net.onnx --quantize net.table --qtable net.qtable
    explorer show net.onnx --quantize net.table --qtable net.qtable --what sensitivity

Beside the quantization table lies what it was chosen by (`net.qtable.sensitivity.json`): the view
`sensitivity` draws it.

Where it cannot be reached, the best that was is said, nothing is written, and the status is 2.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.data import add_data, chosen_of, read_asked
from explorer.cli.terminal import Progress, print_json, print_lines, terminal_width
from explorer.errors import InputError
from explorer.files import check_output

if TYPE_CHECKING:
    from explorer.tuning.examples import LabelledData

SUMMARY = "choose modes of tensors for a wanted accuracy, SQNR or latency"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    parser.add_argument(
        "--table", type=Path, required=True, metavar="TABLE", help="of explorer calibrate"
    )
    add_data(parser, required=True)
    parser.add_argument(
        "--labels",
        metavar="ARRAY",
        help="array of the data: the right class of each example; cases have their own",
    )
    parser.add_argument("--accuracy", type=float, metavar="X", help="at least, in per cent")
    parser.add_argument("--sqnr", type=float, metavar="DB", help="of the outputs, at least")
    parser.add_argument(
        "--latency", type=float, metavar="MS", help="of one inference here, at most"
    )
    parser.add_argument(
        "--jobs", type=options.count, metavar="N", help="runs at once (default: processors)"
    )
    parser.add_argument(
        "--backend",
        default="threading",
        metavar="B",
        help="how joblib spreads runs: threading, loky (default: threading)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="QTABLE", help="the quantization table to write"
    )
    options.add_dimensions(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.quantization.precision import path_beside, write_precision
    from explorer.quantization.table import write_modes
    from explorer.views.catalog.sensitivity import searched
    from explorer.views.renderers.text import text_of

    if arguments.output is not None:
        check_output(arguments.output)
    model = explorer.load(options.model_of(arguments))
    data = read_asked(arguments, model)
    assert data is not None  # argparse refuses what has neither data nor cases
    if arguments.labels is not None:
        data = with_labels(data, arguments)
    with Progress("measuring") as progress:
        found = explorer.mixed(
            model,
            data.arrays,
            table=arguments.table,
            labels=data.labels,
            accuracy=arguments.accuracy,
            sqnr=arguments.sqnr,
            latency=arguments.latency,
            dimensions=dict(arguments.dim),
            jobs=arguments.jobs,
            backend=arguments.backend,
            progress=progress,
            chosen=chosen_of(arguments),
        )
    if arguments.output is not None:
        write_modes(arguments.output, found.points[found.chosen].modes)
        write_precision(path_beside(arguments.output), found)
    if arguments.json:
        print_json(found)
        return 0
    print_lines(text_of(searched(found), terminal_width()).split("\n"))
    if arguments.output is not None:
        print_lines([f"wrote {arguments.output}, and what it was chosen by beside it"])
    return 0


def with_labels(data: LabelledData, arguments: argparse.Namespace) -> LabelledData:
    """The data, with the array that `--labels` names taken out of them."""
    import numpy as np

    from explorer.tuning.examples import LabelledData

    if data.labels is not None:
        raise InputError("the case has labels already", hint="leave --labels out")
    if arguments.labels not in data.arrays:
        raise InputError(
            f"the data have no array `{arguments.labels}`; they have {', '.join(data.arrays)}",
            file=", ".join(map(str, arguments.data or [arguments.cases])),
        )
    others = dict(data.arrays)
    rows = others.pop(arguments.labels)
    return LabelledData(others, np.array([rows[number] for number in range(len(rows))]))
