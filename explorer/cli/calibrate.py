"""`explorer calibrate MODEL --data FILE.npz -o TABLE`: thresholds for quantizing a float model.

    explorer calibrate net.onnx --data images.npz -o net.table
    explorer check net.onnx --quantize net.table --input image.npz

Arrays are named as the model's inputs; their first axis counts examples. Corrections are written
beside the table, as `net.table.npz`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines
from explorer.files import check_output

SUMMARY = "find thresholds for quantizing a model, from data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE.npz",
        help="one array per input, by name; the first axis counts examples",
    )
    parser.add_argument(
        "--method",
        default="best",
        metavar="M",
        help="best (all together, by the error of the outputs), min-max, moving-average, "
        "percentile, kl, mse, aciq-gauss or aciq-laplace (default: best)",
    )
    parser.add_argument(
        "--corrections",
        default=None,
        metavar="KINDS",
        help="what makes up for rounding, by commas: cle (neighbouring layers get like ranges), "
        "smooth (outliers of channels go into weights), adaround (a weight goes to that "
        "neighbour that makes sums err least), bias (the sums' mean error is taken away); or none "
        "(default: adaround)",
    )
    parser.add_argument(
        "--arithmetic",
        default="float",
        metavar="A",
        help="that of the target: float, or integer where nothing is to be computed in floats, "
        "which takes thresholds of more tensors (default: float)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="TABLE", help="the file to write"
    )
    options.add_dimensions(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.quantization.corrections.record import effects_of
    from explorer.quantization.table import write_thresholds
    from explorer.tuning.calibration import read_data

    check_output(arguments.output)
    data = read_data(arguments.data)
    with Progress("calibrating") as progress:
        table = explorer.calibrate(
            arguments.model,
            data,
            method=arguments.method,
            corrections=arguments.corrections,
            dimensions=dict(arguments.dim),
            progress=progress,
            arithmetic=arguments.arithmetic,
        )
    write_thresholds(arguments.output, table)
    if arguments.json:
        rows = [vars(threshold) for threshold in table.thresholds.values()]
        found = {} if table.corrections is None else effects_of(table.corrections)
        print_json(
            {
                "model": table.model,
                "method": table.method,
                "thresholds": rows,
                "corrections": found,
            }
        )
        return 0
    for warning in table.warnings:
        print_lines([f"note: {warning}"])
    kinds = "" if table.corrections is None else f", {', '.join(table.corrections.kinds)}"
    beside = "" if table.corrections is None else f" and {arguments.output}.npz"
    found = f"{len(table.thresholds)} thresholds ({table.method}{kinds})"
    print_lines([f"{found}; wrote {arguments.output}{beside}"])
    return 0
