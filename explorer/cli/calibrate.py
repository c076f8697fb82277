"""`explorer calibrate MODEL --data FILE.npz -o TABLE`: thresholds for quantizing a float model.

    explorer calibrate net.onnx --data images.npz -o net.table
    explorer check net.onnx --quantize net.table --input image.npz

Arrays are named as the model's inputs; their first axis counts examples. What a calibration that
was interrupted had seen lies beside the table, and the next one with the same data goes on there.
Beside the table lies as well what was seen of every tensor (its histogram, what all methods say),
in `net.table.observed.npz`: views show it; and `net.table.corrections.npz`, which the table names.

    explorer calibrate net.onnx --weights-only int4 --block 32 -o net.table
    explorer calibrate net.onnx --weights-only int4 --block 32 --data texts.npz -o net.table

make tables that quantize weights alone: to the nearest integers, or by GPTQ over the data.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.data import add_data, chosen_of, read_asked
from explorer.cli.terminal import Progress, print_json, print_lines
from explorer.errors import InputError
from explorer.files import check_output

if TYPE_CHECKING:
    from explorer.quantization.table import ThresholdTable

SUMMARY = "find thresholds for quantizing a model, from data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    add_data(parser)
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
        "(default: adaround; with best also what it finds to be better for the outputs)",
    )
    parser.add_argument(
        "--weights-only",
        choices=("int4", "uint4", "int8", "uint8"),
        help="quantize the weights of matrix products alone, in blocks of rows: those with a sign "
        "lie around zero, the others have a zero point for each block",
    )
    parser.add_argument(
        "--block",
        type=options.count,
        default=32,
        metavar="ROWS",
        help="with --weights-only: rows that share a scale (default: 32)",
    )
    parser.add_argument(
        "--rounding",
        choices=("nearest", "gptq"),
        default="",
        help="with --weights-only: each to the nearest, which takes no data, or so that sums err "
        "least (default: gptq where there are data)",
    )
    parser.add_argument(
        "--arithmetic",
        default="float",
        metavar="A",
        help="that of the target: float, or integer where nothing is to be computed in floats, "
        "which takes thresholds of more tensors (default: float)",
    )
    parser.add_argument(
        "--weight-bits",
        type=int,
        choices=(8, 4),
        default=8,
        metavar="N",
        help="that weights take next to activations of 8 bits: 8, or 4 for arrays with "
        "weight_bits = 4 (default: 8)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="TABLE", help="the file to write"
    )
    options.add_dimensions(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.quantization.observations import path_beside, write_observations
    from explorer.quantization.table import corrections_beside, write_thresholds
    from explorer.tuning.calibration_state import SUFFIX

    check_output(arguments.output)
    if arguments.data is None and arguments.cases is None and not arguments.weights_only:
        raise InputError(
            "thresholds come from data: one of --data and --cases is required",
            hint="--weights-only int4 quantizes weights alone, which takes none",
        )
    model = explorer.load(options.model_of(arguments))
    data = read_asked(arguments, model)
    with Progress("calibrating") as progress:
        table = explorer.calibrate(
            model,
            None if data is None else data.arrays,
            method=arguments.method,
            corrections=arguments.corrections,
            dimensions=dict(arguments.dim),
            progress=progress,
            chosen=chosen_of(arguments),
            state=arguments.output.with_name(f"{arguments.output.name}{SUFFIX}"),
            arithmetic=arguments.arithmetic,
            weights=arguments.weights_only or "",
            block=arguments.block,
            rounding=arguments.rounding,
            weight_bits=arguments.weight_bits,
        )
    write_thresholds(arguments.output, table)
    beside = path_beside(arguments.output)
    if table.observations:
        write_observations(beside, table.observations, table.model)
    if arguments.json:
        print_json(_as_json(table))
        return 0
    kinds = "" if table.corrections is None else f", {', '.join(table.corrections.kinds)}"
    what = f"{len(table.thresholds)} thresholds ({table.method}{kinds})"
    if table.weights is not None:
        what = f"weights as {table.weights}, by {table.method}"
    wrote = f"wrote {arguments.output}"
    if table.observations:
        wrote += f", histograms {beside}"
    if table.corrections is not None:
        wrote += f", corrections {corrections_beside(arguments.output)}"
    print_lines([*(f"note: {warning}" for warning in table.warnings), f"{what}; {wrote}"])
    return 0


def _as_json(table: ThresholdTable) -> dict:
    from explorer.quantization.corrections.record import effects_of

    form = table.weights
    return {
        "model": table.model,
        "method": table.method,
        "thresholds": [vars(threshold) for threshold in table.thresholds.values()],
        "weight_bits": table.weight_bits,
        "weights": None if form is None else {"type": form.name, "block": form.block},
        "corrections": {} if table.corrections is None else effects_of(table.corrections),
        "warnings": list(table.warnings),
    }
