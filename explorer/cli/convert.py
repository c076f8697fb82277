"""`explorer convert MODEL -o OUT.onnx`: a model of any format as one that others run.

    explorer convert net.tflite -o net.onnx
    explorer convert net.prototxt -o net.onnx --dim data_height=28 --dim data_width=28

Integers are written as pairs of QuantizeLinear and DequantizeLinear around floats, or, with
`--integers exact`, in whole numbers of 64 bits; tables as gathers. What ONNX has no form for is
refused by name, all of it at once.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines

SUMMARY = "write a model of another format as ONNX"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser, "a model file of any format that is read (docs/importers.md)")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT.onnx", help="the file to write"
    )
    options.add_stored_weights(parser)
    parser.add_argument(
        "--integers",
        choices=("pairs", "exact"),
        default="pairs",
        help="how arithmetic on integers is written: pairs of QuantizeLinear and "
        "DequantizeLinear, which runtimes fuse and round in their own way, or whole numbers, "
        "slower, and equal to the bit (default: pairs)",
    )
    options.add_dimensions(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer

    with Progress("converting") as progress:
        model = explorer.convert(
            options.model_of(arguments),
            arguments.output,
            dimensions=dict(arguments.dim),
            weights=arguments.stored_weights,
            integers=arguments.integers,
            progress=progress,
        )
    if arguments.json:
        operators = sorted({node.op_type for node in model.graph.node})
        print_json(
            {
                "model": model.graph.name,
                "opset": model.opset_import[0].version,
                "nodes": len(model.graph.node),
                "operators": operators,
            }
        )
        return 0
    print_lines([f"{len(model.graph.node)} nodes; wrote {arguments.output}"])
    return 0
