"""`explorer edit MODEL EDIT ... -o OUT.onnx`: cut, rename, change and delete in an ONNX model.

explorer edit net.onnx "cut conv1_out : relu3_out" -o part.onnx
explorer edit net.onnx "delete dropout1" "outputs logits, features" -o net2.onnx
explorer edit net.onnx "attribute conv1.strides = [1, 1]" "value conv1.bias = 0" -o net2.onnx
explorer edit net.onnx "rename Conv_12 = stem" -o net2.onnx
"""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines

SUMMARY = "cut, rename, change and delete in an ONNX model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser, "an ONNX model")
    parser.add_argument(
        "edits",
        nargs="+",
        metavar="EDIT",
        help="`cut IN, ... : OUT, ...`, `outputs OUT, ...`, `rename OLD = NEW`, "
        "`attribute NODE.NAME = JSON` (null takes it away), `value WEIGHT = JSON` (a number for "
        "all elements, or lists), `delete NODE` (its readers read what it read); in this order",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT.onnx", help="the file to write"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.editing.edits import edit_text, parse_edits
    from explorer.files import check_output

    check_output(arguments.output)
    edits = parse_edits(arguments.edits)
    model = explorer.load(options.model_of(arguments))
    edited = explorer.edit(model, [edit_text(edit) for edit in edits], arguments.output)
    inputs = [value.name for value in edited.inputs]
    outputs = [value.name for value in edited.outputs]
    if arguments.json:
        print_json(
            {
                "edits": [edit_text(edit) for edit in edits],
                "nodes": [len(model.nodes), len(edited.nodes)],
                "inputs": inputs,
                "outputs": outputs,
            }
        )
        return 0
    before, after = len(model.nodes), len(edited.nodes)
    print_lines(
        [
            f"wrote {arguments.output}: {before:,} -> {after:,} nodes, "
            f"inputs {', '.join(inputs)}, outputs {', '.join(outputs)}"
        ]
    )
    return 0
