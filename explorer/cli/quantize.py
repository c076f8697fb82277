"""`explorer quantize MODEL --table TABLE -o OUT.onnx`: a quantized model that others run.

    explorer calibrate net.onnx --data images.npz -o net.table
    explorer quantize net.onnx --table net.table -o net.int8.onnx

The file holds pairs of QuantizeLinear and DequantizeLinear around floats, which onnxruntime and
others compute in integers; of a table of weights alone, weights as integers in blocks
(DequantizeLinear with `block_size`). Read back, it is the program that `--quantize` makes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines
from explorer.files import check_output

SUMMARY = "write a quantized model as ONNX, by a table of thresholds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    parser.add_argument(
        "--table",
        type=Path,
        required=True,
        metavar="TABLE",
        help="thresholds by tensor (explorer calibrate makes them)",
    )
    parser.add_argument(
        "--qtable",
        type=Path,
        metavar="FILE",
        help="tensors that are INT16 or F32 instead of INT8",
    )
    options.add_stored_weights(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT.onnx", help="the file to write"
    )
    options.add_dimensions(parser)
    options.add_decisions(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.quantization.quantize_tensors import QuantizeTensors
    from explorer.quantization.quantize_weights import QuantizeWeights
    from explorer.quantization.remaining import float_operations, float_weights, narrow_weights
    from explorer.results.names import listed
    from explorer.views.catalog.quantization import blocked_words

    check_output(arguments.output)
    with Progress("quantizing") as progress:
        c = explorer.compile(
            options.model_of(arguments),
            dimensions=dict(arguments.dim),
            decisions=options.decisions_of(arguments),
            quantization=arguments.table,
            modes=arguments.qtable,
            tuned=False,
            progress=progress,
        )
    model = c.to_onnx(arguments.output, weights=arguments.stored_weights)
    table = c.settings.quantization
    assert table is not None
    if table.weights is None:
        floats = float_operations(c[QuantizeTensors.name].after)
        kept = [name for name in table.thresholds if table.mode(name) == "F32"]
        counts = {"tensors": len(table.thresholds) - len(kept), "weights": 0}
    else:
        quantized = c[QuantizeWeights.name].after
        floats = float_weights(quantized)
        counts = {"tensors": 0, "weights": narrow_weights(quantized)}
    record = c.quantization
    if arguments.json:
        blocks = () if record is None else record.blocks
        print_json(
            {
                "model": c.model.name,
                "opset": model.opset_import[0].version,
                "nodes": len(model.graph.node),
                **counts,
                "blocks": [vars(weights) for weights in blocks],
                "float": [vars(operation) for operation in floats],
            }
        )
        return 0
    by_reason: dict[str, list[str]] = {}
    for operation in floats:
        by_reason.setdefault(operation.reason, []).append(f"{operation.name} ({operation.kind})")
    print_lines(
        f"{len(names)} operations stay float ({reason}): {listed(names)}"
        for reason, names in by_reason.items()
    )
    if record is not None and record.blocks:
        print_lines([blocked_words(record)])
    what, count = max(counts.items(), key=lambda item: item[1])
    print_lines([f"{count} {what} quantized; wrote {arguments.output}"])
    return 0
