"""`explorer calibrate MODEL --data FILE.npz -o TABLE`: thresholds for quantizing a float model.

    explorer calibrate net.onnx --data images.npz -o net.table
    explorer check net.onnx --quantize net.table --input image.npz

Arrays are named as the model's inputs; their first axis counts examples. What was seen of every
tensor (its histogram, what all methods say) lies beside the table, in TABLE.npz: views show it.
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
    from explorer.quantization.observations import path_beside, write_observations
    from explorer.quantization.table import write_thresholds
    from explorer.tuning.calibration import read_data

    check_output(arguments.output)
    data = read_data(arguments.data)
    with Progress("calibrating") as progress:
        table = explorer.calibrate(
            arguments.model,
            data,
            method=arguments.method,
            dimensions=dict(arguments.dim),
            progress=progress,
            arithmetic=arguments.arithmetic,
        )
    write_thresholds(arguments.output, table)
    beside = path_beside(arguments.output)
    write_observations(beside, table.observations, table.model)
    if arguments.json:
        rows = [vars(threshold) for threshold in table.thresholds.values()]
        print_json({"model": table.model, "method": table.method, "thresholds": rows})
        return 0
    for warning in table.warnings:
        print_lines([f"note: {warning}"])
    wrote = f"wrote {arguments.output}, histograms {beside}"
    print_lines([f"{len(table.thresholds)} thresholds ({table.method}); {wrote}"])
    return 0
