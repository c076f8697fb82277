"""`explorer calibrate MODEL --data FILE.npz -o TABLE`: thresholds for quantizing a float model.

    explorer calibrate net.onnx --data images.npz -o net.table
    explorer check net.onnx --quantize net.table --input image.npz

Arrays are named as the model's inputs; their first axis counts examples. What a calibration that
was interrupted had seen lies beside the table, and the next one with the same data goes on there.
What was seen of every tensor (its histogram, what all methods say) lies beside the table as well,
in TABLE.observed.npz: views show it.
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
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument(
        "--data",
        type=Path,
        nargs="+",
        metavar="FILE.npz",
        help="one array per input, by name; the first axis counts examples. Several files, and "
        "folders of them, follow one another; they need not fit into memory",
    )
    data.add_argument(
        "--cases",
        type=Path,
        metavar="TOML",
        help="the inputs or labelled data of the model's case (docs/checking-models.md)",
    )
    parser.add_argument(
        "--files", type=Path, metavar="FOLDER", help="what paths of the cases start from"
    )
    parser.add_argument(
        "--examples",
        type=options.count,
        default=0,
        metavar="N",
        help="so many examples, chosen at random (default: all)",
    )
    parser.add_argument(
        "--seed", type=options.amount, default=0, metavar="S", help="of that choice (default: 0)"
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
    from explorer.tuning.calibration_state import SUFFIX
    from explorer.tuning.examples import Chosen, read_case_data, read_data

    check_output(arguments.output)
    model = explorer.load(arguments.model)
    if arguments.cases is not None:
        data = read_case_data(arguments.cases, model, arguments.files)
    else:
        data = read_data(arguments.data)
    with Progress("calibrating") as progress:
        table = explorer.calibrate(
            model,
            data,
            method=arguments.method,
            dimensions=dict(arguments.dim),
            progress=progress,
            chosen=Chosen(arguments.examples, arguments.seed),
            state=arguments.output.with_name(f"{arguments.output.name}{SUFFIX}"),
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
